// Ranks that exchange messages have the bits of thread ranks, and end together when one fails.

#include "comm/message_ranks.h"

#include "base/error.h"
#include "base/task.h"
#include "comm/thread_ranks.h"
#include "mailboxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

namespace dllm::comm {
namespace {

using Ranks = std::vector<std::shared_ptr<Communicator>>;
using Floats = std::vector<float>;

// fn(rank) on a thread each; the errors by rank, Code::ok where there was none.
std::vector<Error> on_threads(const Ranks& ranks,
                              const std::function<void(Communicator& rank, size_t r)>& fn) {
  std::vector<Error> errors(ranks.size(), Error(Code::ok, ""));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        fn(*ranks[r], r);
      } catch (const Error& error) {
        errors[r] = error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<int64_t> all_of(const Communicator& rank) {
  std::vector<int64_t> group(static_cast<size_t>(rank.size()));
  std::iota(group.begin(), group.end(), int64_t{0});
  return group;
}

// Numbers whose sum depends on the order.
Floats numbers(size_t count, size_t rank) {
  Floats made(count);
  for (size_t i = 0; i < count; ++i)
    made[i] = static_cast<float>((i * 2654435761u + rank * 40503u) % 100003) * 1e-3f *
              (i % 3 == 0 ? 1e6f : 1e-3f) * (rank % 2 == 0 ? 1.0f : -1.0f);
  return made;
}

// What every rank has after every collective call, on arrays of `count` for each member.
std::vector<Floats> after_all_calls(const Ranks& ranks, int64_t count) {
  std::vector<Floats> made(ranks.size());
  const auto errors = on_threads(ranks, [&](Communicator& rank, size_t r) {
    const std::vector<int64_t> group = all_of(rank);
    const auto n = static_cast<size_t>(count), members = group.size();
    const Floats own = numbers(n, r), wide = numbers(n * members, r);
    const int64_t bytes = count * 4;
    Floats& all = made[r];
    const auto add = [&](const Floats& out) { all.insert(all.end(), out.begin(), out.end()); };
    for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
      Floats sum(n), part(n);
      rank.all_reduce(group, reduction, DType::f32, own.data(), sum.data(), count, nullptr);
      rank.reduce_scatter(group, reduction, DType::f32, wide.data(), part.data(), count, nullptr);
      add(sum);
      add(part);
    }
    Floats gathered(n * members), mixed(n * members), moved(n), pieces(n * members);
    rank.all_gather(group, own.data(), gathered.data(), bytes, nullptr);
    rank.all_to_all(group, wide.data(), mixed.data(), bytes, nullptr);
    std::vector<int64_t> target(members);
    for (size_t m = 0; m < members; ++m) target[m] = static_cast<int64_t>((m + 1) % members);
    rank.permute(group, target, own.data(), moved.data(), bytes, nullptr);
    rank.barrier(group, nullptr);
    for (const Floats& out : {gathered, mixed, moved}) add(out);
    for (const size_t to : {size_t{0}, members - 1}) {
      rank.gather(group, static_cast<int64_t>(to), own.data(), pieces.data(), bytes, nullptr);
      if (r == to) EXPECT_EQ(pieces, gathered);
      if (r == to) add(pieces);
    }
  });
  for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  return made;
}

TEST(MessageRanks, HaveTheBitsOfThreadRanks) {
  for (const int64_t size : {1, 2, 3, 4}) {
    for (const int64_t count : {1, 7, 255, 256, 257, 5000, 1200000}) {
      if (count > 5000 && size != 3) continue; // several parts of a reduction
      EXPECT_EQ(after_all_calls(test::make_message_ranks(size), count),
                after_all_calls(make_thread_ranks(size), count))
          << size << " ranks, " << count << " numbers";
    }
  }
}

// The ranks that are first at a meeting count how long they wait for the last one.
TEST(MessageRanks, CountTheirWaitForSlowerRanks) {
  for (const bool messages : {true, false}) {
    const Ranks ranks = messages ? test::make_message_ranks(3) : make_thread_ranks(3);
    on_threads(ranks, [&](Communicator& rank, size_t r) {
      rank.barrier(all_of(rank), nullptr);
      if (r == 2) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      rank.barrier(all_of(rank), nullptr);
    });
    for (const size_t r : {0, 1}) EXPECT_GE(ranks[r]->waited_us(), 40000) << messages << r;
    EXPECT_LT(ranks[2]->waited_us(), std::min(ranks[0]->waited_us(), ranks[1]->waited_us()));
  }
}

// Of n numbers a rank gives n (m - 1) / m away twice; gathered pieces go to everyone else.
TEST(MessageRanks, SendTheBytesOfTheory) {
  constexpr int64_t kCount = 6000;
  for (const bool messages : {true, false}) {
    for (const int64_t m : {2, 3, 4}) {
      const Ranks ranks = messages ? test::make_message_ranks(m) : make_thread_ranks(m);
      on_threads(ranks, [&](Communicator& rank, size_t) {
        const Floats in(static_cast<size_t>(kCount * m));
        Floats out(in.size());
        rank.all_reduce(all_of(rank), Reduction::sum, DType::f32, in.data(), out.data(), kCount,
                        nullptr);
        rank.all_gather(all_of(rank), in.data(), out.data(), 4 * kCount, nullptr);
        rank.reduce_scatter(all_of(rank), Reduction::sum, DType::f32, in.data(), out.data(), kCount,
                            nullptr);
      });
      const int64_t wanted = 4 * (2 * kCount * (m - 1) / m + 2 * kCount * (m - 1));
      for (const auto& rank : ranks) EXPECT_EQ(rank->bytes_sent(), wanted) << m << messages;
    }
  }
}

TEST(MessageRanks, GroupsKeepToThemselves) {
  const Ranks ranks = test::make_message_ranks(4);
  Floats sums(4);
  const auto errors = on_threads(ranks, [&](Communicator& rank, size_t r) {
    const auto number = static_cast<float>(1 << r);
    const auto first = static_cast<int64_t>(r % 2);
    const std::vector<int64_t> group{first, first + 2};
    rank.all_reduce(group, Reduction::sum, DType::f32, &number, &sums[r], 1, nullptr);
  });
  for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
  EXPECT_EQ(sums, (Floats{5, 10, 5, 10}));
}

TEST(MessageRanks, AFailureReachesAllAndARestartHeals) {
  const Ranks ranks = test::make_message_ranks(3);
  const auto sum = [](Communicator& rank) {
    const float one = 1;
    float total = 0;
    rank.all_reduce(all_of(rank), Reduction::sum, DType::f32, &one, &total, 1, nullptr);
    EXPECT_EQ(total, 3);
  };
  for (int i = 0; i < 3; ++i) {
    const auto errors = on_threads(ranks, [&](Communicator& rank, size_t r) {
      if (r == 2) rank.abort(Error(Code::data_loss, "a file is damaged", "look at it"));
      sum(rank);
    });
    for (const Error& error : errors) {
      EXPECT_EQ(error.code(), Code::data_loss);
      EXPECT_EQ(error.text(), "rank 2 failed: a file is damaged");
      EXPECT_EQ(error.hint(), "look at it");
    }
    for (const Error& error : on_threads(ranks, [&](Communicator&rank, size_t) {
           rank.restart(nullptr);
           sum(rank);
         }))
      EXPECT_EQ(error.code(), Code::ok) << error.text();
  }
}

TEST(MessageRanks, ACancelWhileWaitingEndsAll) {
  const Ranks ranks = test::make_message_ranks(2);
  Task task;
  const auto errors = on_threads(ranks, [&](Communicator& rank, size_t r) {
    if (r == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      task.cancel();
      while (true) rank.barrier(std::vector<int64_t>{1}, nullptr), std::this_thread::yield();
    }
    rank.barrier(std::vector<int64_t>{0}, &task);
    float in = 0, out = 0;
    rank.all_reduce(all_of(rank), Reduction::sum, DType::f32, &in, &out, 1, &task);
  });
  EXPECT_EQ(errors[0].code(), Code::cancelled);
  EXPECT_EQ(errors[1].code(), Code::cancelled);
  EXPECT_EQ(errors[1].text().find("rank 0 failed: "), 0u) << errors[1].text();
}

TEST(MessageRanks, DifferentCallsAreAnErrorAndNoHang) {
  const Ranks ranks = test::make_message_ranks(2);
  const auto errors = on_threads(ranks, [&](Communicator& rank, size_t r) {
    Floats in(600), out(600);
    rank.all_reduce(all_of(rank), Reduction::sum, DType::f32, in.data(), out.data(),
                    r == 0 ? 600 : 500, nullptr);
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.text().find("ranks disagree"), std::string::npos) << error.text();
  }
}

TEST(MessageRanks, ARankThatIsGoneIsNamed) {
  Ranks ranks = test::make_message_ranks(2);
  ranks.pop_back();
  const auto errors =
      on_threads(ranks, [](Communicator& rank, size_t) { rank.barrier(all_of(rank), nullptr); });
  EXPECT_EQ(errors[0].code(), Code::aborted);
  EXPECT_NE(errors[0].text().find("rank 1 has ended"), std::string::npos) << errors[0].text();
}

TEST(MessageRanks, AProcessThatEndedIsNamed) {
  const Ranks ranks = test::make_message_ranks(2);
  auto& rank = dynamic_cast<MessageRank&>(*ranks[0]);
  rank.watch_processes([] { return std::string("rank 1 (process 7 on here) has ended"); });
  try {
    rank.barrier(all_of(rank), nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::aborted);
    EXPECT_NE(error.text().find("process 7"), std::string::npos) << error.text();
  }
}

} // namespace
} // namespace dllm::comm
