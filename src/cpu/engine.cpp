#include "cpu/engine.h"

#include "base/error.h"
#include "base/named_table.h"
#include "cpu/buffer.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/gemm.h"
#include "cpu/program.h"
#include "graph/engine.h"
#include "graph/mesh_options.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace dllm::cpu {

EngineState::EngineState(int threads, const std::string& thread_pool, int64_t memory_limit,
                         bool check_finite, Arithmetic arithmetic,
                         std::shared_ptr<comm::Communicator> communicator, const Hooks& hooks)
    : runner_(hooks.runner), openmp_(thread_pool == "openmp"),
      ledger_(std::make_shared<MemoryLedger>(hooks.memory)), arenas_(ledger_),
      gate_(ledger_, arenas_), communicator_(std::move(communicator)), check_finite_(check_finite),
      arithmetic_(arithmetic) {
  if (arithmetic == kArithmeticInt8) check_int8_kernel();
  if (openmp_ && runner_ != nullptr) {
    fail_with_hint("leave thread_pool as it is", Code::invalid_argument,
                   "thread_pool = openmp, but the host gives a function that runs the threads");
  }
  ledger_->set_limit(memory_limit);
  set_threads(threads);
}

std::shared_ptr<ThreadPool> EngineState::pool() const {
  const std::lock_guard lock(mutex_);
  return pool_;
}

void EngineState::set_threads(int threads) {
  if (threads <= 0) threads = openmp_ ? std::min(allowed_cpus(), openmp_threads()) : allowed_cpus();
  auto pool = std::make_shared<ThreadPool>(threads, openmp_ ? openmp_runner(threads) : runner_);
  const std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
}

const char* EngineState::thread_pool() const {
  if (runner_ != nullptr) return "host";
  return openmp_ ? "openmp" : "own";
}

void EngineState::begin_run(const Task* task) {
  if (!run_failed_) return;
  communicator_->restart(task);
  std::vector<int64_t> ranks(static_cast<size_t>(communicator_->size())), finished(ranks.size());
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  communicator_->all_gather(ranks, &finished_runs_, finished.data(), sizeof finished_runs_, task);
  for (size_t r = 1; r < finished.size(); ++r) {
    if (finished[r] == finished[0]) continue;
    fail_with_hint(
        "load the last checkpoint with new engines on all ranks", Code::failed_precondition,
        "rank 0 has finished {} runs, rank {} has finished {}: a run failed on some ranks only",
        finished[0], r, finished[r]);
  }
  run_failed_ = false;
}

void EngineState::fail_run(const Error& reason) noexcept {
  run_failed_ = true;
  communicator_->abort(reason);
}

namespace {

// Returns the name of the kernel that multiplies weights in the arithmetic. Weights in formats that
// the arithmetic does not support are multiplied in f32.
std::string product_kernel(Arithmetic arithmetic) {
  if (arithmetic == kArithmeticF32) return "f32";
  return dot_kernel_name(arithmetic == kArithmeticBf16 ? PanelLayout::pairs : PanelLayout::quads);
}

class CpuEngine final : public graph::Engine {
public:
  CpuEngine(const Options& options, std::shared_ptr<comm::Communicator> communicator,
            const Hooks& hooks)
      : state_(std::make_shared<EngineState>(
            static_cast<int>(options.i64("threads")), options.str("thread_pool"),
            options.i64("memory_limit"), options.str("check") == "finite",
            arithmetic_named(options.str("arithmetic")), std::move(communicator), hooks)) {}

  std::string kind() const override { return "cpu"; }
  bool compiles_fast() const override { return true; }
  std::shared_ptr<ThreadPool> threads() const override { return state_->pool(); }

  bool runs(const graph::Placement& place) const override {
    return place.is_single() || (place.mesh.ranks() == ranks() && place.rank == rank());
  }

  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return compile(std::move(graph), graph::Placement{});
  }
  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph,
                                          const graph::Placement& place) override {
    expect_runs(place);
    auto program = std::make_shared<CpuProgram>(state_, std::move(graph), place);
    state_->compiles().fetch_add(1, std::memory_order_relaxed);
    return program;
  }

  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return make_buffer(tensor, share);
  }

  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    // Read-only bytes (a mapped file) cannot change and need no copy. A tensor needs none either
    // when only its packed form is kept.
    auto buffer = make_buffer(tensor, !tensor.writable() || !keep_plain, task);
    if (!keep_plain && has_forms(tensor.shape(), tensor.dtype()))
      buffer->drop_plain({state_->pool().get(), task});
    return buffer;
  }

  int64_t device_count() const override { return 1; }
  std::string device_name(int64_t index) const override {
    if (index != 0)
      fail(Code::out_of_range, "device {} does not exist, the cpu engine has 1", index);
    return "cpu:0";
  }

  Json describe() const override {
    const MemoryLedger& ledger = *state_->ledger();
    Json made{{"kind", "cpu"},
              {"devices", Json::array({device_name(0)})},
              {"threads", state_->pool()->threads()},
              {"thread_pool", state_->thread_pool()},
              {"simd", simd_target()},
              {"ranks", ranks()},
              {"check", state_->check_finite() ? "finite" : "none"},
              {"arithmetic", arithmetic_name(state_->arithmetic())},
              {"product_kernel", product_kernel(state_->arithmetic())},
              {"memory", Json{{"used", ledger.used()},
                              {"kept", ledger.kept()},
                              {"peak", ledger.peak()},
                              {"limit", ledger.limit()}}},
              {"compiles", state_->compiles().load()}};
    if (ranks() > 1) made["rank"] = rank();
    return made;
  }

  void set_i64(std::string_view key, int64_t value) override {
    const OptionSpec& spec = graph::engine_schema().find(key);
    if (key != "threads" && key != "memory_limit") {
      fail_with_hint("threads and memory_limit can be changed", Code::failed_precondition,
                     "{} of an engine is fixed when it is made", key);
    }
    if (value < 0 || static_cast<double>(value) > spec.max) {
      fail(Code::out_of_range, "{} = {} is not between 0 and {}", key, value, spec.max);
    }
    if (key == "threads") state_->set_threads(static_cast<int>(value));
    if (key == "memory_limit") state_->ledger()->set_limit(value);
  }

  int64_t i64(std::string_view key) const override {
    struct Number {
      const char* name;
      int64_t (*value)(const CpuEngine&);
    };
    static constexpr Number kNumbers[] = {
        {"rank", [](const CpuEngine& e) { return e.rank(); }},
        {"ranks", [](const CpuEngine& e) { return e.ranks(); }},
        {"threads", [](const CpuEngine& e) { return int64_t{e.state_->pool()->threads()}; }},
        {"memory_used", [](const CpuEngine& e) { return e.state_->ledger()->used(); }},
        {"memory_peak", [](const CpuEngine& e) { return e.state_->ledger()->peak(); }},
        {"memory_limit", [](const CpuEngine& e) { return e.state_->ledger()->limit(); }},
        {"compiles", [](const CpuEngine& e) { return e.state_->compiles().load(); }},
        {"round_trips", [](const CpuEngine&) { return int64_t{0}; }},
        {"bytes_sent", [](const CpuEngine& e) { return e.bytes_sent(); }},
        {"rank_wait_us", [](const CpuEngine& e) { return e.waited_us(); }},
    };
    return need_named(kNumbers, key, &Number::name, {"number", "of an engine"}).value(*this);
  }

  double peak_flops() override {
    const std::lock_guard lock(measuring_);
    const std::shared_ptr<ThreadPool> pool = state_->pool();
    if (measured_threads_ != pool->threads()) {
      measured_flops_ = measure_peak_flops(pool.get(), pool->threads());
      measured_threads_ = pool->threads();
    }
    return measured_flops_;
  }

  void trim() override {
    state_->arenas().trim();
    state_->ledger()->drop_kept();
  }

private:
  int64_t rank() const {
    return state_->communicator() == nullptr ? 0 : state_->communicator()->rank();
  }
  int64_t ranks() const {
    return state_->communicator() == nullptr ? 1 : state_->communicator()->size();
  }
  int64_t bytes_sent() const {
    return state_->communicator() == nullptr ? 0 : state_->communicator()->bytes_sent();
  }
  int64_t waited_us() const {
    return state_->communicator() == nullptr ? 0 : state_->communicator()->waited_us();
  }

  std::shared_ptr<CpuBuffer> make_buffer(const Tensor& tensor, bool share,
                                         const Task* task = nullptr) const {
    if (!tensor.defined()) fail(Code::invalid_argument, "the tensor to upload has no array");
    if (share && tensor.count() > 0)
      return std::make_shared<CpuBuffer>(state_->ledger(), tensor, state_->arithmetic());
    auto block = std::make_shared<Block>(state_->ledger(), tensor.byte_size(), "an array");
    copy_in_pieces(block->data(), tensor.bytes(), tensor.byte_size(), task);
    return std::make_shared<CpuBuffer>(state_->ledger(), tensor.dtype(), tensor.shape(),
                                       std::move(block), tensor.format(), state_->arithmetic());
  }

  std::shared_ptr<EngineState> state_;
  std::mutex measuring_;
  int measured_threads_ = 0;
  double measured_flops_ = 0;
};

} // namespace

std::shared_ptr<graph::Engine> make_engine(const Options& options, const Hooks& hooks) {
  if (options.str("processes") == "mpi") return make_process_engine(options, hooks);
  const graph::Mesh mesh = graph::mesh_of(options);
  if (mesh.ranks() > 1) return make_ranks_engine(options, mesh, hooks);
  return std::make_shared<CpuEngine>(options, nullptr, hooks);
}

std::shared_ptr<graph::Engine> make_rank_engine(const Options& options,
                                                std::shared_ptr<comm::Communicator> communicator,
                                                const Hooks& hooks) {
  return std::make_shared<CpuEngine>(options, std::move(communicator), hooks);
}

} // namespace dllm::cpu
