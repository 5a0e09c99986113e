// Implements dllm/host.h: an engine with memory and threads of a host, and the log hook.

#include "dllm/host.h"

#include "base/log.h"
#include "cpu/engine.h"
#include "handles.h"

using namespace dllm;
using namespace dllm::abi;

namespace {

class HookedMemory final : public cpu::HostMemory {
public:
  HookedMemory(dllm_allocate_fn allocate, dllm_free_fn deallocate, void* user_data)
      : allocate_(allocate), deallocate_(deallocate), user_data_(user_data) {}
  void* allocate(int64_t bytes, int64_t alignment) override {
    return allocate_(bytes, alignment, user_data_);
  }
  void free(void* memory, int64_t bytes) override { deallocate_(memory, bytes, user_data_); }

private:
  dllm_allocate_fn allocate_;
  dllm_free_fn deallocate_;
  void* user_data_;
};

class HookedRunner final : public TaskRunner {
public:
  HookedRunner(dllm_parallel_fn parallel, void* user_data)
      : parallel_(parallel), user_data_(user_data) {}
  void run(int64_t count, ChunkFn chunk, void* job) override {
    parallel_(count, chunk, job, user_data_);
  }

private:
  dllm_parallel_fn parallel_;
  void* user_data_;
};

} // namespace

dllm_status dllm_engine_new_hosted(const dllm_options* opts, dllm_allocate_fn allocate,
                                   dllm_free_fn deallocate, dllm_parallel_fn parallel,
                                   void* user_data, dllm_engine** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const Options options = options_of(opts, "engine");
    if ((allocate == nullptr) != (deallocate == nullptr))
      fail(Code::invalid_argument, "{} is NULL and the other is not",
           allocate == nullptr ? "allocate" : "deallocate");
    if (options.str("kind") != "cpu") {
      fail_with_hint("make it with dllm_engine_new", Code::unimplemented,
                     "an engine of kind {} takes no memory or threads of the host",
                     options.str("kind"));
    }
    cpu::Hooks hooks;
    if (allocate != nullptr)
      hooks.memory = std::make_shared<HookedMemory>(allocate, deallocate, user_data);
    if (parallel != nullptr) hooks.runner = std::make_shared<HookedRunner>(parallel, user_data);
    *out = new dllm_engine(cpu::make_engine(options, hooks));
  });
}

void dllm_log_hook(int32_t min_level, dllm_log_fn fn, void* user_data) {
  guard_value<int>(0, [&] {
    if (min_level < DLLM_LOG_DEBUG || min_level > DLLM_LOG_ERROR) return 0;
    std::function<void(LogLevel, const std::string&)> to;
    if (fn != nullptr) {
      to = [fn, user_data](LogLevel level, const std::string& line) {
        fn(static_cast<int32_t>(level), line.c_str(), user_data);
      };
    }
    log_hook(static_cast<LogLevel>(min_level), std::move(to));
    return 0;
  });
}
