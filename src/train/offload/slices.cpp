#include "train/offload/slices.h"

#include <algorithm>
#include <functional>

namespace dllm::train {
namespace {

Slice whole_slice(const Shape& part) {
  return {std::vector<int64_t>(static_cast<size_t>(part.rank()), 0), part};
}

// Cuts `box` along `axis`, and each of the pieces along the next axis where it is still too large.
void cut_slices(const Slice& box, int64_t axis, int64_t last, int64_t most,
                std::vector<Slice>& made) {
  if (axis > last || box.size.count() <= most) {
    made.push_back(box);
    return;
  }
  const int64_t extent = box.size[axis], row = box.size.count() / extent;
  const int64_t step = std::max<int64_t>(1, most / row);
  for (int64_t begin = 0; begin < extent; begin += step) {
    Slice piece = box;
    piece.begin[static_cast<size_t>(axis)] = begin;
    piece.size = box.size.with_dim(axis, std::min(step, extent - begin));
    if (row > most)
      cut_slices(piece, axis + 1, last, most, made);
    else
      made.push_back(std::move(piece));
  }
}

// Arrays of the parameter that an update reads and writes, with the averages.
int64_t streamed_numbers(const ProgramSpec& spec, size_t parameter) {
  int64_t numbers = 0;
  for (const StateEntry& entry : spec.state) {
    if (entry.use != StateUse::sum && entry.parameter == parameter)
      numbers += part_type(spec, entry).shape.count();
  }
  return numbers;
}

} // namespace

std::vector<Slice> slices_of(const Shape& part, bool is_stacked, bool whole_matrices,
                             int64_t most) {
  std::vector<Slice> made;
  const int64_t last = !whole_matrices ? part.rank() - 1 : is_stacked ? 0 : -1;
  cut_slices(whole_slice(part), 0, last, most, made);
  return made;
}

std::vector<ParameterSlice> update_slices(const ProgramSpec& spec) {
  // A slice of each array is there three times: as it is read, as the engine has it, and the new
  // one. Four more hold the parameter, its gradient and what the update makes of them.
  constexpr int64_t kCopies = 3, kOthers = 4;
  std::vector<ParameterSlice> made;
  for (size_t i = 0; i < spec.trained.size(); ++i) {
    const auto& entry = spec.model->params().physical()[spec.trained[i]];
    const int64_t numbers = entry.part.count();
    const int64_t held = kCopies * streamed_numbers(spec, i) + kOthers * numbers;
    const int64_t fit = spec.window / dtype_size(DType::f32);
    const int64_t most = std::max<int64_t>(1, numbers * fit / std::max<int64_t>(1, held));
    for (Slice& slice :
         slices_of(entry.part, entry.spec.layers > 0, spec.optimizer->whole_matrices, most))
      made.push_back({i, std::move(slice)});
  }
  return made;
}

Slice slice_of_entry(const ProgramSpec& spec, const StateEntry& entry, const Slice& slice) {
  const Shape part = part_type(spec, entry).shape;
  if (part == spec.model->params().physical()[spec.trained[entry.parameter]].part) return slice;
  Slice made = whole_slice(part);
  if (entry.layout.layers > 0) {
    made.begin[0] = slice.begin[0];
    made.size = part.with_dim(0, slice.size[0]);
  }
  return made;
}

std::vector<Extent> extents_of(const Slice& slice, const Shape& part, const Shape& own) {
  const int64_t rank = part.rank();
  int64_t tail = rank; // axes from here on are whole, so their numbers are consecutive
  while (tail > 0 && slice.size[tail - 1] == part[tail - 1]) --tail;
  const int64_t axis = tail - 1; // the last axis that is cut; -1: none
  int64_t row = 1;               // numbers of one index of that axis
  for (int64_t d = tail; d < rank; ++d) row *= own[d];
  if (axis < 0) return {{0, row}};
  std::vector<Extent> made;
  const std::function<void(int64_t, int64_t)> visit = [&](int64_t d, int64_t at) {
    const auto begin = slice.begin[static_cast<size_t>(d)];
    for (int64_t place = 0; place < own[d] / part[d]; ++place) {
      const int64_t first = at * own[d] + place * part[d] + begin;
      if (d == axis) {
        made.push_back({first * row, slice.size[d] * row});
        continue;
      }
      for (int64_t i = 0; i < slice.size[d]; ++i) visit(d + 1, first + i);
    }
  };
  visit(0, 0);
  return made;
}

Shape gathered_shape(const Slice& slice, const Shape& part, const Shape& own) {
  Shape made = slice.size;
  for (int64_t d = 0; d < part.rank(); ++d)
    made = made.with_dim(d, slice.size[d] * (own[d] / part[d]));
  return made;
}

} // namespace dllm::train
