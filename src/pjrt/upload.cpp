// Uploads of arrays from the host to the devices.

#include "base/error.h"
#include "pjrt/engine_state.h"

#include <fmt/core.h>

#include <utility>

namespace dllm::pjrt {

namespace {

constexpr uintptr_t kLendable = 64; // plugins copy a tensor with less alignment

abi::HostBufferSemantics host_use(const EngineState& state, const Tensor& tensor, bool share) {
  if (!share && tensor.writable()) return abi::HostBufferSemantics::during_call;
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.bytes()) % kLendable == 0;
  if (share && aligned && state.on_cpu()) return abi::HostBufferSemantics::zero_copy;
  return abi::HostBufferSemantics::until_transfer_completes;
}

// Uploads piece(i) to the ranks of this process that are at place i along `axes`. Holds one piece
// at a time.
template <class Piece>
std::vector<Array> upload_parts(const EngineState& state, graph::AxisSet axes, bool share,
                                const Piece& piece) {
  const graph::Mesh& mesh = state.mesh();
  const int64_t first = state.processes().first_rank();
  std::vector<Array> parts(state.ranks_here());
  for (int64_t place = 0; place < mesh.size(axes); ++place) {
    Tensor tensor;
    for (size_t here = 0; here < parts.size(); ++here) {
      if (mesh.index(first + static_cast<int64_t>(here), axes) != place) continue;
      if (!tensor.defined()) tensor = piece(place);
      parts[here] =
          state.client().upload(tensor, state.device(here), host_use(state, tensor, share));
    }
  }
  return parts;
}

void expect_uploadable(const Tensor& tensor) {
  if (!tensor.defined()) fail(Code::invalid_argument, "the tensor to upload has no array");
}

std::shared_ptr<DeviceBuffer> made_of(std::shared_ptr<EngineState> state,
                                      DeviceBuffer::Content content, const graph::Layout& layout) {
  auto made = std::make_shared<DeviceBuffer>(std::move(state), std::move(content), nullptr);
  made->set_layout(layout);
  return made;
}

} // namespace

std::shared_ptr<DeviceBuffer> upload(std::shared_ptr<EngineState> state, const Tensor& whole,
                                     bool share, const graph::Layout& layout) {
  expect_uploadable(whole);
  DeviceBuffer::Content content;
  content.dtype = whole.dtype();
  content.format = whole.format();
  content.shape = layout.part_shape(whole.shape(), state->mesh());
  const std::vector<int64_t> places = state->mesh().groups(layout.axes())[0];
  content.parts = upload_parts(*state, layout.axes(), share, [&](int64_t place) {
    return layout.part(whole, {state->mesh(), places[static_cast<size_t>(place)]});
  });
  return made_of(std::move(state), std::move(content), layout);
}

std::shared_ptr<DeviceBuffer> upload_part(std::shared_ptr<EngineState> state, const Tensor& part,
                                          bool share, const graph::Layout& layout) {
  expect_uploadable(part);
  const graph::Mesh& here = state->processes().here();
  DeviceBuffer::Content content;
  content.dtype = part.dtype();
  content.format = part.format();
  content.shape = layout.part_shape(part.shape(), here);
  for (size_t rank = 0; rank < state->ranks_here(); ++rank) {
    const Tensor piece = layout.part(part, {here, static_cast<int64_t>(rank)});
    content.parts.push_back(
        state->client().upload(piece, state->device(rank), host_use(*state, piece, share)));
  }
  return made_of(std::move(state), std::move(content), layout);
}

std::shared_ptr<DeviceBuffer> upload_pieces(std::shared_ptr<EngineState> state,
                                            std::span<const Tensor> pieces, graph::AxisSet axes,
                                            bool share) {
  const graph::Mesh& mesh = state->mesh();
  if (std::ssize(pieces) != mesh.size(axes)) {
    fail(Code::invalid_argument, "got {} arrays, expected {}: one for each rank of {} on {}",
         pieces.size(), mesh.size(axes), axes.text(), mesh.text());
  }
  for (const Tensor& piece : pieces) {
    expect_uploadable(piece);
    if (piece.dtype() == pieces[0].dtype() && piece.shape() == pieces[0].shape()) continue;
    fail(Code::invalid_argument, "arrays of the ranks differ: {}{} and {}{}",
         dtype_name(pieces[0].dtype()), pieces[0].shape().text(), dtype_name(piece.dtype()),
         piece.shape().text());
  }
  DeviceBuffer::Content content{
      pieces[0].dtype(), pieces[0].shape(), {}, differing(mesh, axes), pieces[0].format()};
  content.parts = upload_parts(*state, axes, share,
                               [&](int64_t place) { return pieces[static_cast<size_t>(place)]; });
  return std::make_shared<DeviceBuffer>(std::move(state), std::move(content), nullptr);
}

} // namespace dllm::pjrt
