#include "noise/edit_alignment.h"

#include <algorithm>

namespace dllm::noise {
namespace {

enum class Move : uint8_t { pair, remove, insert };

} // namespace

Alignment align(std::span<const int32_t> from, std::span<const int32_t> to, EditCosts costs) {
  const size_t rows = from.size(), columns = to.size(), width = columns + 1;
  std::vector<Move> moves((rows + 1) * width, Move::pair);
  std::vector<int64_t> above(width), cost(width); // of two neighbouring rows of the table
  for (size_t j = 0; j <= columns; ++j) {
    above[j] = static_cast<int64_t>(j) * costs.blank;
    moves[j] = Move::insert;
  }
  for (size_t i = 1; i <= rows; ++i) {
    cost[0] = static_cast<int64_t>(i) * costs.blank;
    moves[i * width] = Move::remove;
    for (size_t j = 1; j <= columns; ++j) {
      const int64_t pair = above[j - 1] + (from[i - 1] == to[j - 1] ? 0 : costs.substitute),
                    remove = above[j] + costs.blank, insert = cost[j - 1] + costs.blank;
      cost[j] = std::min({pair, remove, insert});
      moves[i * width + j] = cost[j] == pair     ? Move::pair
                             : cost[j] == remove ? Move::remove
                                                 : Move::insert;
    }
    std::swap(above, cost);
  }
  Alignment made;
  for (size_t i = rows, j = columns; i > 0 || j > 0;) {
    const Move move = moves[i * width + j];
    made.from.push_back(move == Move::insert ? kBlank : from[--i]);
    made.to.push_back(move == Move::remove ? kBlank : to[--j]);
  }
  std::ranges::reverse(made.from);
  std::ranges::reverse(made.to);
  return made;
}

std::vector<Edit> edits_between(std::span<const int32_t> now, std::span<const int32_t> to) {
  std::vector<Edit> edits;
  int64_t tokens = 0; // of `now` before the column
  for (size_t column = 0; column < now.size(); ++column) {
    if (now[column] == kBlank && to[column] != kBlank)
      edits.push_back({Edit::Kind::insert, std::max<int64_t>(tokens - 1, 0), to[column]});
    else if (now[column] != kBlank && to[column] == kBlank)
      edits.push_back({Edit::Kind::remove, tokens, -1});
    else if (now[column] != to[column])
      edits.push_back({Edit::Kind::substitute, tokens, to[column]});
    tokens += now[column] != kBlank ? 1 : 0;
  }
  return edits;
}

} // namespace dllm::noise
