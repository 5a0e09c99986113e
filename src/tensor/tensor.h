#pragma once
// Defines shapes and arrays in host memory. All arrays are row-major.

#include "base/files.h"
#include "tensor/dtype.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm {

// The extents of an array, outermost first.
class Shape {
public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  // Returns the extent of an axis; -1 is the last axis. Fails with invalid_argument if the axis
  // does not exist.
  int64_t dim(int64_t axis) const;
  int64_t operator[](int64_t axis) const { return dim(axis); }
  // Returns the number of elements, 1 for a scalar. It cannot overflow if checked_shape made the
  // shape.
  int64_t count() const;
  const std::vector<int64_t>& dims() const { return dims_; }

  // Return this shape with one axis replaced, dropped, or inserted in front.
  Shape with_dim(int64_t axis, int64_t extent) const;
  Shape without(int64_t axis) const;
  Shape with_front(int64_t extent) const;

  std::string text() const; // "(2, 8, 64)"
  friend bool operator==(const Shape&, const Shape&) = default;

private:
  std::vector<int64_t> dims_;
};

// Makes a shape from untrusted numbers. Fails if an extent is negative or count * element_size
// overflows.
Shape checked_shape(std::vector<int64_t> dims, int64_t element_size, const std::string& what);

template <class T> constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <> constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <> constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <> constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <> constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}
template <> constexpr DType dtype_of<int8_t>() {
  return DType::i8;
}
template <> constexpr DType dtype_of<uint32_t>() {
  return DType::u32;
}

struct WeightFormat;

// A host array: a type, a shape, and contiguous row-major storage. Copies share the storage, so a
// copy is cheap; clone() copies the numbers. Many threads may read an array, or one may write it.
class Tensor {
public:
  Tensor() = default;               // no array; defined() is false
  Tensor(DType dtype, Shape shape); // zeros, 64-byte aligned
  // A read-only view of bytes that another object holds (a mapped file). Fails if the number of
  // bytes does not fit the shape.
  Tensor(DType dtype, Shape shape, Bytes bytes);

  template <class T> static Tensor from(Shape shape, std::span<const T> values) {
    Tensor made(dtype_of<T>(), std::move(shape));
    made.assign(values.data(), static_cast<int64_t>(values.size()));
    return made;
  }
  template <class T> static Tensor from(Shape shape, const std::vector<T>& values) {
    return from(std::move(shape), std::span<const T>(values));
  }
  template <class T> static Tensor scalar(T value) {
    return from(Shape{}, std::span<const T>(&value, 1));
  }

  bool defined() const { return data_ != nullptr || (owner_ != nullptr); }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  int64_t byte_size() const { return count() * dtype_size(dtype_); }
  bool writable() const { return writable_; }
  // Returns the format of a matrix in blocks, u8(.., rows, bytes of a row) (weight_format.h); null
  // for an ordinary array. Copies, reshapes and rows keep the format.
  const WeightFormat* format() const { return format_; }
  void set_format(const WeightFormat* format) { format_ = format; }

  const std::byte* bytes() const { return data_; }
  std::byte* mutable_bytes(); // fails with failed_precondition if the storage is read-only

  // Returns the elements. Fails with invalid_argument if T is not the element type.
  template <class T> std::span<const T> as() const {
    check_type(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(count())};
  }
  template <class T> std::span<T> mutable_as() {
    check_type(dtype_of<T>());
    return {reinterpret_cast<T*>(mutable_bytes()), static_cast<size_t>(count())};
  }

  Tensor reshaped(Shape shape) const;            // same storage, same count
  Tensor row(int64_t index) const;               // view of element `index` of the first axis
  Tensor rows(int64_t begin, int64_t end) const; // view of a range of the first axis
  // Returns this array if it has the type already, else a converted copy.
  Tensor to(DType dtype, const Task* task = nullptr) const;
  Tensor clone() const;

private:
  void check_type(DType wanted) const;
  void assign(const void* values, int64_t count);

  DType dtype_ = DType::f32;
  Shape shape_;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  bool writable_ = false;
  const WeightFormat* format_ = nullptr;
};

} // namespace dllm
