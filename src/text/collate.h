#pragma once
// Rows of different lengths into one batch, as the collators of dllm-jax (github.com/Beomi/dllm-jax) and dLLM
// (github.com/ZHZisZZ/dllm) do it: what is cut off, what is added, and padding on either side.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dllm::text {

struct Example {
  std::vector<int32_t> ids;
  std::vector<uint8_t>
      keep; // one per id; 1: given (a prompt), not learned: label -100 of the originals
  std::vector<uint8_t> seen; // empty: every token is seen. Else one per id: attention_mask
  // Of DMax: ids that training starts from instead of drawn noise. Empty: none.
  std::vector<int32_t> noisy;
  bool flag = false;

  // Tokens before the first learned one.
  int64_t prompt() const;
  int64_t response() const { return static_cast<int64_t>(ids.size()) - prompt(); }
  void resize(int64_t size); // drops the tail
};

enum class PadSide { right, left };

// Every row ends with learned eos tokens, up to the next multiple of `block` (AppendEOSBlockWrapper). A row that
// has `seen` keeps it, so pad_rows() refuses what became longer: set `seen` after this.
void extend_with_eos(std::vector<Example>& rows, int64_t block, int32_t eos);

// Dream: of a response longer than `length` the tail goes.
void cut_responses(std::vector<Example>& rows, int64_t length);
// Dream: the last `count` columns of the batch go. With padding on the right the longest rows lose their tail, with
// padding on the left every row does.
void cut_columns(std::vector<Example>& rows, int64_t count, PadSide side);

// A batch of equal length, row after row.
struct PaddedRows {
  int64_t width = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> keep, seen;
  std::vector<int32_t> noisy; // empty: no row has `noisy` or a flag
  std::vector<uint8_t> flags; // one a row, with `noisy`
};
// width 0: that of the longest row. A padded place has the id `pad`, keep 1, seen 0. Rows without `noisy` start from
// their own ids; of a `noisy` that is too long the columns on the padded side go. Fails with invalid_argument
// naming the row when it is longer than width, or keep or seen have another length than ids.
PaddedRows pad_rows(std::span<const Example> rows, int64_t width, int32_t pad, PadSide side);

// The two ends of an edit flow: training goes from `from` to `to` by insertions, deletions and substitutions.
struct EditPair {
  std::vector<int32_t> from, to;
};
// What a flow starts from: nothing, or a row of mask tokens.
struct EditStart {
  int64_t masks = 0;
  // "empty", "masks" (128) or "masks[length:N]". invalid_argument naming what was read.
  static EditStart parse(std::string_view text);
};
// prompt: tokens that both ends begin with; -1: a bos token, which is put in front of ids where it is missing.
EditPair make_edit_pair(std::span<const int32_t> ids, int64_t prompt, int32_t bos, int32_t mask,
                        const EditStart& start);

// The order of random.Random(seed).shuffle(range(count)) of Python 3 (Mersenne Twister, Matsumoto and Nishimura 1998).
std::vector<int64_t> python_order(int64_t count, uint64_t seed);

} // namespace dllm::text
