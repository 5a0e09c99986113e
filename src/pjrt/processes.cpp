#include "pjrt/processes.h"

#include "base/error.h"
#include "base/task.h"
#include "comm/words.h"
#include "graph/mesh_options.h"

#include <algorithm>

namespace dllm::pjrt {
namespace {

// Returns the mesh that the options name. Without one the processes share the rows of a batch.
graph::Mesh mesh_of(const Options& options, int64_t processes) {
  const bool is_free = options.str("mesh").empty() && options.i64("ranks") == 0;
  return is_free ? graph::Mesh().set(graph::Axis::data, processes) : graph::mesh_of(options);
}

} // namespace

Processes::Processes(std::optional<comm::ProcessLink> link, const Options& options)
    : link_(std::move(link)), mesh_(mesh_of(options, count())), cut_(mesh_, count()) {}

std::vector<std::string> Processes::exchange(const std::string& own, const Task* task) const {
  if (!are_several()) return {own};
  const auto turn = lock_with_task(exchanging_, task);
  return comm::exchange_words(*link_->communicator, own, task);
}

bool Processes::all(bool own) const {
  return std::ranges::all_of(exchange(own ? "1" : "0"),
                             [](const auto& word) { return word == "1"; });
}

void Processes::together(const std::function<void()>& work) const {
  if (!are_several()) return work();
  graph::run_together([&](const std::string& own) { return exchange(own); }, true, work);
}

bool Processes::are_cut(const graph::Layout& layout) const {
  return cut_.processes.size(layout.axes()) > 1;
}

// Only the processes in the group of `to` send. They hold each part once.
Tensor Processes::gathered(const Tensor& part, const graph::Layout& layout, int64_t to,
                           const Task* task) const {
  const bool everywhere = to == kEverywhere, wanted = everywhere || to == index();
  if (!are_cut(layout)) return wanted ? part : Tensor();
  const std::vector<int64_t> group =
      cut_.processes.group_of(everywhere ? index() : to, layout.axes());
  if (std::ranges::find(group, index()) == group.end()) return {};
  const auto turn = lock_with_task(exchanging_, task);
  Tensor pieces(part.dtype(), part.shape().with_front(wanted ? std::ssize(group) : 0));
  if (everywhere) {
    link_->communicator->all_gather(group, part.bytes(), pieces.mutable_bytes(), part.byte_size(),
                                    task);
  } else {
    link_->communicator->gather(group, std::ranges::find(group, to) - group.begin(), part.bytes(),
                                pieces.mutable_bytes(), part.byte_size(), task);
  }
  if (!wanted) return {};
  std::vector<Tensor> parts;
  for (int64_t process = 0; process < count(); ++process)
    parts.push_back(pieces.row(cut_.processes.index(process, layout.axes())));
  return layout.join(parts, cut_.processes);
}

void Processes::abort(const Error& reason) const noexcept {
  if (!are_several()) return;
  link_->communicator->abort(reason);
  link_->store->abort(reason);
}

} // namespace dllm::pjrt
