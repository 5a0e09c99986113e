#pragma once
// Chooses what an alignment compares: positions of each row, and layers.

#include "base/random.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

// Arrays of prepared rows. n is the number of aligned layers, and k of compared positions.
// i32(batch, k): positions in the row.
inline constexpr const char* kAlignPositions = "align_positions";
// f32(batch, units): the sum of the weights is 1 or 0.
inline constexpr const char* kAlignWeights = "align_weights";
inline constexpr const char* kAlignLayers = "align_layers"; // f32(batch, n), sum 1
inline constexpr const char* kAlignBlocks = "align_blocks"; // f32(batch, units, k)
// Array of the feed: i32(batch * k), rows of (batch * seq, hidden).
inline constexpr const char* kAlignRows = "align_rows";

enum class AlignPositions {
  visible,    // the student sees the true token
  supervised, // the state predicts a token that the loss counts
  all,
};

// One row of tokens. Without segments nothing is padding.
struct AlignRow {
  std::span<const int32_t> shown, clean; // what the student sees, and the text
  std::span<const int32_t> targets;      // -1: the loss does not count the token
  std::span<const int32_t> segments;     // 0: padding
  int64_t length = 0;
};

// Returns the positions of a row that may be compared, in order. With shift 1 position i is
// supervised when the loss counts token i + 1.
std::vector<int32_t> aligned_positions(const AlignRow& row, AlignPositions which, int shift);

// Returns max(1, floor(share * n)) of the n positions, the first of `order`, which is a permutation
// of 0 to n - 1. Empty positions give none.
std::vector<int32_t> share_of(std::span<const int32_t> positions, std::span<const int64_t> order,
                              double share);

// Returns the layers that a list of option `option` names, in order. "all" names the embedding (0)
// and all layers; an empty list names four layers at equal distances. Fails with invalid_argument
// for a layer that a model of `of_model` layers lacks.
std::vector<int64_t> named_layers(const std::string& option, const std::vector<std::string>& names,
                                  int64_t of_model);

// Returns the permutation of 0 to count - 1 that the key draws.
std::vector<int64_t> drawn_order(Key key, int64_t count);

// Returns the weights exp(exponent * a / n) of layers a = 0 to n - 1, for the layers in use alone,
// divided by their sum. The others get 0.
std::vector<float> layer_weights(int64_t count, double exponent, std::span<const bool> used);

// Returns the means over equal parts of the first `count` of `width` positions: f32(units, width).
// The remainder belongs to no part. All are 0 when count is less than units.
std::vector<float> block_means(int64_t count, int64_t units, int64_t width);

} // namespace dllm::noise
