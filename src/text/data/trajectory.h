#pragma once
// A trajectory is the order in which a decoder revealed the tokens of a row. Row 0 hides every
// token after the prompt, each later row shows more of them, and the last row shows all. d3LLM in
// castlehill, a fork of Open-dLLM, writes the same.

#include "base/json.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

struct Trajectory {
  int64_t idx = 0;    // row of the dataset
  int64_t prompt = 0; // tokens of the row that every row of the trajectory shows
  // For each token of the row the first row of the trajectory that shows it. 0: every row does.
  std::vector<int32_t> order;
  // The last row; empty: the tokens of the dataset.
  std::vector<int32_t> tokens;
  std::string key; // row_key_text() of the dataset's row; "": unknown

  int64_t length() const { return static_cast<int64_t>(order.size()); }
  int64_t rows() const; // 1 + the largest number in `order`
};

// Returns row_key() (row_arrays.h) as 16 hexadecimal digits, which every JSON reader keeps.
std::string row_key_text(std::span<const int32_t> ids);

// Returns row `number` of a trajectory over these tokens: `mask` where it still hides a token.
std::vector<int32_t> trajectory_row(const Trajectory& trajectory, std::span<const int32_t> ids,
                                    int32_t mask, int64_t number);
// Makes a trajectory of rows, with hidden tokens `mask`. prompt -1: the tokens before the first
// hidden one. Fails with data_loss, naming `what` and the row, for rows of unlike length, and for a
// token that changes after it was shown. It also fails for a hidden token of the prompt, and for a
// last row that hides a token.
Trajectory trajectory_of(const std::vector<std::vector<int32_t>>& rows, int32_t mask,
                         int64_t prompt, std::string_view what);

// Reads one line of a file of trajectories, in either form:
//   {"idx", "trajectory": [[ids], ...], "nfe", "prompt_len"}
//   {"idx", "prompt_len", "len", "order": [row, ...], "tokens", "key"}
// castlehill writes the first form, in part without prompt_len. In the compact form `order` is of
// the tokens after the prompt, and tokens and key may be missing.
// The hidden token of the first form is found by comparing its first row with its last. Fails with
// data_loss, naming `what` ("FILE:12") and the member.
Trajectory parse_trajectory(std::string_view line, const std::string& what);

// Returns a line without its end. ids: the tokens of the dataset's row, as many as `order` has.
std::string rows_line(const Trajectory& trajectory, std::span<const int32_t> ids, int32_t mask);
std::string compact_line(const Trajectory& trajectory);

} // namespace dllm::text
