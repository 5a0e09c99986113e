#include "tensor/tensor.h"

#include "base/error.h"
#include "base/threads/meter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace dllm {

namespace {

constexpr size_t kAlignment = 64; // a cache line, and the widest vector

constexpr int64_t kAddressSpace = int64_t{1} << 47; // bytes that a process of x86-64 can address

// Uses calloc, because the system returns large blocks as zeros. A large array thus costs nothing
// before it is written.
std::shared_ptr<void> allocate_zeroed(size_t size) {
  const size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment + 2 * kAlignment;
  std::shared_ptr<MeterCharge> charge; // released together with the bytes
  if (current_meter() != nullptr)
    charge = std::make_shared<MeterCharge>(static_cast<int64_t>(rounded));
  void* const block = std::calloc(rounded, 1);
  if (block == nullptr) throw std::bad_alloc();
  const size_t past = reinterpret_cast<uintptr_t>(block) % kAlignment;
  void* const data = static_cast<std::byte*>(block) + (past == 0 ? 0 : kAlignment - past);
  if (charge == nullptr) return {data, [block](void*) { std::free(block); }};
  return {data, [block, charge](void*) { std::free(block); }};
}

} // namespace

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), writable_(true) {
  if (byte_size() > kAddressSpace) {
    fail(Code::resource_exhausted, "an array of {} {} needs {} bytes", dtype_name(dtype),
         shape_.text(), byte_size());
  }
  auto owner = allocate_zeroed(static_cast<size_t>(byte_size()));
  data_ = static_cast<std::byte*>(owner.get());
  owner_ = std::move(owner);
}

Tensor::Tensor(DType dtype, Shape shape, Bytes bytes) : dtype_(dtype), shape_(std::move(shape)) {
  if (static_cast<int64_t>(bytes.size()) != byte_size()) {
    fail(Code::invalid_argument, "{} bytes do not fill {} {}", bytes.size(), dtype_name(dtype),
         shape_.text());
  }
  data_ = const_cast<std::byte*>(bytes.data());
  owner_ = bytes.owner();
}

std::byte* Tensor::mutable_bytes() {
  if (!writable_) fail(Code::failed_precondition, "the array is a read-only view");
  return data_;
}

void Tensor::check_type(DType wanted) const {
  if (wanted != dtype_) {
    fail(Code::invalid_argument, "the array holds {}, not {}", dtype_name(dtype_),
         dtype_name(wanted));
  }
}

void Tensor::assign(const void* values, int64_t given) {
  if (given != count())
    fail(Code::invalid_argument, "{} values do not fill the shape {}", given, shape_.text());
  if (given > 0) std::memcpy(data_, values, static_cast<size_t>(byte_size()));
}

Tensor Tensor::reshaped(Shape shape) const {
  if (shape.count() != count()) {
    fail(Code::invalid_argument, "cannot reshape {} to {}", shape_.text(), shape.text());
  }
  Tensor changed = *this;
  changed.shape_ = std::move(shape);
  return changed;
}

Tensor Tensor::row(int64_t index) const {
  return rows(index, index + 1).reshaped(shape_.without(0));
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > shape_.dim(0)) {
    fail(Code::out_of_range, "rows {} to {} are not in {}", begin, end, shape_.text());
  }
  Tensor part = *this;
  part.shape_ = shape_.with_dim(0, end - begin);
  const int64_t row_bytes = shape_.without(0).count() * dtype_size(dtype_);
  part.data_ += begin * row_bytes;
  return part;
}

Tensor Tensor::to(DType dtype, const Task* task) const {
  if (dtype == dtype_) return *this;
  Tensor converted(dtype, shape_);
  convert(dtype_, data_, dtype, converted.data_, count(), task);
  return converted;
}

Tensor Tensor::clone() const {
  Tensor copy(dtype_, shape_);
  copy.format_ = format_;
  std::memcpy(copy.data_, data_, static_cast<size_t>(byte_size()));
  return copy;
}

int64_t Shape::dim(int64_t axis) const {
  const int64_t index = axis < 0 ? axis + rank() : axis;
  if (index < 0 || index >= rank())
    fail(Code::invalid_argument, "shape {} has no axis {}", text(), axis);
  return dims_[static_cast<size_t>(index)];
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (int64_t d : dims_) product *= d;
  return product;
}

Shape Shape::with_dim(int64_t axis, int64_t extent) const {
  dim(axis);
  Shape changed = *this;
  changed.dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)] = extent;
  return changed;
}

Shape Shape::without(int64_t axis) const {
  dim(axis);
  Shape changed = *this;
  changed.dims_.erase(changed.dims_.begin() + (axis < 0 ? axis + rank() : axis));
  return changed;
}

Shape Shape::with_front(int64_t extent) const {
  Shape changed = *this;
  changed.dims_.insert(changed.dims_.begin(), extent);
  return changed;
}

std::string Shape::text() const {
  return fmt::format("({})", fmt::join(dims_, ", "));
}

Shape checked_shape(std::vector<int64_t> dims, int64_t element_size, const std::string& what) {
  constexpr int64_t kMaxRank = 16;
  if (static_cast<int64_t>(dims.size()) > kMaxRank) {
    fail(Code::invalid_argument, "{} has {} axes, more than {}", what, dims.size(), kMaxRank);
  }
  int64_t bytes = element_size;
  for (int64_t d : dims) {
    if (d < 0) fail(Code::invalid_argument, "{} has the negative extent {}", what, d);
    // A zero extent must not hide an overflow of the other extents, because strides and partial
    // products are computed too.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(d, 1), &bytes)) {
      fail(Code::invalid_argument, "{} of shape ({}) overflows 64 bits", what,
           fmt::join(dims, ", "));
    }
  }
  return Shape(std::move(dims));
}

} // namespace dllm
