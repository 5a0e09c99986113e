// Arrays of the engine: their parts on the devices, the way there and back.

#include "base/error.h"
#include "pjrt/engine_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace dllm::pjrt {

namespace {

constexpr int64_t kSmall = 1 << 20; // bytes of a result that is fetched along with another
constexpr uintptr_t kLendable = 64; // alignment below which plugins copy

abi::HostBufferSemantics host_use(const EngineState& state, const Tensor& tensor, bool share) {
  if (!share && tensor.writable()) return abi::HostBufferSemantics::during_call;
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.bytes()) % kLendable == 0;
  if (share && aligned && state.on_cpu()) return abi::HostBufferSemantics::zero_copy;
  return abi::HostBufferSemantics::until_transfer_completes;
}

// piece(i) for each place i along `axes`: the ranks there get it. One piece at a time is made.
template <class Piece>
std::vector<Array> upload_parts(const EngineState& state, graph::AxisSet axes, bool share,
                                const Piece& piece) {
  const graph::Mesh& mesh = state.mesh();
  std::vector<Array> parts(state.ranks());
  for (int64_t place = 0; place < mesh.size(axes); ++place) {
    const Tensor tensor = piece(place);
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      if (mesh.index(static_cast<int64_t>(rank), axes) != place) continue;
      parts[rank] =
          state.client().upload(tensor, state.device(rank), host_use(state, tensor, share));
    }
  }
  return parts;
}

} // namespace

graph::AxisSet differing(const graph::Mesh& mesh, graph::AxisSet axes) {
  return mesh.axes().without(mesh.axes().without(axes));
}

namespace {

void expect_uploadable(const Tensor& tensor) {
  if (!tensor.defined()) fail(Code::invalid_argument, "there is no array to upload");
  if (tensor.format() != nullptr) {
    fail_with_hint("load the model with dtype=bf16 (or f32, int8)", Code::unimplemented,
                   "the pjrt engine does not multiply weights of format {}", tensor.format()->name);
  }
}

} // namespace

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
  if (run_ != nullptr) run_->check();
}

// One rank for each part that differs.
std::vector<size_t> DeviceBuffer::ranks_to_read() const {
  const graph::Mesh& mesh = state_->mesh();
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
    fetch.done.push_back(content_.parts[rank].copy_to(part));
    // The plugin writes into the tensor until then, whether a caller waits or not.
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
  } catch (const std::exception&) { // the next read fails with it again
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

Tensor DeviceBuffer::read(const Task*) const {
  expect_readable();
  const graph::Mesh& mesh = state_->mesh();
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
    run_->wait(); // its failure explains more than that of the transfer
    run_->check();
  }
  for (const EventHandle& done : fetch.done) await(done);
  if (fetch.parts.size() == 1) return std::move(fetch.parts[0]);
  return layout().join(fetch.parts, mesh);
}

std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& whole,
                                     bool share, const graph::Layout& layout) {
  expect_uploadable(whole);
  DeviceBuffer::Content content;
  content.dtype = whole.dtype();
  content.shape = layout.part_shape(whole.shape(), state->mesh());
  const std::vector<int64_t> places = state->mesh().groups(layout.axes())[0];
  content.parts = upload_parts(*state, layout.axes(), share, [&](int64_t place) {
    return layout.part(whole, {state->mesh(), places[static_cast<size_t>(place)]});
  });
  auto made = std::make_shared<DeviceBuffer>(std::move(state), std::move(content), nullptr);
  made->set_layout(layout);
  return made;
}

std::shared_ptr<DeviceBuffer> upload_pieces(std::shared_ptr<EngineState> state,
                                            std::span<const Tensor> pieces, graph::AxisSet axes,
                                            bool share) {
  const graph::Mesh& mesh = state->mesh();
  if (std::ssize(pieces) != mesh.size(axes)) {
    fail(Code::invalid_argument, "{} arrays for the {} places of {} on {}", pieces.size(),
         mesh.size(axes), axes.text(), mesh.text());
  }
  for (const Tensor& piece : pieces) {
    expect_uploadable(piece);
    if (piece.dtype() == pieces[0].dtype() && piece.shape() == pieces[0].shape()) continue;
    fail(Code::invalid_argument, "arrays of the ranks differ: {}{} and {}{}",
         dtype_name(pieces[0].dtype()), pieces[0].shape().text(), dtype_name(piece.dtype()),
         piece.shape().text());
  }
  DeviceBuffer::Content content{pieces[0].dtype(), pieces[0].shape(), {}, differing(mesh, axes)};
  content.parts = upload_parts(*state, axes, share,
                               [&](int64_t place) { return pieces[static_cast<size_t>(place)]; });
  return std::make_shared<DeviceBuffer>(std::move(state), std::move(content), nullptr);
}

} // namespace dllm::pjrt
