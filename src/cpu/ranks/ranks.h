#pragma once
// The ranks of a mesh that run in this process, all of them or one. Each rank has an engine, and
// the engines meet in collective operations. To a caller they are one engine, which takes whole
// arrays, cuts them, and returns whole arrays.

#include "base/task.h"
#include "comm/communicator.h"
#include "graph/engine.h"

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dllm::cpu {

// The state that the engine of several ranks shares with its programs and buffers.
struct Ranks {
  graph::Mesh mesh;
  int64_t first = 0;                                   // rank of engines[0]
  std::vector<std::shared_ptr<graph::Engine>> engines; // of this process's ranks, in order
  std::vector<std::shared_ptr<comm::Communicator>> communicators;
  mutable std::timed_mutex running; // held during a run, because ranks must meet in one order

  int64_t count() const { return static_cast<int64_t>(engines.size()); }
  // Returns true when other ranks run in other processes.
  bool is_part() const { return count() < mesh.ranks(); }
  graph::Placement place(size_t here) const { return {mesh, first + static_cast<int64_t>(here)}; }
  // Calls fn(index into engines) for each engine, index 0 on the caller's thread and the others on
  // threads of their own. When calls fail it throws the failure that caused the others.
  void each(const std::function<void(size_t here)>& fn) const;
};

class RanksBuffer final : public graph::Buffer {
public:
  // `readable` is true when the parts together are one array with layout(). Otherwise the parts are
  // unrelated arrays, and reading fails.
  RanksBuffer(std::shared_ptr<const Ranks> ranks, std::vector<graph::BufferRef> parts,
              bool readable = true);

  const Shape& shape() const override;
  DType dtype() const override;
  Tensor read(const Task* task = nullptr) const override;
  Tensor read_part(const Task* task = nullptr) const override;
  std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                 const Task* task = nullptr) const override;
  int64_t memory_bytes() const override;                    // of this process's ranks
  std::vector<graph::BufferRef>& parts() { return parts_; } // of this process's ranks

private:
  void expect_readable() const;
  static constexpr int64_t kEverywhere = -1;
  // Gathers the parts of an array from all ranks and returns the whole, on one process or on all
  // (kEverywhere). `own` is this rank's part. Other processes get an undefined tensor.
  Tensor gathered(const Tensor& own, int64_t process, const Task* task) const;

  std::shared_ptr<const Ranks> ranks_;
  std::vector<graph::BufferRef> parts_;
  Shape shape_;
  DType dtype_;
  bool readable_;
};

// A graph that is compiled for every rank of this process.
class RanksProgram final : public graph::Program {
public:
  RanksProgram(std::shared_ptr<Ranks> ranks, std::shared_ptr<const graph::Graph> graph);

  const graph::Graph& graph() const override { return programs_[0]->graph(); }
  // Returns the report of one rank.
  const graph::PlanReport& plan() const override { return programs_[0]->plan(); }
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string find_non_finite(std::span<const graph::BufferRef> inputs, const Task* task) override;

private:
  // The lists are by rank of this process, and then by input.
  using PartLists = std::vector<std::vector<graph::BufferRef>>;
  RanksBuffer& buffer_at(std::span<const graph::BufferRef> inputs, size_t input) const;
  PartLists parts_of(std::span<const graph::BufferRef> inputs) const;

  std::shared_ptr<Ranks> ranks_;
  std::vector<std::shared_ptr<graph::Program>> programs_; // of this process's ranks
  std::vector<bool> donated_;                             // by input
};

} // namespace dllm::cpu
