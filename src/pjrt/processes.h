#pragma once
// The class Processes connects the processes of one mesh of devices. It has the ranks of this
// process and exchanges messages with the other processes. Running programs exchange arrays through
// the plugin instead.

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

// Several processes must all make the same calls in the same order. In a single process every call
// returns at once. Any thread.
class Processes {
public:
  // link: empty if this process is the only one.
  Processes(std::optional<comm::ProcessLink> link, const Options& options);

  int64_t count() const { return link_ ? link_->communicator->size() : 1; }
  int64_t index() const { return link_ ? link_->communicator->rank() : 0; }
  bool are_several() const { return count() > 1; }
  const graph::Mesh& mesh() const { return mesh_; }     // mesh of all ranks
  const graph::Mesh& here() const { return cut_.here; } // mesh of the ranks of this process
  int64_t first_rank() const { return index() * here().ranks(); }
  // Returns the key-value store that the plugin uses; null for one process.
  std::shared_ptr<comm::KeyValueStore> store() const { return link_ ? link_->store : nullptr; }

  // Returns the words of all processes, by process.
  std::vector<std::string> exchange(const std::string& own, const Task* task = nullptr) const;
  bool all(bool own) const; // true if `own` is true on every process
  // Runs work() and throws on all processes if it throws on one.
  void together(const std::function<void()>& work) const;
  // Returns true if processes hold different parts of an array of this layout.
  bool are_cut(const graph::Layout& layout) const;
  // Joins the parts of all processes into the whole array, on the process `to` or on all processes.
  // Returns an undefined tensor on a process that does not get the array.
  static constexpr int64_t kEverywhere = -1;
  Tensor gathered(const Tensor& part, const graph::Layout& layout, int64_t to,
                  const Task* task) const;
  // Reports a failure of a device or plugin: pending and later calls of the other processes fail
  // with the reason.
  void abort(const Error& reason) const noexcept;

private:
  std::optional<comm::ProcessLink> link_;
  graph::Mesh mesh_;
  graph::ProcessMesh cut_;
  // Held during a call: two threads must not exchange in another order than on other processes.
  mutable std::timed_mutex exchanging_;
};

} // namespace dllm::pjrt
