#include "generate/queue/queue.h"

#include "base/error.h"
#include "generate/queue/durations.h"
#include "generate/queue/fair_order.h"
#include "texts.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace dllm::generate {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60000};

Options of_queue(const Json& values) {
  Options options(queue_schema());
  options.set_json(values);
  return options;
}

Options how(const Json& values = Json::object()) {
  Options options(submission_schema());
  options.set_json(values);
  return options;
}

Queue make(const Json& values = Json::object()) {
  return Queue(small_model(), letters(), of_queue(values));
}

// Requests of several policies, lengths, seeds and ends.
Json random_request(std::mt19937& random) {
  static const std::vector<std::string> kPolicies = {"low_confidence", "random", "entropy_bound"};
  Json made = {{"prompt", std::string(random() % 12, 'q')},
               {"length", 1 + random() % 24},
               {"temperature", 0.5 + static_cast<double>(random() % 3) / 2},
               {"seed", random() % 100}};
  if (random() % 2 == 0) made["policy"] = kPolicies[random() % kPolicies.size()];
  if (random() % 3 == 0) made["stop"] = {std::string(1, static_cast<char>('a' + random() % 26))};
  if (random() % 4 == 0) made["block_length"] = 1 + random() % 8;
  if (random() % 3 == 0 && !made.contains("stop"))
    made["regex"] = "[a-m]*"; // shares passes with requests without one
  return made;
}

template <class F> Code code(F&& f) {
  return test::error_of(std::forward<F>(f)).code();
}

void wait_for_end(Queue& queue, int64_t number) {
  for (Queue::Progress now{0, false}; !now.is_over;) now = queue.wait(number, now.version, kLong);
}

std::string text_of(Queue& queue, int64_t number) {
  wait_for_end(queue, number);
  return queue.text(number, TextPart::completion);
}

std::string text_alone(const Json& values) {
  static Generator generator(small_model(), letters(), settings());
  const int64_t number = generator.add(request(values));
  generator.run();
  std::string text = generator.text(number, TextPart::completion);
  generator.remove(number);
  return text;
}

// From several threads, with few slots: every text is that of the request alone, and the pieces
// that a reader gets while it is decoded are the text.
TEST(Queue, TextsAreThoseOfRequestsAlone) {
  constexpr int kThreads = 4, kEach = 12;
  std::mt19937 random(11);
  std::vector<Json> requests(kThreads * kEach);
  for (Json& values : requests) values = random_request(random);
  Queue queue = make({{"slots", 3}});
  std::vector<std::string> texts(requests.size()), pieces(requests.size());
  const auto ask = [&](size_t first) {
    std::vector<int64_t> numbers;
    for (size_t i = first; i < first + kEach; ++i)
      numbers.push_back(queue.submit(request(requests[i]), how({{"client", "a"}})));
    for (size_t i = 0; i < kEach; ++i) {
      for (Queue::Progress now{0, false}; !now.is_over;) {
        now = queue.wait(numbers[i], now.version, kLong);
        pieces[first + i] += queue.text(numbers[i], TextPart::next);
      }
      texts[first + i] = queue.text(numbers[i], TextPart::completion);
      queue.remove(numbers[i]);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(ask, i * kEach);
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(texts[i], text_alone(requests[i])) << requests[i];
    EXPECT_EQ(pieces[i], texts[i]) << requests[i];
  }
  const Json all = queue.describe();
  EXPECT_EQ(all.at("totals").at("completed"), requests.size());
  EXPECT_EQ(all.at("decoding"), 0);
  EXPECT_EQ(all.at("over"), 0);
}

// A description is of one moment: a request that is over has its end and its whole text.
TEST(Queue, ADescriptionIsOfOneMoment) {
  constexpr int kRequests = 300;
  Queue queue = make({{"slots", 1}});
  for (int i = 0; i < kRequests; ++i) {
    const Json values = {{"prompt", "a"}, {"length", 3}, {"steps", 3}, {"seed", i}};
    const int64_t number = queue.submit(request(values), how());
    Json now;
    do {
      now = queue.describe(number);
      const bool is_over = now.at("phase") == "over";
      ASSERT_EQ(is_over, now.at("finish") != "open") << now;
      ASSERT_EQ(is_over, now.at("open") == 0) << now;
    } while (now.at("phase") != "over");
    ASSERT_EQ(now.at("completion"), queue.text(number, TextPart::completion));
    queue.remove(number);
  }
}

// A request that takes long: many steps of one token each.
Json slow_request(int64_t seed = 0) {
  return {{"prompt", "a"}, {"length", 90}, {"steps", 90}, {"seed", seed}, {"stop_ids", {31}}};
}

Code code_of(Queue& queue, int64_t number) {
  try {
    queue.text(number, TextPart::completion);
  } catch (const Error& error) {
    return error.code();
  }
  return Code::ok;
}

TEST(Queue, ACancelEndsOneRequest) {
  Queue queue = make({{"slots", 2}});
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 4; ++i) numbers.push_back(queue.submit(request(slow_request(i)), how()));
  queue.wait(numbers[0], 2, kLong); // it has taken steps
  queue.cancel(numbers[0]);
  queue.cancel(numbers[3]); // it waits
  EXPECT_EQ(code_of(queue, numbers[0]), Code::cancelled);
  EXPECT_EQ(code_of(queue, numbers[3]), Code::cancelled);
  EXPECT_EQ(queue.describe(numbers[3]).at("finish"), "failed");
  for (const int64_t i : {1, 2})
    EXPECT_EQ(text_of(queue, numbers[static_cast<size_t>(i)]), text_alone(slow_request(i)));
  queue.remove(numbers[1]);
  EXPECT_EQ(test::error_text([&] { queue.text(numbers[1], TextPart::whole); }),
            "there is no request 1");
}

TEST(Queue, ARequestEndsAtItsTimeout) {
  Queue queue = make({{"slots", 1}});
  // Far more steps than a millisecond has; the second one never gets the slot.
  const int64_t late = queue.submit(request(slow_request()), how({{"timeout", 0.001}}));
  wait_for_end(queue, late);
  EXPECT_EQ(code_of(queue, late), Code::deadline_exceeded);
  EXPECT_EQ(text_of(queue, queue.submit(request(slow_request()), how({{"timeout", 1000.0}}))),
            text_alone(slow_request()));
  EXPECT_EQ(queue.describe().at("totals").at("late"), 1);
}

TEST(Queue, RefusesWhatItCannotTake) {
  Queue queue = make({{"slots", 1}, {"waiting", 2}});
  EXPECT_EQ(code([&] {
              queue.submit(request({{"infill", "no hole"}}), how());
            }),
            Code::invalid_argument);
  std::vector<int64_t> numbers;
  for (int i = 0; i < 3; ++i) numbers.push_back(queue.submit(request(slow_request()), how()));
  EXPECT_EQ(code([&] { queue.submit(request(slow_request()), how()); }), Code::resource_exhausted);
  // Longer than the model, and holes that no memory has.
  queue.remove(numbers[2]);
  std::string holes;
  for (int i = 0; i < 100000; ++i) holes += "<mask:999999>";
  for (const Json& values : {Json{{"prompt", std::string(90, 'a')}, {"length", 90}},
                             Json{{"prompt", "a"}, {"length", 1 << 24}}, Json{{"infill", holes}}})
    EXPECT_EQ(code([&] { queue.submit(request(values), how()); }), Code::out_of_range);
  EXPECT_EQ(text_of(queue, numbers[0]), text_alone(slow_request()));
}

TEST(Queue, DrainsAndForgets) {
  Queue queue = make({{"slots", 2}, {"kept", 2}});
  for (int i = 0; i < 5; ++i) queue.submit(request({{"prompt", "a"}, {"length", 4}}), how());
  queue.drain();
  EXPECT_EQ(code([&] { queue.submit(request(slow_request()), how()); }), Code::unavailable);
  const Json all = queue.describe();
  EXPECT_EQ(all.at("over"), 2);
  EXPECT_EQ(all.at("totals").at("completed"), 5);
  EXPECT_GT(all.at("totals").at("completion_tokens"), 0);
  double earlier = 0;
  for (const char* key : {"waiting", "first_text", "whole"}) {
    const Json& times = all.at("durations").at(key);
    const auto counts = times.at("counts").get<std::vector<int64_t>>();
    EXPECT_EQ(counts.size(), times.at("edges").size() + 1) << key;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 5) << key;
    EXPECT_GT(times.at("seconds"), earlier) << key << " is after what is before it";
    earlier = times.at("seconds");
  }
}

TEST(Queue, CountsTimesInTheirRanges) {
  Durations times;
  for (const double seconds : {0.0, 0.01, 0.02, 1.0, 300.0, 301.0}) times.add(seconds);
  const Json counted = times.to_json();
  EXPECT_EQ(counted.at("counts"), Json({2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_DOUBLE_EQ(counted.at("seconds"), 602.03);
}

// A queue that is destroyed with open requests ends at once, also while it computes.
TEST(Queue, IsDestroyedAtAnyTime) {
  for (int i = 0; i < 8; ++i) {
    Queue queue = make({{"slots", 1 + i % 3}});
    for (int k = 0; k < i; ++k) queue.submit(request(slow_request(k)), how());
    std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
  }
}

TEST(Queue, ACallerThatWaitsCanBeCancelled) {
  Queue queue = make();
  const int64_t number = queue.submit(request({{"prompt", "a"}, {"length", 2}}), how());
  wait_for_end(queue, number);
  EXPECT_EQ(queue.wait(number, 1000, kLong).version,
            queue.wait(number, 0, milliseconds(0)).version);
  Task task;
  task.cancel_at_check(2);
  EXPECT_EQ(code([&] { queue.wait(-1, 1000000, kLong, &task); }), Code::cancelled);
  EXPECT_EQ(queue.wait(-1, 1000000, milliseconds(1)).version, queue.describe().at("version"));
}

TEST(Queue, BeforeItsFirstStepARequestHasItsCanvas) {
  Queue queue = make({{"slots", 1}});
  const int64_t first = queue.submit(request(slow_request()), how());
  const int64_t waits = queue.submit(request({{"infill", "a<mask:3>b"}}), how());
  EXPECT_EQ(queue.text(waits, TextPart::canvas), "a<mask:3>b");
  EXPECT_EQ(queue.text(waits, TextPart::next), "a");
  EXPECT_EQ(queue.describe(waits).at("phase"), "waiting");
  queue.cancel(first);
  wait_for_end(queue, waits);
  EXPECT_EQ(queue.describe(waits).at("holes").size(), 1);
}

TEST(Queue, IsUselessInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not follow a fork";
#endif
  Queue queue = make();
  text_of(queue, queue.submit(request({{"prompt", "a"}, {"length", 2}}), how()));
  auto* other = new Queue(small_model(), letters(), of_queue(Json::object()));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused = code([&] { queue.wait(0, 0, kLong); }) == Code::failed_precondition;
    delete other; // does not hang
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  delete other;
}

// Two clients, one with ten times the requests: each gets every second turn while both wait.
TEST(FairOrder, ClientsShare) {
  FairOrder order;
  int64_t next = 0;
  std::map<int64_t, std::string> owner;
  const auto add = [&](const std::string& client, int count, int64_t priority = 0) {
    for (int i = 0; i < count; ++i) {
      owner[next] = client;
      order.add(next++, priority, client, 10);
    }
  };
  add("many", 20);
  add("few", 2);
  std::vector<std::string> turns;
  for (int i = 0; i < 5; ++i) turns.push_back(owner.at(*order.take()));
  EXPECT_EQ(turns, (std::vector<std::string>{"many", "few", "many", "few", "many"}));
  add("late", 1); // it has no credit for the time when it was idle, and does not wait for all
  add("first", 1, 5);
  EXPECT_EQ(owner.at(*order.take()), "first");
  turns.clear();
  for (int i = 0; i < 3; ++i) turns.push_back(owner.at(*order.take()));
  EXPECT_NE(std::ranges::find(turns, "late"), turns.end());
  EXPECT_TRUE(order.remove(19));
  EXPECT_FALSE(order.remove(19));
  size_t left = order.size();
  while (order.take()) --left;
  EXPECT_EQ(left, 0u);
}

} // namespace
} // namespace dllm::generate
