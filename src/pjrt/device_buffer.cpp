// The arrays of an engine, and how they are read.

#include "base/error.h"
#include "pjrt/engine_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace dllm::pjrt {

namespace {

constexpr int64_t kSmall = 1 << 20; // most bytes of a result that is read together with another
} // namespace

graph::AxisSet differing(const graph::Mesh& mesh, graph::AxisSet axes) {
  return mesh.axes().without(mesh.axes().without(axes));
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<EngineState> state, Content content,
                           std::shared_ptr<Run> run)
    : state_(std::move(state)), content_(std::move(content)), run_(std::move(run)) {
  state_->counters().add_bytes(bytes());
}

DeviceBuffer::~DeviceBuffer() {
  if (!is_donated()) state_->counters().remove_bytes(bytes());
}

int64_t DeviceBuffer::bytes() const {
  return content_.shape.count() * dtype_size(content_.dtype) * std::ssize(content_.parts);
}

int64_t DeviceBuffer::memory_bytes() const {
  if (is_donated()) return 0;
  return std::accumulate(content_.parts.begin(), content_.parts.end(), int64_t{0},
                         [](int64_t sum, const Array& part) { return sum + part.device_bytes(); });
}

void DeviceBuffer::mark_donated() {
  if (!donated_.exchange(true, std::memory_order_acq_rel)) state_->counters().remove_bytes(bytes());
}

bool DeviceBuffer::is_gone() const noexcept {
  try {
    return is_donated() ||
           std::ranges::any_of(content_.parts, [](const Array& part) { return part.is_deleted(); });
  } catch (const std::exception&) {
    return true;
  }
}

void DeviceBuffer::check_run() const {
  if (run_ == nullptr) return;
  try {
    run_->check();
  } catch (const Error& error) {
    state_->processes().abort(error);
    throw;
  }
}

// Returns one rank here for each different part.
std::vector<size_t> DeviceBuffer::ranks_to_read() const {
  const graph::Mesh& mesh = state_->processes().here();
  const graph::AxisSet copies = mesh.axes().without(layout().axes());
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < content_.parts.size(); ++rank) {
    if (mesh.index(static_cast<int64_t>(rank), copies) == 0) ranks.push_back(rank);
  }
  return ranks;
}

DeviceBuffer::Fetch DeviceBuffer::start_fetch() const {
  Fetch fetch;
  fetch.parts.resize(content_.parts.size());
  for (const size_t rank : ranks_to_read()) {
    Tensor& part = fetch.parts[rank] = Tensor(content_.dtype, content_.shape);
    part.set_format(content_.format);
    fetch.done.push_back(content_.parts[rank].copy_to(part));
    // The plugin writes into the tensor until the event happens, even if no caller waits for it.
    hold_until(fetch.done.back(), part);
  }
  return fetch;
}

void DeviceBuffer::prefetch() const noexcept {
  if (bytes() > kSmall || bytes() == 0 || is_donated() || !content_.differs.empty()) return;
  const std::lock_guard lock(mutex_);
  if (fetch_) return;
  try {
    fetch_ = start_fetch();
  } catch (const std::exception&) { // the next read fails with the same error
  }
}

DeviceBuffer::Fetch DeviceBuffer::take_fetch() const {
  const std::lock_guard lock(mutex_);
  if (!fetch_) return start_fetch();
  Fetch taken = std::move(*fetch_);
  fetch_.reset();
  return taken;
}

void DeviceBuffer::expect_readable() const {
  if (is_donated()) {
    fail_with_hint("read it before the run, or keep another reference to it",
                   Code::failed_precondition, "an array {}{} was taken over by a run",
                   dtype_name(content_.dtype), content_.shape.text());
  }
  if (!content_.differs.empty())
    fail(Code::failed_precondition, "an array that differs from rank to rank cannot be read");
}

Tensor DeviceBuffer::read(const Task* task) const {
  Tensor whole =
      state_->processes().gathered(read_part(task), layout(), Processes::kEverywhere, task);
  whole.set_format(content_.format);
  return whole;
}

std::vector<Tensor> DeviceBuffer::read_dealt(std::span<const int64_t> owners,
                                             const Task* task) const {
  const Processes& processes = state_->processes();
  if (!processes.are_several()) return Buffer::read_dealt(owners, task);
  const Tensor part = read_part(task);
  if (owners.size() == 1) return {processes.gathered(part, layout(), owners[0], task)};
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < std::ssize(owners); ++row) {
    rows.push_back(processes.gathered(part.rows(row, row + 1), layout(),
                                      owners[static_cast<size_t>(row)], task));
  }
  return rows;
}

Tensor DeviceBuffer::read_part(const Task*) const {
  expect_readable();
  const graph::Mesh& mesh = state_->processes().here();
  if (bytes() == 0) return Tensor(content_.dtype, layout().whole_shape(content_.shape, mesh));
  const bool first = run_ == nullptr || run_->begin_trip();
  if (first) state_->counters().round_trips.fetch_add(1);
  Fetch fetch = take_fetch();
  if (run_ != nullptr) {
    if (first) {
      for (const auto& result : run_->results()) {
        if (result.get() != this) result->prefetch();
      }
    }
    run_->wait(); // the error of the run explains more than the error of the transfer
    check_run();
  }
  for (const EventHandle& done : fetch.done) await(done);
  if (fetch.parts.size() == 1) return std::move(fetch.parts[0]);
  return layout().join(fetch.parts, mesh);
}

} // namespace dllm::pjrt
