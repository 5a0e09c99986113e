// Implements StoragePlanner and place_pieces() (storage.h).

#include "cpu/storage.h"

#include "cpu/memory.h"

#include <algorithm>
#include <numeric>

namespace dllm::cpu {

using graph::Graph;

StoragePlanner::StoragePlanner(Frame& frame, std::vector<int32_t> donations,
                               std::vector<bool> brief)
    : frame_(frame), donations_(std::move(donations)), brief_(std::move(brief)) {
  brief_.resize(frame_.graph->outputs().size(), false);
  find_last_reads();
}

int64_t StoragePlanner::bytes_of(int32_t value) const {
  const graph::ValueType& type = frame_.graph->type(value);
  return type.shape.count() * dtype_size(type.dtype);
}

void StoragePlanner::find_last_reads() {
  last_read_.assign(frame_.places.size(), -1);
  for (size_t s = 0; s < frame_.steps.size(); ++s) {
    for (int32_t input : frame_.steps[s].inputs)
      last_read_[static_cast<size_t>(root(input))] = static_cast<int32_t>(s);
  }
  const auto end = static_cast<int32_t>(frame_.steps.size());
  for (const graph::GraphOutput& output : frame_.graph->outputs()) {
    last_read_[static_cast<size_t>(root(output.value))] = end;
  }
}

bool StoragePlanner::assign() {
  storage_of_.assign(frame_.places.size(), -1);
  storages_.clear();
  copies_.clear();
  first_overwrite_ = INT32_MAX;
  donated_to_.assign(frame_.graph->inputs().size(), -1);
  for (size_t o = 0; o < donations_.size(); ++o) {
    if (donations_[o] >= 0)
      donated_to_[static_cast<size_t>(donations_[o])] = static_cast<int32_t>(o);
  }
  takes_over_.assign(frame_.graph->outputs().size(), -1);
  in_arena_.assign(frame_.graph->outputs().size(), false);
  assign_inputs();
  for (size_t s = 0; s < frame_.steps.size(); ++s) assign_step(static_cast<int32_t>(s));
  return assign_outputs();
}

void StoragePlanner::assign_inputs() {
  for (size_t i = 0; i < frame_.graph->inputs().size(); ++i) {
    const int32_t value = frame_.graph->inputs()[i].value;
    storage_of(value) = static_cast<int32_t>(storages_.size());
    storages_.push_back({bytes_of(value), -1, last_read_[static_cast<size_t>(value)], Place::kInput,
                         static_cast<int32_t>(i)});
  }
  for (const graph::Node& node : frame_.graph->nodes()) {
    for (int32_t value : node.outputs) {
      const Place& place = frame_.places[static_cast<size_t>(value)];
      if (place.kind != Place::kConstant) continue;
      storage_of(value) = static_cast<int32_t>(storages_.size());
      storages_.push_back({bytes_of(value), -1, INT32_MAX, Place::kConstant, place.index});
    }
  }
}

bool StoragePlanner::may_take(int32_t time, size_t input, size_t output,
                              const std::vector<int32_t>& taken) const {
  const Step& step = frame_.steps[static_cast<size_t>(time)];
  const int32_t value = root(step.inputs[input]);
  if (last_read_[static_cast<size_t>(value)] != time) return false;
  const int32_t found = storage_of(value);
  const Storage& storage = storages_[static_cast<size_t>(found)];
  const bool writable =
      storage.kind == Place::kArena ||
      (storage.kind == Place::kInput && donated_to_[static_cast<size_t>(storage.index)] >= 0);
  if (!writable || storage.bytes != bytes_of(step.outputs[output])) return false;
  if (std::find(taken.begin(), taken.end(), found) != taken.end()) return false;
  if (step.kernel.elementwise) {
    return frame_.graph->type(value).shape.count() ==
           frame_.graph->type(step.outputs[output]).shape.count();
  }
  // The kernel may read other elements of its operands, so the value must not be a second operand
  // too.
  return std::count_if(step.inputs.begin(), step.inputs.end(),
                       [&](int32_t v) { return root(v) == value; }) == 1;
}

// Returns the storage of an input that the output may overwrite, or -1. It prefers the donated
// input that the output takes over, then storage in the arena, then other donated inputs.
int32_t StoragePlanner::storage_to_overwrite(int32_t time, size_t output,
                                             const std::vector<int32_t>& taken) const {
  const Step& step = frame_.steps[static_cast<size_t>(time)];
  int32_t best = -1, best_rank = -1;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const bool named = output < step.kernel.may_overwrite.size() &&
                       step.kernel.may_overwrite[output] == static_cast<int>(i);
    if (!(named || step.kernel.elementwise) || !may_take(time, i, output, taken)) continue;
    const int32_t found = storage_of(step.inputs[i]);
    const Storage& storage = storages_[static_cast<size_t>(found)];
    int32_t rank = storage.kind == Place::kArena ? 1 : 0;
    if (storage.kind == Place::kInput) {
      const int32_t successor = donated_to_[static_cast<size_t>(storage.index)];
      if (root(frame_.graph->outputs()[static_cast<size_t>(successor)].value) ==
          step.outputs[output])
        rank = 2;
    }
    if (rank > best_rank) {
      best = found;
      best_rank = rank;
    }
  }
  return best;
}

void StoragePlanner::assign_step(int32_t time) {
  const Step& step = frame_.steps[static_cast<size_t>(time)];
  std::vector<int32_t> taken;
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    const int32_t value = step.outputs[o];
    const int32_t last = std::max(time, last_read_[static_cast<size_t>(value)]);
    int32_t found = storage_to_overwrite(time, o, taken);
    if (found >= 0) {
      Storage& storage = storages_[static_cast<size_t>(found)];
      storage.end = std::max(storage.end, last);
      if (storage.kind == Place::kInput) first_overwrite_ = std::min(first_overwrite_, time);
      taken.push_back(found);
    } else {
      found = static_cast<int32_t>(storages_.size());
      storages_.push_back({bytes_of(value), time, last, Place::kArena, -1});
    }
    storage_of(value) = found;
  }
}

// Assigns the storage of an output. Returns false when the output should take over an input and
// cannot.
bool StoragePlanner::claim_output(size_t o) {
  const int32_t value = frame_.graph->outputs()[o].value;
  const int32_t donor = o < donations_.size() ? donations_[o] : -1;
  const auto number = static_cast<int32_t>(o);
  Storage& storage = storages_[static_cast<size_t>(storage_of(value))];
  const bool reached =
      std::find(takes_over_.begin(), takes_over_.end(), donor) != takes_over_.end();
  if (storage.kind == Place::kInput && storage.index == donor && !reached) {
    takes_over_[o] = donor;
    return true;
  }
  if (storage.kind != Place::kArena || storage.index >= 0) {
    copies_.push_back({value, number, bytes_of(value)});
    return donor < 0;
  }
  if (donor >= 0) {
    const int32_t donor_value = frame_.graph->inputs()[static_cast<size_t>(donor)].value;
    const Storage& given = storages_[static_cast<size_t>(storage_of(donor_value))];
    if (given.end < storage.begin && given.bytes == storage.bytes) {
      storage.kind = Place::kInput;
      storage.index = donor;
      first_overwrite_ = std::min(first_overwrite_, storage.begin);
      takes_over_[o] = donor;
      return true;
    }
  }
  in_arena_[o] = donor < 0 && brief_[o];
  if (!in_arena_[o]) storage.kind = Place::kOutput;
  storage.index = number;
  return donor < 0;
}

bool StoragePlanner::assign_outputs() {
  bool all = true;
  for (size_t o = 0; o < takes_over_.size(); ++o) {
    if (claim_output(o)) continue;
    donations_[o] = -1;
    all = false;
  }
  return all;
}

void StoragePlanner::write_places() {
  for (size_t v = 0; v < storage_of_.size(); ++v) {
    if (storage_of_[v] < 0) continue;
    const Storage& storage = storages_[static_cast<size_t>(storage_of_[v])];
    frame_.places[v] = {storage.kind, storage.index, -1};
  }
  frame_.copies = copies_;
  frame_.takes_over = takes_over_;
  frame_.in_arena = in_arena_;
  frame_.first_overwrite = first_overwrite_;
}

std::vector<ArenaPiece> StoragePlanner::arena_pieces() const {
  std::vector<ArenaPiece> pieces;
  std::vector<int32_t> piece_of(storages_.size(), -1);
  for (size_t v = 0; v < storage_of_.size(); ++v) {
    if (storage_of_[v] < 0) continue;
    const auto number = static_cast<size_t>(storage_of_[v]);
    const Storage& storage = storages_[number];
    if (storage.kind != Place::kArena) continue;
    if (piece_of[number] < 0) {
      piece_of[number] = static_cast<int32_t>(pieces.size());
      pieces.push_back({storage.bytes, storage.begin, storage.end, {}});
    }
    pieces[static_cast<size_t>(piece_of[number])].values.push_back(static_cast<int32_t>(v));
  }
  return pieces;
}

int64_t place_pieces(std::span<Piece> pieces) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
  std::vector<size_t> placed; // sorted by offset
  int64_t size = 0;
  for (size_t index : order) {
    Piece& piece = pieces[index];
    const int64_t bytes = align_up(piece.bytes);
    int64_t best = -1, best_gap = INT64_MAX, free_from = 0;
    for (size_t other_index : placed) {
      const Piece& other = pieces[other_index];
      if (other.end < piece.begin || piece.end < other.begin) continue;
      const int64_t gap = other.offset - free_from;
      if (gap >= bytes && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, other.offset + align_up(other.bytes));
    }
    piece.offset = best >= 0 ? best : free_from;
    size = std::max(size, piece.offset + bytes);
    const auto after =
        std::upper_bound(placed.begin(), placed.end(), piece.offset,
                         [&](int64_t offset, size_t i) { return offset < pieces[i].offset; });
    placed.insert(after, index);
  }
  return size;
}

} // namespace dllm::cpu
