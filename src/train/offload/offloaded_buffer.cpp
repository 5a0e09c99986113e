#include "train/offload/offloaded_buffer.h"

#include "base/threads/float_mode.h"
#include "model/params/stack_part.h"

#include <algorithm>
#include <utility>

namespace dllm::train {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kFloatBytes = sizeof(float);

Shape shape_here(const graph::Engine& engine, const model::ParamSpec& spec) {
  if (engine.processes() == 1) return spec.shape();
  return spec.layout().part_shape(spec.shape(), engine.place().mesh);
}

int64_t bytes_here(const graph::Engine& engine, const StateEntry& entry) {
  const int64_t bytes = kFloatBytes * shape_here(engine, entry.layout).count();
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

} // namespace

OffloadedBuffer::OffloadedBuffer(graph::Engine& engine, std::shared_ptr<ScratchStore> store,
                                 int64_t at, const StateEntry& entry)
    : engine_(engine), store_(std::move(store)), at_(at), spec_(entry.layout),
      part_(spec_.layout().part_shape(spec_.shape(), engine.mesh())),
      own_(shape_here(engine, spec_)), pool_(engine.threads()) {
  set_layout(spec_.layout());
}

Tensor OffloadedBuffer::read(const Task* task) const {
  return engine_.processes() == 1 ? read_part(task) : resident()->read(task);
}

Tensor OffloadedBuffer::read_part(const Task*) const {
  Tensor part(DType::f32, own_);
  read_numbers(0, part.mutable_as<float>());
  return part;
}

void OffloadedBuffer::read_numbers(int64_t begin, std::span<float> to) const {
  store_->read(at_ + begin * kFloatBytes, to.data(), std::ssize(to) * kFloatBytes, workers());
}

std::vector<Tensor> OffloadedBuffer::read_dealt(std::span<const int64_t> owners,
                                                const Task* task) const {
  if (engine_.processes() == 1) return Buffer::read_dealt(owners, task);
  return resident()->read_dealt(owners, task);
}

void OffloadedBuffer::assign(const Tensor& part) {
  store_->write(at_, part.bytes(), part.byte_size(), workers());
}

void OffloadedBuffer::add(const Tensor& part, bool is_first) {
  constexpr int64_t kPiece = int64_t{1} << 18; // numbers that one thread adds at a time
  const std::span<const float> values = part.as<float>();
  const int64_t size = part.count();
  parallel(workers(), (size + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t begin = piece * kPiece, count = std::min(kPiece, size - begin);
    const int64_t place = at_ + begin * kFloatBytes, bytes = count * kFloatBytes;
    const FloatMode numbers; // the engine adds in this mode too
    std::vector<float> sums(static_cast<size_t>(count));
    if (!is_first) store_->read(place, sums.data(), bytes, nullptr);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += values[static_cast<size_t>(begin) + i];
    store_->write(place, sums.data(), bytes, nullptr);
  });
}

graph::BufferRef OffloadedBuffer::resident() const {
  // One rank may use the memory of the copy. Several ranks write into parts of their own.
  if (engine_.mesh().ranks() == 1) return engine_.upload(read_part(), true);
  return model::upload_own(engine_, read_part(), spec_);
}

void OffloadedBuffer::read_slice(const Slice& slice, void* to) const {
  auto* target = static_cast<float*>(to);
  for (const Extent& extent : extents_of(slice, part_, own_)) {
    store_->read(at_ + extent.begin * kFloatBytes, target, extent.count * kFloatBytes, workers());
    target += extent.count;
  }
}

void OffloadedBuffer::write_slice(const Slice& slice, const void* from) {
  const auto* source = static_cast<const float*>(from);
  for (const Extent& extent : extents_of(slice, part_, own_)) {
    store_->write(at_ + extent.begin * kFloatBytes, source, extent.count * kFloatBytes, workers());
    source += extent.count;
  }
}

void OffloadedBuffer::announce(const Slice& slice) const {
  for (const Extent& extent : extents_of(slice, part_, own_))
    store_->announce(at_ + extent.begin * kFloatBytes, extent.count * kFloatBytes);
}

graph::BufferRef OffloadedBuffer::upload_slice(const Tensor& numbers) const {
  return engine_.processes() == 1 ? engine_.upload_cut(numbers, true, layout())
                                  : engine_.upload_part(numbers, true, layout());
}

std::vector<std::shared_ptr<OffloadedBuffer>>
make_offloaded(const ProgramSpec& spec, const std::function<bool(const StateEntry&)>& wanted) {
  graph::Engine& engine = spec.model->engine();
  int64_t bytes = 0;
  for (const StateEntry& entry : spec.state) bytes += wanted(entry) ? bytes_here(engine, entry) : 0;
  const auto store = std::make_shared<ScratchStore>(spec.offload, bytes);
  std::vector<std::shared_ptr<OffloadedBuffer>> made;
  int64_t at = 0;
  for (const StateEntry& entry : spec.state) {
    made.push_back(nullptr);
    if (!wanted(entry)) continue;
    made.back() = std::make_shared<OffloadedBuffer>(engine, store, at, entry);
    at += bytes_here(engine, entry);
  }
  return made;
}

} // namespace dllm::train
