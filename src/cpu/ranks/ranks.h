#pragma once
// The ranks of a mesh that this process has, all or one of them: an engine each, that meet in collective operations. Seen
// from outside they are one engine, which takes whole arrays in, cuts them, and gives whole arrays back.

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

// Shared by the engine of several ranks and its programs.
struct Ranks {
  graph::Mesh mesh;
  int64_t first = 0;                                   // rank of engines[0]
  std::vector<std::shared_ptr<graph::Engine>> engines; // of the ranks here, in their order
  std::vector<std::shared_ptr<comm::Communicator>> communicators;
  mutable std::timed_mutex running; // runs take turns: ranks must meet in one order

  int64_t count() const { return static_cast<int64_t>(engines.size()); }
  // True when the other ranks are in other processes.
  bool is_part() const { return count() < mesh.ranks(); }
  graph::Placement place(size_t here) const { return {mesh, first + static_cast<int64_t>(here)}; }
  // fn(index into engines), each on a thread, the first on that of the caller. Throws the failure that the others follow
  // from.
  void each(const std::function<void(size_t here)>& fn) const;
};

class RanksBuffer final : public graph::Buffer {
public:
  // readable: the parts make the array of layout(); else they have nothing to do with each other.
  RanksBuffer(std::shared_ptr<const Ranks> ranks, std::vector<graph::BufferRef> parts,
              bool readable = true);

  const Shape& shape() const override;
  DType dtype() const override;
  Tensor read(const Task* task = nullptr) const override;
  Tensor read_part(const Task* task = nullptr) const override;
  std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                 const Task* task = nullptr) const override;
  int64_t memory_bytes() const override;                    // of the ranks here
  std::vector<graph::BufferRef>& parts() { return parts_; } // of the ranks here

private:
  void expect_readable() const;
  // The whole of which `own` is this rank's part, from the ranks that hold the others: on all processes, or on one.
  static constexpr int64_t kEverywhere = -1;
  Tensor gathered(const Tensor& own, int64_t process, const Task* task) const;

  std::shared_ptr<const Ranks> ranks_;
  std::vector<graph::BufferRef> parts_;
  Shape shape_;
  DType dtype_;
  bool readable_;
};

// One graph, compiled for every rank.
class RanksProgram final : public graph::Program {
public:
  RanksProgram(std::shared_ptr<Ranks> ranks, std::shared_ptr<const graph::Graph> graph);

  const graph::Graph& graph() const override { return programs_[0]->graph(); }
  const graph::PlanReport& plan() const override { return programs_[0]->plan(); } // of one rank
  std::vector<graph::BufferRef> run(std::span<const graph::BufferRef> inputs, const Task* task,
                                    graph::StopRule rule) override;
  std::string find_non_finite(std::span<const graph::BufferRef> inputs, const Task* task) override;

private:
  using PartLists = std::vector<std::vector<graph::BufferRef>>; // by rank here, by input
  RanksBuffer& buffer_at(std::span<const graph::BufferRef> inputs, size_t input) const;
  PartLists parts_of(std::span<const graph::BufferRef> inputs) const;

  std::shared_ptr<Ranks> ranks_;
  std::vector<std::shared_ptr<graph::Program>> programs_; // of the ranks here
  std::vector<bool> donated_;                             // by input
};

} // namespace dllm::cpu
