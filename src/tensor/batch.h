#pragma once
// Stores named arrays in the order of insertion: token rows, noise, masks, forward results,
// statistics. reserved_arrays() lists the reserved names, among them:
//   ids i32(batch, seq)        tokens
//   keep u8(batch, seq)        1: fixed (a prompt), never corrupted, never counted in a loss
//   segments i32(batch, seq)   document of a packed row, from 1; 0: padding. A token attends
//                              to its own segment only
//   targets i32(batch, seq)    clean id to predict; -1: not counted
//   weights f32(batch, seq)    factor of a position in the loss
//   rows i64(2)                global index of the first row; number of rows over all ranks

#include "tensor/tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {

// A name whose type and rank are fixed by include/dllm/batch.h.
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

  // Returns the global index of the first row and the number of rows over all ranks (array "rows").
  // Without that array it returns 0 and own_rows.
  std::pair<int64_t, int64_t> global_rows(int64_t own_rows) const;

private:
  std::vector<std::pair<std::string, Tensor>> arrays_;
};

// Fails with invalid_argument unless low <= x <= high for every x of an i32 or u8 array: "ids[1, 3]
// = 99 is not in 0 to 30 (the vocabulary)". The checks of this file read an array once, which costs
// far less than using it.
void check_between(std::string_view name, const Tensor& values, int64_t low, int64_t high,
                   std::string_view bound, const char* hint = "");

// Returns the index of the first NaN or infinity of an array of any float type, or -1. In an f64
// array a number beyond the range of f32 counts as infinity.
int64_t first_non_finite(const Tensor& values);

// Fails with invalid_argument if an array of any float type contains NaN or infinity: "weights[0,
// 2] = nan is not finite".
void check_finite(std::string_view name, const Tensor& values);

// Returns the indices of element `index` of a row-major array: "[1, 3]".
std::string place_text(const Shape& shape, int64_t index);

} // namespace dllm
