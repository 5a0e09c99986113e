#pragma once
// The processes of one mesh of devices: which ranks this one has, and what it exchanges with the others. Exchanges of arrays
// while a program runs are the plugin's own.

#include "base/options.h"
#include "comm/mpi/process_ranks.h"
#include "graph/processes.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dllm::pjrt {

// One process: every call returns at once. Of several all make the same calls in the same order. Any thread.
class Processes {
public:
  // link: nothing, this process is the only one.
  Processes(std::optional<comm::ProcessLink> link, const Options& options);

  int64_t count() const { return link_ ? link_->communicator->size() : 1; }
  int64_t index() const { return link_ ? link_->communicator->rank() : 0; }
  bool are_several() const { return count() > 1; }
  const graph::Mesh& mesh() const { return mesh_; } // of all ranks
  const graph::Mesh& here() const { return cut_.here; }
  int64_t first_rank() const { return index() * here().ranks(); }
  // For the plugin; null: one process.
  std::shared_ptr<comm::KeyValueStore> store() const { return link_ ? link_->store : nullptr; }

  std::vector<std::string> exchange(const std::string& own, const Task* task = nullptr) const;
  bool all(bool own) const; // true everywhere
  // Throws on all processes when work() throws on one.
  void together(const std::function<void()>& work) const;
  // Whether parts of this layout differ between processes.
  bool are_cut(const graph::Layout& layout) const;
  // The array of which `part` is what this process has; on the process `to` alone, or on all.
  static constexpr int64_t kEverywhere = -1;
  Tensor gathered(const Tensor& part, const graph::Layout& layout, int64_t to,
                  const Task* task) const;
  // A device that failed, or a plugin: the waits and later calls of the others fail with the reason.
  void abort(const Error& reason) const noexcept;

private:
  std::optional<comm::ProcessLink> link_;
  graph::Mesh mesh_;
  graph::ProcessMesh cut_;
  mutable std::timed_mutex exchanging_; // calls of two threads would meet in different orders
};

} // namespace dllm::pjrt
