// Implements the engine of the ranks in this process, which are all ranks of a mesh or one of them.
#include "cpu/engine.h"
#include "base/error.h"
#include "comm/mpi/process_ranks.h"
#include "comm/thread_ranks.h"
#include "comm/words.h"
#include "cpu/ranks/ranks.h"
#include "graph/mesh_options.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace dllm::cpu {
namespace {

// Returns the share of one of `ranks` ranks, at least 1. A whole of 0 means the default and stays
// 0.
int64_t share_of(int64_t whole, int64_t ranks) {
  return whole == 0 ? 0 : std::max<int64_t>(1, whole / ranks);
}

int64_t threads_of_rank(int64_t wanted, int64_t ranks) {
  return share_of(wanted > 0 ? wanted : allowed_cpus(), ranks);
}

class RanksEngine final : public graph::Engine {
public:
  explicit RanksEngine(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}

  std::string kind() const override { return "cpu"; }
  bool compiles_fast() const override { return true; }
  std::shared_ptr<ThreadPool> threads() const override { return first().threads(); }
  const graph::Mesh& mesh() const override { return ranks_->mesh; }

  std::shared_ptr<graph::Program> compile(std::shared_ptr<const graph::Graph> graph) override {
    return std::make_shared<RanksProgram>(ranks_, std::move(graph));
  }

  graph::BufferRef upload(const Tensor& tensor, bool share) override {
    return upload_cut(tensor, share, {});
  }
  graph::BufferRef upload_weight(const Tensor& tensor, bool keep_plain, const Task* task) override {
    return upload_weight_cut(tensor, keep_plain, {}, task);
  }
  graph::BufferRef upload_cut(const Tensor& whole, bool share,
                              const graph::Layout& layout) override {
    return of_ranks([&](graph::Engine& engine, const graph::Placement& place) {
      return engine.upload(layout.part(whole, place), share, place, layout);
    });
  }
  graph::BufferRef upload_weight_cut(const Tensor& whole, bool keep_plain,
                                     const graph::Layout& layout, const Task* task) override {
    return of_ranks([&](graph::Engine& engine, const graph::Placement& place) {
      check_task(task);
      return engine.upload_weight(layout.part(whole, place), keep_plain, place, layout, task);
    });
  }
  graph::BufferRef upload_part(const Tensor& part, bool share,
                               const graph::Layout& layout) override {
    return of_ranks([&](graph::Engine& engine, const graph::Placement& place) {
      return engine.upload(part, share, place, layout);
    });
  }
  graph::BufferRef upload_weight_part(const Tensor& part, bool keep_plain,
                                      const graph::Layout& layout, const Task* task) override {
    return of_ranks([&](graph::Engine& engine, const graph::Placement& place) {
      return engine.upload_weight(part, keep_plain, place, layout, task);
    });
  }
  graph::BufferRef upload_pieces(std::span<const Tensor> pieces, graph::AxisSet axes,
                                 bool share) override {
    const graph::Mesh& mesh = ranks_->mesh;
    if (static_cast<int64_t>(pieces.size()) != mesh.size(axes)) {
      fail(Code::invalid_argument, "got {} arrays, expected {}: one for each rank of {} on {}",
           pieces.size(), mesh.size(axes), axes.text(), mesh.text());
    }
    return of_ranks(
        [&](graph::Engine& engine, const graph::Placement& place) {
          return engine.upload(pieces[static_cast<size_t>(mesh.index(place.rank, axes))], share);
        },
        pieces.size() == 1);
  }

  int64_t processes() const override { return ranks_->is_part() ? ranks_->mesh.ranks() : 1; }
  int64_t process() const override { return ranks_->is_part() ? ranks_->first : 0; }
  std::vector<std::string> exchange(const std::string& own, const Task* task) override {
    if (!ranks_->is_part()) return {own};
    const auto turn = lock_with_task(ranks_->running, task);
    return comm::exchange_words(*ranks_->communicators[0], own, task);
  }

  int64_t device_count() const override { return ranks_->count(); }
  std::string device_name(int64_t index) const override {
    if (index < 0 || index >= ranks_->count())
      fail(Code::out_of_range, "device {} does not exist, the engine has {} ranks", index,
           ranks_->count());
    return fmt::format("cpu:{}", ranks_->first + index);
  }

  Json describe() const override {
    Json made = first().describe();
    made.erase("rank");
    Json devices = Json::array();
    for (int64_t rank = 0; rank < ranks_->count(); ++rank) devices.push_back(device_name(rank));
    made["devices"] = devices;
    made["mesh"] = ranks_->mesh.text();
    made["processes"] = processes();
    made["threads"] = i64("threads");
    made["memory"] = Json{
        {"used", i64("memory_used")}, {"peak", i64("memory_peak")}, {"limit", i64("memory_limit")}};
    return made;
  }

  void set_i64(std::string_view key, int64_t value) override {
    for (const auto& engine : ranks_->engines) {
      if (key == "threads")
        engine->set_i64(key, threads_of_rank(value, ranks_->count()));
      else
        engine->set_i64(key, key == "memory_limit" ? share_of(value, ranks_->count()) : value);
    }
  }
  int64_t i64(std::string_view key) const override {
    const bool summed = key == "threads" || key == "bytes_sent" || key.starts_with("memory_");
    if (key == "rank_wait_us") { // the longest wait of a rank
      int64_t longest = 0;
      for (const auto& engine : ranks_->engines) longest = std::max(longest, engine->i64(key));
      return longest;
    }
    if (!summed) return first().i64(key);
    return std::accumulate(
        ranks_->engines.begin(), ranks_->engines.end(), int64_t{0},
        [&](int64_t total, const auto& engine) { return total + engine->i64(key); });
  }

  // Counts only ranks that run at the same time. More ranks than processors share the processors.
  double peak_flops() override {
    const int64_t threads = std::max<int64_t>(1, first().i64("threads"));
    const int64_t at_once = std::clamp<int64_t>(allowed_cpus() / threads, 1, ranks_->count());
    return first().peak_flops() * static_cast<double>(at_once);
  }
  void trim() override {
    for (const auto& engine : ranks_->engines) engine->trim();
  }

private:
  graph::Engine& first() const { return *ranks_->engines[0]; }

  template <class Upload>
  graph::BufferRef of_ranks(const Upload& upload, bool readable = true) const {
    std::vector<graph::BufferRef> parts;
    for (size_t here = 0; here < ranks_->engines.size(); ++here)
      parts.push_back(upload(*ranks_->engines[here], ranks_->place(here)));
    return std::make_shared<RanksBuffer>(ranks_, std::move(parts), readable);
  }

  std::shared_ptr<Ranks> ranks_;
};

// Returns the mesh of the options for `processes` processes. Without the options mesh and ranks,
// all processes are on the data axis and share the rows of a batch.
graph::Mesh mesh_of_processes(const Options& options, int64_t processes) {
  const graph::Mesh mesh = graph::mesh_of(options);
  const bool is_free = options.str("mesh").empty() && options.i64("ranks") == 0;
  if (is_free) return graph::Mesh().set(graph::Axis::data, processes);
  if (mesh.ranks() == processes) return mesh;
  fail_with_hint(fmt::format("mpirun -n {}, or a mesh of {}", mesh.ranks(), processes),
                 Code::invalid_argument, "a mesh of {} needs {} processes, {} {} started",
                 mesh.text(), mesh.ranks(), processes, processes == 1 ? "was" : "were");
}

} // namespace

std::shared_ptr<graph::Engine> make_ranks_engine(const Options& options, const graph::Mesh& mesh,
                                                 const Hooks& hooks) {
  if (hooks.runner != nullptr) {
    fail_with_hint("leave mesh and ranks out", Code::invalid_argument,
                   "a mesh of {} needs a thread for every rank, but the host gives a function that "
                   "runs the threads",
                   mesh.text());
  }
  const auto ranks = std::make_shared<Ranks>();
  ranks->mesh = mesh;
  ranks->communicators = comm::make_thread_ranks(mesh.ranks());
  Options own = options;
  own.set_i64("threads", threads_of_rank(options.i64("threads"), mesh.ranks()));
  own.set_i64("memory_limit", share_of(options.i64("memory_limit"), mesh.ranks()));
  for (const auto& communicator : ranks->communicators)
    ranks->engines.push_back(make_rank_engine(own, communicator, hooks));
  return std::make_shared<RanksEngine>(ranks);
}

std::shared_ptr<graph::Engine> make_process_engine(const Options& options, const Hooks& hooks) {
  return make_process_engine(options, comm::make_process_rank(), hooks);
}

std::shared_ptr<graph::Engine> make_process_engine(const Options& options,
                                                   std::shared_ptr<comm::Communicator> communicator,
                                                   const Hooks& hooks) {
  const auto ranks = std::make_shared<Ranks>();
  ranks->mesh = mesh_of_processes(options, communicator->size());
  ranks->first = communicator->rank();
  ranks->communicators = {communicator};
  Options own = options;
  if (options.i64("threads") == 0) {
    own.set_i64("threads",
                share_of(allowed_cpus(), comm::processes_on_same_processors(*communicator)));
  }
  ranks->engines = {make_rank_engine(own, communicator, hooks)};
  return std::make_shared<RanksEngine>(ranks);
}

} // namespace dllm::cpu
