// Finds the stacks of a scan that may overlap.

#include "cpu/stack_overlap.h"

#include "cpu/memory.h"

#include <algorithm>

namespace dllm::cpu {
namespace {

class StackPairs {
public:
  StackPairs(const Frame& frame, const std::vector<ArenaPiece>& pieces)
      : frame_(frame), pieces_(pieces), piece_of_(frame.places.size(), -1) {
    for (size_t p = 0; p < pieces.size(); ++p) {
      for (int32_t value : pieces[p].values)
        piece_of_[static_cast<size_t>(value)] = static_cast<int32_t>(p);
    }
  }

  void add(int32_t time) {
    const Step& step = frame_.steps[static_cast<size_t>(time)];
    const graph::Node& node = frame_.graph->nodes()[static_cast<size_t>(step.node)];
    const Loop& loop = *step.loop;
    const int64_t count = node.attributes.integer("count");
    // A scan over part of its range clears the other rows before its first step.
    if (!loop.reverse || loop.begin != 0 || loop.end != count || count < 2) return;
    std::vector<size_t> kept = used_up(step, loop, time), made = made_by(step, loop, time);
    const auto larger = [&](size_t a, size_t b) { return pieces_[a].bytes > pieces_[b].bytes; };
    std::stable_sort(kept.begin(), kept.end(), larger);
    std::stable_sort(made.begin(), made.end(), larger);
    for (size_t i = 0; i < std::min(kept.size(), made.size()); ++i) pair(kept[i], made[i], count);
  }

  std::vector<StackPair> pairs;

private:
  int32_t piece_at(int32_t value) const {
    return piece_of_[static_cast<size_t>(frame_.source[static_cast<size_t>(value)])];
  }

  // Returns the pieces that the step reads only element by element and that no later step reads.
  std::vector<size_t> used_up(const Step& step, const Loop& loop, int32_t time) const {
    std::vector<size_t> found;
    const auto first = static_cast<size_t>(loop.carry);
    const auto last = first + static_cast<size_t>(loop.per_layer);
    for (size_t i = first; i < last; ++i) {
      const int32_t piece = piece_at(step.inputs[i]);
      if (piece < 0 || pieces_[static_cast<size_t>(piece)].end != time) continue;
      bool whole = false;
      for (size_t other = 0; other < step.inputs.size(); ++other) {
        const bool stacked = other >= first && other < last;
        whole = whole || (!stacked && piece_at(step.inputs[other]) == piece);
      }
      const auto number = static_cast<size_t>(piece);
      if (!whole && std::find(found.begin(), found.end(), number) == found.end())
        found.push_back(number);
    }
    return found;
  }

  std::vector<size_t> made_by(const Step& step, const Loop& loop, int32_t time) const {
    std::vector<size_t> found;
    for (size_t o = static_cast<size_t>(loop.carry); o < step.outputs.size(); ++o) {
      const int32_t piece = piece_at(step.outputs[o]);
      if (piece >= 0 && pieces_[static_cast<size_t>(piece)].begin == time)
        found.push_back(static_cast<size_t>(piece));
    }
    return found;
  }

  // Records a pair. Elements 0..i of the old stack still exist while element i of the new stack is
  // written. With element sizes `old` and `fresh` this requires shift + i fresh >= (i + 1) old for
  // every i.
  void pair(size_t kept, size_t made, int64_t count) {
    const int64_t all_old = pieces_[kept].bytes, all_new = pieces_[made].bytes;
    if (all_old % count != 0 || all_new % count != 0) return;
    const int64_t old = all_old / count, fresh = all_new / count;
    const int64_t shift = align_up(old + (count - 1) * std::max<int64_t>(0, old - fresh));
    const int64_t bytes = std::max(all_old, shift + all_new);
    if (bytes < all_old + all_new) pairs.push_back({kept, made, shift, bytes});
  }

  const Frame& frame_;
  const std::vector<ArenaPiece>& pieces_;
  std::vector<int32_t> piece_of_; // by value
};

} // namespace

std::vector<StackPair> pair_stacks(const Frame& frame, const std::vector<ArenaPiece>& pieces) {
  StackPairs found(frame, pieces);
  for (size_t s = 0; s < frame.steps.size(); ++s) {
    const Step& step = frame.steps[s];
    if (step.loop != nullptr && !step.loop->is_while) found.add(static_cast<int32_t>(s));
  }
  // A stack that occurs in pairs of two scans stays in the first pair.
  std::vector<bool> taken(pieces.size(), false);
  std::vector<StackPair> pairs;
  for (const StackPair& pair : found.pairs) {
    if (taken[pair.kept] || taken[pair.made]) continue;
    taken[pair.kept] = taken[pair.made] = true;
    pairs.push_back(pair);
  }
  return pairs;
}

} // namespace dllm::cpu
