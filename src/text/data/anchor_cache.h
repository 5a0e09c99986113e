#pragma once
// A cache of anchors holds what a teacher computes from chunks of text: hidden states, and top
// logits. A chunk is a run of tokens that see each other and no other token. castlehill, a fork of
// Open-dLLM, has the same files:
//
//   DIR/29/299e9bb8fadf6506.safetensors   one file for each chunk, named by a hash of its tokens
//       input_ids        i64(tokens)
//       hidden_layer_7   f32, bf16 or f16 (tokens, hidden); 0 is the embedding, 1 the first layer
//   DIR/manifest.json    {"num_hidden_layers", "hidden_size", "layers"}, written last
//
// Castlehill does not have these forms:
//   hidden_layer_7         i8(tokens, hidden), with a scale for each group of numbers in
//   hidden_layer_7.scale   f32(tokens, groups). The error is at most half of the scale.
//   teacher_top_ids        i32(tokens, k): tokens that the teacher finds likeliest at a position;
//                          -1 where it predicts none
//   teacher_top_logits     f32(tokens, k)

#include "base/json.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "tensor/batch.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dllm::text {

inline constexpr const char* kAnchorState = "hidden_layer_"; // then the number of the layer
inline constexpr const char* kAnchorScale = ".scale";        // after the name of packed states
inline constexpr const char* kTopIds = "teacher_top_ids";
inline constexpr const char* kTopLogits = "teacher_top_logits";

// Returns the first 16 hexadecimal digits of SHA-256 over the ids as little-endian i64.
std::string anchor_key(std::span<const int32_t> ids);
// Returns the path of a chunk's file.
std::string anchor_path(const std::string& folder, const std::string& key);
std::string anchor_manifest(const std::string& folder); // its path

// Tokens [begin, end) of a row.
struct AnchorChunk {
  size_t begin = 0, end = 0;
};
// Returns the chunks of a row: runs of equal segments, without padding (0).
std::vector<AnchorChunk> chunks_of(std::span<const int32_t> segments);

// Packs states (tokens, hidden) into i8 with one scale for each `group` numbers of a token.
// REQUIRES: group divides hidden. Fails with data_loss for a number that is not finite.
struct PackedStates {
  Tensor numbers; // i8(tokens, hidden)
  Tensor scales;  // f32(tokens, hidden / group)
};
PackedStates pack_states(const Tensor& states, int64_t group);
// Returns f32(tokens, hidden).
Tensor unpack_states(const Tensor& numbers, const Tensor& scales);

// Writes the file of a chunk, which appears whole or not at all. Any number of processes may write
// the same file at once. arrays: all but input_ids.
void write_anchors(const std::string& folder, std::span<const int32_t> ids,
                   ckpt::NamedTensors arrays);

// Reads a cache. Any thread may read.
class AnchorCache {
public:
  // Fails with failed_precondition for a folder without manifest.json.
  explicit AnchorCache(const std::string& folder);

  // Returns the first words of ids, for an error; may be null.
  using Words = std::function<std::string(std::span<const int32_t>)>;
  // Adds every array of the cache to a batch with "ids" i32(batch, seq), with shape (batch, seq,
  // width) and zeros at padding. segments: i32(batch, seq). Fails with not_found for a chunk that
  // the cache lacks: the error counts rows from `first`. Fails with data_loss for a file of other
  // tokens or shapes.
  void add_to(Batch& batch, const Tensor& segments, int64_t first, const Words& words) const;

private:
  std::string folder_;
  std::vector<std::string> names_; // of the arrays
  int64_t hidden_ = 0;
};

} // namespace dllm::text
