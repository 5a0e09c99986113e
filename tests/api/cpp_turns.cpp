// One generator of the C++ headers (dllm/dllm.hpp) in several threads: its calls wait for each
// other, and a call inside of a callback fails at once.

#include "check.h"

#include "dllm/dllm.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

dllm::Generator tiny() {
  dllm::Dataset text;
  for (int i = 0; i < 16; ++i) text.add_text("the cat sat on the mat and the dog sat on the log");
  const dllm::Tokenizer tokenizer = dllm::Tokenizer::train(text, {{"vocab_size", 280}});
  const std::string config =
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
          "max_position_embeddings": 512, "vocab_size": )" +
      std::to_string(tokenizer.size()) +
      R"(, "dllm": {"attention": "bidirectional", "mask_token_id": )" +
      std::to_string(tokenizer.id("mask")) + "}}";
  const dllm::Engine engine({{"threads", 1}});
  return {dllm::Model::from_config(engine, config, {{"seed", 3}}), tokenizer, {{"slots", 2}}};
}

// The status of the error that f throws, DLLM_OK when it throws none.
template <class F> dllm_status status_of(F&& f) {
  const auto result = dllm::attempt(std::forward<F>(f));
  return result ? DLLM_OK : result.error().status();
}

std::vector<dllm::Setting> brief(int64_t seed) {
  return {{"length", 8}, {"steps", 4}, {"seed", seed}};
}

int64_t added(dllm::Generator& generator, int64_t seed) {
  dllm::Request request(brief(seed));
  request.set("prompt", "the cat");
  return generator.add(request);
}

// More threads than slots, each with its own calls: every answer is the one of the call alone.
void test_queue(dllm::Generator& generator) {
  constexpr int64_t kThreads = 6;
  std::vector<std::string> alone;
  for (int64_t i = 0; i < kThreads; ++i)
    alone.push_back(generator.generate("the cat", dllm::Request(brief(i))).text);
  std::atomic<int> wrong{0}, failed{0};
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const auto all = dllm::attempt([&] {
        const std::string& right = alone[static_cast<std::size_t>(i)];
        for (int turn = 0; turn < 3; ++turn) {
          const auto one = generator.generate("the cat", dllm::Request(brief(i)));
          const auto list = generator.batch({"the cat", "the dog", "the cat"}, brief(i));
          if (i == 0) generator.remove(added(generator, i)); // one of the two slots
          wrong += one.text != right || !list[0] || list[0].value().text != right;
        }
      });
      if (!all) {
        std::printf("# %s\n", all.error().what());
        ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(wrong == 0);
  CHECK(dllm::JsonText(generator.describe())["requests"].whole() == 0);
}

// A run that lasts until `stop`, on a thread of its own.
class LongRun {
public:
  explicit LongRun(dllm::Generator& generator)
      : thread_([&] {
          (void)generator.generate("the cat", {{"length", 400}, {"steps", 400}},
                                   [&](std::string_view) {
                                     is_running_ = true;
                                     while (!stop_) std::this_thread::yield();
                                   });
        }) {
    while (!is_running_) std::this_thread::yield();
  }
  void stop() { stop_ = true; }
  ~LongRun() {
    stop();
    thread_.join();
  }

private:
  std::atomic<bool> is_running_{false}, stop_{false};
  std::thread thread_;
};

// A task ends the wait for the turn, and so does a deadline.
void test_wait_ends(dllm::Generator& generator) {
  LongRun run(generator);
  const dllm::Task cancelled, late, early;
  early.cancel();
  const auto generate = [&](const dllm::Task& task) {
    return status_of([&] { return generator.generate("a", dllm::Request(brief(1)), &task); });
  };
  CHECK(generate(early) == DLLM_CANCELLED);
  late.set_deadline(30);
  CHECK(generate(late) == DLLM_DEADLINE_EXCEEDED);
  CHECK(generate(late) == DLLM_DEADLINE_EXCEEDED);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled.cancel();
  });
  CHECK(generate(cancelled) == DLLM_CANCELLED);
  other.join();
  dllm::Task empty;
  empty.reset();
  CHECK(generate(empty) == DLLM_INVALID_ARGUMENT);
  run.stop();
  // A call without a task waits until the run is over.
  CHECK(generator.generate("the cat", dllm::Request(brief(1))).finish == "full");
}

// Threads get their turns in the order in which they asked.
void test_order(dllm::Generator& generator) {
  std::vector<int> order;
  std::vector<std::thread> threads;
  {
    LongRun run(generator);
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        generator.generate("the cat", dllm::Request(brief(i)), [&, i](std::string_view) {
          if (order.empty() || order.back() != i) order.push_back(i); // inside of the turn
        });
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(60)); // it waits by then
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(order == std::vector<int>({0, 1, 2, 3}));
}

// A second call of the thread, while its callback runs, fails at once. Readers work.
void test_callback(dllm::Generator& generator) {
  const auto begin = Clock::now();
  int events = 0;
  std::string said;
  const int64_t number = added(generator, 2);
  generator.run([&](const dllm::Event&) {
    ++events;
    const auto second =
        dllm::attempt([&] { return generator.generate("a", dllm::Request(brief(1))); });
    CHECK(!second && second.error().status() == DLLM_FAILED_PRECONDITION);
    if (!second) said = second.error().what();
    CHECK(status_of([&] { return generator.batch({"a"}); }) == DLLM_FAILED_PRECONDITION);
    CHECK(status_of([&] { return generator.step(); }) == DLLM_FAILED_PRECONDITION);
    CHECK(status_of([&] { generator.remove(number); }) == DLLM_FAILED_PRECONDITION);
    CHECK(!generator.text_of(number, "canvas").empty());
    CHECK(generator.generation(number).seed == 2);
  });
  std::printf("# %s\n", said.c_str());
  CHECK(events > 0 && said.find("callback") != std::string::npos);
  CHECK(generator.generation(number).finish == "full");
  generator.remove(number);
  CHECK(Clock::now() - begin < std::chrono::seconds(60));
}

// An exception of a callback ends the turn too. Objects that were moved have turns of their own.
void test_ends(dllm::Generator& generator) {
  bool thrown = false;
  try {
    generator.generate("the cat", dllm::Request(brief(1)), [](std::string_view) { throw 7; });
  } catch (int) {
    thrown = true;
  }
  CHECK(thrown);
  std::thread([&] {
    CHECK(generator.generate("the cat", dllm::Request(brief(1))).finish == "full");
  }).join();
  dllm::Generator moved = std::move(generator);
  CHECK(moved.generate("the cat", dllm::Request(brief(1))).finish == "full");
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved-from object is empty
  CHECK(status_of([&] { return generator.step(); }) == DLLM_INVALID_ARGUMENT);
  generator = std::move(moved);
  CHECK(generator.generate("the cat", dllm::Request(brief(1))).finish == "full");
}

} // namespace

int main() {
  dllm::Generator generator = tiny();
  test_queue(generator);
  test_wait_ends(generator);
  test_order(generator);
  test_callback(generator);
  test_ends(generator);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
