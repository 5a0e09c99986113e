#pragma once
// Cuts the arrays of a parameter into slices, which an offloaded update holds one after the other.
// Private to src/train.

#include "tensor/tensor.h"
#include "train/step/program_spec.h"

#include <cstdint>
#include <vector>

namespace dllm::train {

// A box in the part of one rank: of a parameter, its gradient and its arrays.
struct Slice {
  std::vector<int64_t> begin;
  Shape size;
};

// Returns slices of at most `most` numbers that cover a part in order. A slice is whole layers,
// rows of one layer, or a piece of a row. `whole_matrices`: a slice is whole layers, and an array
// that is not stacked is one slice.
std::vector<Slice> slices_of(const Shape& part, bool is_stacked, bool whole_matrices, int64_t most);

// One slice of one trained parameter.
struct ParameterSlice {
  size_t parameter = 0; // index into ProgramSpec::trained
  Slice box;
};
// Returns the slices of all parameters, so that the window of one rank is about spec.window bytes.
std::vector<ParameterSlice> update_slices(const ProgramSpec& spec);

// Returns the box of an array that a slice of its parameter needs. Arrays of factored moments have
// the layers of the parameter and other extents.
Slice slice_of_entry(const ProgramSpec& spec, const StateEntry& entry, const Slice& slice);

// A run of consecutive numbers of an array.
struct Extent {
  int64_t begin = 0, count = 0;
};
// Returns the numbers of a slice in the array `own` that one process keeps, in the order of
// gathered_shape(). `part` is the shape of one rank's part; ranks of this process cut `own`.
std::vector<Extent> extents_of(const Slice& slice, const Shape& part, const Shape& own);
// Returns the shape of these numbers as an array that the ranks of the process cut.
Shape gathered_shape(const Slice& slice, const Shape& part, const Shape& own);

} // namespace dllm::train
