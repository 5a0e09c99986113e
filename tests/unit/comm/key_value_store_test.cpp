// A store of keys and values that processes share: what comes, what does not, and how a wait ends.

#include "comm/key_value_store.h"

#include "base/error.h"
#include "unit/comm/process_links.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace dllm::comm {
namespace {

using dllm::test::error_of;
using dllm::test::expect_error;
using test::make_process_links;
using Milliseconds = KeyValueStore::Milliseconds;

constexpr Milliseconds kLong(60000), kShort(30);

std::string bytes(size_t count) {
  std::string made(count, '\0');
  for (size_t i = 0; i < count; ++i) made[i] = static_cast<char>(i * 31 % 251);
  return made;
}

// Sizes around the messages of 2 KiB that a value is cut into, and an empty one.
TEST(KeyValueStore, EveryProcessSeesWhatAnyPuts) {
  const auto links = make_process_links(3);
  const size_t sizes[] = {0, 1, 2000, 2015, 2016, 2017, 4096, 100000};
  for (size_t writer = 0; writer < 3; ++writer) {
    for (const size_t size : sizes)
      links[writer].store->put("key " + std::to_string(size) + std::string(1, '\0') +
                                   std::to_string(writer),
                               bytes(size));
  }
  for (size_t writer = 0; writer < 3; ++writer) {
    for (const size_t size : sizes) {
      const std::string key =
          "key " + std::to_string(size) + std::string(1, '\0') + std::to_string(writer);
      for (const auto& link : links) {
        EXPECT_EQ(link.store->get(key, kLong), bytes(size));
        EXPECT_EQ(link.store->find(key), bytes(size));
      }
    }
  }
}

TEST(KeyValueStore, AGetWaitsForThePutOfAnotherProcess) {
  const auto links = make_process_links(2);
  EXPECT_EQ(links[0].store->find("late"), std::nullopt);
  std::atomic<int> got{0};
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 4; ++reader)
    threads.emplace_back([&] { got += links[0].store->get("late", kLong) == "value" ? 1 : 0; });
  std::this_thread::sleep_for(kShort);
  EXPECT_EQ(got, 0);
  links[1].store->put("late", "value");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, 4);
}

TEST(KeyValueStore, AKeyHasOneValue) {
  const auto links = make_process_links(2);
  links[0].store->put("key", "first");
  expect_error(Code::already_exists, "key", [&] { links[0].store->put("key", "second"); });
  expect_error(Code::already_exists, "key", [&] { links[1].store->put("key", "second"); });
  EXPECT_EQ(links[1].store->get("key", kLong), "first");
}

TEST(KeyValueStore, AWaitEndsWithItsTime) {
  const auto links = make_process_links(2);
  const Error error = error_of([&] { links[1].store->get("never\x1b[0m", kShort); });
  EXPECT_EQ(error.code(), Code::deadline_exceeded);
  EXPECT_EQ(error.text(),
            "none of 2 processes has put key never?[0m of the key-value store in 30 ms");
}

TEST(KeyValueStore, AFailureEndsTheWaitsOfAllProcesses) {
  const auto links = make_process_links(3);
  std::vector<Error> errors(3, Error(Code::ok, ""));
  std::vector<std::thread> threads;
  for (size_t process = 0; process < 2; ++process) {
    threads.emplace_back([&, process] {
      errors[process] = error_of([&] { links[process].store->get("never", kLong); });
    });
  }
  links[2].store->abort(Error(Code::not_found, "no device here"));
  for (std::thread& thread : threads) thread.join();
  for (size_t process = 0; process < 2; ++process) {
    EXPECT_EQ(errors[process].code(), Code::not_found);
    EXPECT_EQ(errors[process].text(), "rank 2 failed: no device here");
  }
  expect_error(Code::not_found, "rank 2 failed", [&] { links[2].store->get("never", kLong); });
  expect_error(Code::not_found, "rank 2 failed", [&] { links[0].store->put("more", "value"); });
}

TEST(KeyValueStore, AnEndedProcessEndsAWait) {
  const auto links = make_process_links(2, [] { return "rank 1 has ended"; });
  links[1].store->put("before", "value");
  EXPECT_EQ(links[0].store->get("before", kLong), "value") << "what it sent counts";
  const auto begin = std::chrono::steady_clock::now();
  expect_error(Code::aborted, "rank 1 has ended", [&] { links[0].store->get("never", kLong); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

} // namespace
} // namespace dllm::comm
