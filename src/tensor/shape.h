#pragma once
// The extents of an array, outermost first. Row-major everywhere.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace dllm {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  // axis -1 is the last one. Fails with invalid_argument when there is no such axis.
  int64_t dim(int64_t axis) const;
  int64_t operator[](int64_t axis) const { return dim(axis); }
  int64_t count() const;  // product; 1 for a scalar. Checked for overflow when made by checked_shape
  const std::vector<int64_t>& dims() const { return dims_; }

  // The same shape with one axis replaced, dropped or inserted in front.
  Shape with_dim(int64_t axis, int64_t extent) const;
  Shape without(int64_t axis) const;
  Shape with_front(int64_t extent) const;

  std::string text() const;  // "(2, 8, 64)"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<int64_t> dims_;
};

// For numbers from outside: no negative extent, no overflow of count * element_size.
Shape checked_shape(std::vector<int64_t> dims, int64_t element_size, const std::string& what);

}  // namespace dllm
