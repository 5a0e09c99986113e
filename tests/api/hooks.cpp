// Hooks of a host: memory, threads, the log. What was allocated is freed with its size, results are
// those of an engine without hooks, and a host that fails ends the call with an error.

#include "world.h"

#include "dllm/dllm.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

// An allocator that keeps its books, and a task system of short-lived threads.
struct TestHost {
  std::mutex mutex;
  std::map<void*, int64_t> living;
  int64_t allocated = 0, freed = 0, largest = 0, wrong_sizes = 0, refused_from = 0; // bytes
  std::atomic<int64_t> jobs{0}, chunks{0};
  std::set<std::thread::id> threads;

  dllm::Host hooks;
  TestHost() {
    hooks.allocate = [this](int64_t size, int64_t alignment) -> void* {
      const std::lock_guard lock(mutex);
      if (refused_from > 0 && size >= refused_from) return nullptr;
      void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
      living[memory] = size;
      allocated += size;
      largest = std::max(largest, size);
      return memory;
    };
    hooks.deallocate = [this](void* memory, int64_t size) {
      const std::lock_guard lock(mutex);
      const auto found = living.find(memory);
      if (found == living.end() || found->second != size) ++wrong_sizes;
      if (found != living.end()) living.erase(found);
      freed += size;
      std::free(memory);
    };
    hooks.parallel = [this](int64_t count, const std::function<void(int64_t)>& chunk) {
      ++jobs;
      std::thread other([&] { // odd indices there, even ones here
        for (int64_t i = 1; i < count; i += 2) run(chunk, i);
      });
      for (int64_t i = 0; i < count; i += 2) run(chunk, i);
      other.join();
    };
  }
  void run(const std::function<void(int64_t)>& chunk, int64_t index) {
    chunk(index);
    ++chunks;
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  }
};

struct Done {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  double loss = 0;
  bool operator==(const Done&) const = default;
};

// A model on this engine: three training steps, then a request.
Done use(const world& w, const dllm::Engine& engine) {
  dllm::Model model(make_model(engine.get(), w.tok, 64, 2, w.err));
  dllm::Loader loader(make_loader(w.data, R"({"batch": 4, "length": 32, "epochs": 0})", w.err));
  dllm::Trainer trainer(make_trainer(model.get(), R"({"lr": 0.001})", w.err));
  Done done;
  for (int i = 0; i < 3; ++i) done.loss = trainer.step(*loader.next());
  dllm::Decoder decoder(model, {{"steps", 4}, {"gen_length", 12}});
  decoder.start(std::array{5, 6, 7}, 3);
  decoder.run();
  done.ids = decoder.ids();
  done.weights = model.param("model.norm.weight").read<float>();
  return done;
}

void test_engine(const world& w) {
  dllm::Engine plain({{"threads", 3}});
  const Done expected = use(w, plain);
  TestHost host;
  {
    dllm::Engine engine(host.hooks, {{"threads", 3}});
    CHECK(use(w, engine) == expected);
    CHECK(host.allocated > 100000 && host.largest > 10000);
    CHECK(host.jobs.load() > 0 && host.chunks.load() > host.jobs.load());
    CHECK(host.threads.size() > 1);
    // What the engine counts is what it took, but for the ends of blocks.
    const std::lock_guard lock(host.mutex);
    const auto blocks = static_cast<int64_t>(host.living.size());
    const int64_t used = engine.i64("memory_used"), taken = host.allocated - host.freed;
    CHECK(taken >= used && taken <= used + 128 * blocks);
  }
  std::printf("# %lld bytes of the host, %lld jobs\n", static_cast<long long>(host.allocated),
              static_cast<long long>(host.jobs.load()));
  CHECK(host.living.empty() && host.allocated == host.freed && host.wrong_sizes == 0);
}

// Released while a step is suspended, while the model is held by a decoder alone, after a failure.
void test_balance(const world& w) {
  TestHost host;
  for (int i = 0; i < 3; ++i) {
    dllm::Engine engine(host.hooks, {{"threads", 2}});
    dllm::Model model(make_model(engine.get(), w.tok, 64, 2, w.err));
    dllm::Decoder decoder(model, {{"steps", 4}, {"gen_length", 12}});
    decoder.start(std::array{5, 6, 7}, 3);
    engine.reset();
    model.reset();
    for (int slice = 0; slice < 4; ++slice) decoder.step_for(std::chrono::milliseconds(0));
    CHECK(decoder.is_suspended());
  }
  CHECK(host.living.empty() && host.allocated == host.freed && host.wrong_sizes == 0);
}

void test_refusals(const world& w) {
  TestHost host;
  dllm::Engine engine(host.hooks, {{"threads", 2}});
  host.refused_from = 20000;
  dllm_model* model = nullptr;
  const char config[] =
      R"({"model_type": "llama", "vocab_size": 290, "hidden_size": 256, "num_hidden_layers": 2,
                            "num_attention_heads": 4, "intermediate_size": 512})";
  CHECK(dllm_model_new(engine.get(), config, sizeof config - 1, nullptr, nullptr, &model, w.err) ==
        DLLM_RESOURCE_EXHAUSTED);
  host.refused_from = 0;
  NEED(dllm_model_new(engine.get(), config, sizeof config - 1, nullptr, nullptr, &model, w.err),
       w.err);
  dllm_model_release(model);
  // Half an allocator, and plugins, which have their own.
  host.hooks.deallocate = nullptr;
  CHECK(dllm::attempt([&] { dllm::Engine bad(host.hooks); }).error().status() ==
        DLLM_INVALID_ARGUMENT);
  dllm::Host threads;
  threads.parallel = [](int64_t, const std::function<void(int64_t)>&) {};
  CHECK(dllm::attempt([&] {
          dllm::Engine bad(threads, {{"kind", "pjrt"}});
        })
            .error()
            .status() == DLLM_UNIMPLEMENTED);
  CHECK(dllm::attempt([&] {
          dllm::Engine bad(threads, {{"thread_pool", "openmp"}});
        })
            .error()
            .status() == DLLM_INVALID_ARGUMENT);
  host.hooks.deallocate = [&](void* memory, int64_t) { std::free(memory); };
}

// A task system that forgets a part, or throws: an error, never a number that is not there.
void test_bad_runners(const world& w) {
  dllm::Host forgets, throws;
  forgets.parallel = [](int64_t count, const std::function<void(int64_t)>& chunk) {
    for (int64_t i = 1; i < count; ++i) chunk(i);
  };
  throws.parallel = [](int64_t, const std::function<void(int64_t)>&) { throw 7; };
  for (dllm::Host* host : {&forgets, &throws}) {
    dllm::Engine engine(*host, {{"threads", 2}});
    const auto result = dllm::attempt([&] {
      dllm::Model model = dllm::Model::from_config(
          engine,
          R"({"model_type": "llama", "vocab_size": 290, "hidden_size": 256, "num_hidden_layers": 2,
                      "num_attention_heads": 4, "intermediate_size": 512})");
      dllm::Batch batch;
      batch.set("ids", {4, 64}, std::vector<int32_t>(256, 5));
      model.forward(batch);
    });
    CHECK(!result && result.error().status() == DLLM_INTERNAL);
    if (!result) std::printf("# %s\n", result.error().what());
  }
  (void)w;
}

struct Lines {
  std::vector<std::string> seen;
  int32_t level = 0;
};

// Something that logs: a checkpoint restored over a sink that cannot be cut, or the library's own
// warning of threads.
void test_log(const world& w) {
  Lines lines;
  const auto keep = [](int32_t level, const char* line, void* user_data) {
    auto& all = *static_cast<Lines*>(user_data);
    all.seen.emplace_back(line);
    all.level = level;
    dllm_log_hook(DLLM_LOG_DEBUG, nullptr, nullptr); // inside of the function: nothing
  };
  dllm::log_hook(DLLM_LOG_DEBUG, keep, &lines);
  dllm::Engine engine({{"threads", 2}});
  use(w, engine);
  dllm::log_hook(99, nullptr); // out of range: changes nothing
  const size_t seen = lines.seen.size();
  std::printf("# %zu lines of the log, the last at level %d\n", seen, lines.level);
  dllm::log_config(DLLM_LOG_DEBUG, DLLM_SINK_NONE);
  use(w, engine);
  CHECK(lines.seen.size() == seen); // taken away
}

} // namespace

int main() {
  world w{};
  open_world(&w, 1);
  test_engine(w);
  test_balance(w);
  test_refusals(w);
  test_bad_runners(w);
  test_log(w);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
