#pragma once
// What an engine, its programs and its arrays share; destroyed with the last of them.

#include "base/options.h"
#include "pjrt/client.h"
#include "pjrt/emit/emit.h"
#include "pjrt/executable.h"
#include "pjrt/executable_cache.h"
#include "pjrt/run.h"

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

namespace dllm::pjrt {

// Counts of one engine. Any thread.
struct Counters {
  std::atomic<int64_t> compiles{0};    // programs a compiler was asked for
  std::atomic<int64_t> cache_hits{0};  // programs that came from disk instead
  std::atomic<int64_t> round_trips{0}; // times the host waited for numbers: see DeviceBuffer::read
  std::atomic<int64_t> live_bytes{0};  // of arrays handed out
  std::atomic<int64_t> peak_bytes{0};

  void add_bytes(int64_t bytes);
  void remove_bytes(int64_t bytes) { live_bytes.fetch_sub(bytes, std::memory_order_relaxed); }
};

// A program that was compiled or came from the cache.
struct Built {
  std::shared_ptr<const Executable> executable;
  bool from_cache = false;
  double seconds = 0;
};

// Any thread.
class EngineState {
public:
  explicit EngineState(const Options& options);
  ~EngineState() { runs_.drain(); }
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  const Client& client() const { return *client_; }
  const Device& device() const { return client_->devices()[device_]; }
  bool on_cpu() const { return client_->platform_name() == "cpu"; }
  const EmitOptions& emit_options() const { return emit_; }
  Counters& counters() { return counters_; }
  RunQueue& runs() { return runs_; }
  const ExecutableCache& cache() const { return cache_; }

  // StableHLO text as an executable of this engine's device: from the cache when it is there and
  // loads, else from the compiler. Counted.
  Built build(std::string_view program);

private:
  std::string key(std::string_view program, const CompileOptions& options) const;
  std::shared_ptr<const Executable> load_cached(const std::string& key);

  std::shared_ptr<const Client> client_;
  size_t device_;
  EmitOptions emit_;
  CompileOptions compile_;
  Counters counters_;
  RunQueue runs_;
  ExecutableCache cache_;
  std::string library_; // library_identity of the plugin, when there is a cache
};

} // namespace dllm::pjrt
