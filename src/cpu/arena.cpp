#include "cpu/arena.h"

#include "cpu/memory.h"

#include <algorithm>
#include <numeric>

namespace dllm::cpu {

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
