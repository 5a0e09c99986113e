#pragma once
// Named arrays: token rows, prepared noise, injected masks, forward results, statistics. The order of insertion is
// kept. Reserved names are those of reserved_arrays(), among them:
//   ids i32 (batch, seq)       tokens
//   keep u8 (batch, seq)       1: given (a prompt): never corrupted, never counted in a loss
//   segments i32 (batch, seq)  documents of a packed row, from 1; 0: padding. Tokens see their own segment only
//   targets i32 (batch, seq)   -1: not counted;   weights f32 (batch, seq)
//   rows i64 (2)               global index of the first row, rows over all ranks

#include "tensor/tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {

// A name with a fixed type: reserved by include/dllm/batch.h.
struct ReservedArray {
  std::string_view name;
  DType dtype;
  int64_t rank;
};
std::span<const ReservedArray> reserved_arrays();

class Batch {
public:
  void set(std::string name, Tensor value); // replaces
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Tensor* find(std::string_view name) const;
  const Tensor& at(std::string_view name) const; // fails with not_found and the nearest name
  void remove(std::string_view name);

  size_t size() const { return arrays_.size(); }
  const std::string& name(size_t index) const { return arrays_[index].first; }
  const Tensor& value(size_t index) const { return arrays_[index].second; }
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }

  // Global index of the first row and number of rows over all ranks ("rows", i64[2]); default 0 and own count.
  std::pair<int64_t, int64_t> global_rows(int64_t own_rows) const;

private:
  std::vector<std::pair<std::string, Tensor>> arrays_;
};

// Numbers of an array against their bounds: linear passes, far below the cost of what reads the
// array.

// Fails with invalid_argument unless low <= x <= high for all of an i32 or u8 array:
// "ids[1, 3] = 99 is not in 0 to 30 (the vocabulary)".
void check_between(std::string_view name, const Tensor& values, int64_t low, int64_t high,
                   std::string_view bound, const char* hint = "");

// Index of the first NaN or infinity of an array of any float type, or -1. Of f64: also of what f32
// cannot hold.
int64_t first_non_finite(const Tensor& values);

// Fails with invalid_argument when an array of any float type holds one: "weights[0, 2] = nan is
// not finite".
void check_finite(std::string_view name, const Tensor& values);

// "[1, 3]": place of an element of a row-major array.
std::string place_text(const Shape& shape, int64_t index);

} // namespace dllm
