#pragma once
// These functions cut, extend and pad rows of different lengths to make one batch, as the collators
// of dllm-jax (github.com/Beomi/dllm-jax) and dLLM (github.com/ZHZisZZ/dllm) do.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dllm::text {

struct Example {
  std::vector<int32_t> ids;
  // One per id. 1: given (a prompt) and not learned, which is label -100 in dllm-jax and dLLM.
  std::vector<uint8_t> keep;
  // The attention mask, one per id; empty when every token is attended to.
  std::vector<uint8_t> seen;
  // DMax: ids from which training starts in place of drawn noise. Empty: not used.
  std::vector<int32_t> noisy;
  // Array "trajectory" of the row (trajectories.h); empty: not used.
  std::vector<int32_t> trajectory;
  bool flag = false;

  // Tokens before the first learned one.
  int64_t prompt() const;
  int64_t response() const { return static_cast<int64_t>(ids.size()) - prompt(); }
  void resize(int64_t size); // drops the tail
};

enum class PadSide { right, left };

// Appends learned eos tokens to every row up to the next multiple of `block`
// (AppendEOSBlockWrapper). It does not extend `seen`, so set `seen` after this call: pad_rows()
// refuses rows whose `seen` is shorter than their ids.
void extend_with_eos(std::vector<Example>& rows, int64_t block, int32_t eos);

// Cuts every response to at most `length` tokens (Dream).
void cut_responses(std::vector<Example>& rows, int64_t length);
// Removes the last `count` columns of the batch (Dream). With padding on the right only rows that
// reach into these columns get shorter; with padding on the left every row does.
void cut_columns(std::vector<Example>& rows, int64_t count, PadSide side);

// A batch of equal length, row after row.
struct PaddedRows {
  int64_t width = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> keep, seen;
  std::vector<int32_t> noisy;      // empty: no row has `noisy` or a flag
  std::vector<int32_t> trajectory; // empty: no row has one; 0 for padding
  std::vector<uint8_t> flags;      // one a row, with `noisy`
};
// Pads rows to `width` tokens; width 0 means the length of the longest row. Padding has the id
// `pad`, keep 1 and seen 0. For a row without `noisy`, `noisy` is its ids; a `noisy` longer than
// `width` loses its tokens on the padded side. Fails with invalid_argument naming the row when the
// row is longer than `width`, or keep or seen differ in length from ids.
PaddedRows pad_rows(std::span<const Example> rows, int64_t width, int32_t pad, PadSide side);

// The two ends of an edit flow, which turns `from` into `to` by insertions, deletions and
// substitutions.
struct EditPair {
  std::vector<int32_t> from, to;
};
// The start of an edit flow: `masks` mask tokens after the prompt.
struct EditStart {
  int64_t masks = 0;
  // Parses "empty" (0), "masks" (128) or "masks[length:N]". Fails with invalid_argument naming
  // the text.
  static EditStart parse(std::string_view text);
};
// Makes the pair for `ids`. prompt is the number of tokens with which both ends begin; -1 means one
// bos token, which is added before `ids` when it is missing there.
EditPair make_edit_pair(std::span<const int32_t> ids, int64_t prompt, int32_t bos, int32_t mask,
                        const EditStart& start);

// Returns 0..count-1 in the order of random.Random(seed).shuffle() in Python 3 (Mersenne Twister,
// Matsumoto and Nishimura 1998).
std::vector<int64_t> python_order(int64_t count, uint64_t seed);

} // namespace dllm::text
