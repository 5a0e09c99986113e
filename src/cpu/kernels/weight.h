#pragma once
// Weights as operands of products: a matrix, and the head of a language model.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

namespace dllm::cpu {

// A weight matrix as an operand of a product: packed for good when the engine keeps its forms, else
// packed per call.

// A weight that is multiplied a block of `out` at a time.
struct WeightBlocks {
  int64_t most = 0;         // ids of a block; even
  bool packs_itself = true; // false: the caller that multiplies packs each block
};

// How one weight (out, in) enters x w^T (kPacked) or dy w (kPackedTransposed).
class WeightOperand {
public:
  // input: index in the node. rows: the most that are multiplied. Adds the scratch it needs to `layout`.
  WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                ScratchLayout& layout);
  WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                const WeightBlocks& blocks, ScratchLayout& layout);

  size_t input() const { return input_; }
  FormSet wants() const;
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  // How a block that the caller packs lies.
  const PanelForm& form() const { return stored_; }
  // Bytes of one panel of the packed form: 16 rows, whole chains.
  int64_t panel_bytes() const;
  // The panels; packs them first when the operand has only its plain form.
  const std::byte* panels(const KernelCall& call) const;
  // All of a product but A and C.
  Gemm gemm(const KernelCall& call) const;
  // Without work space for rounded activations, rounded().
  Gemm product(const std::byte* panels) const;
  std::byte* rounded(const KernelCall& call) const { return call.scratch + rounded_; }

private:
  WeightOperand(const CompileInfo& info, size_t input, Form form, bool packs,
                ScratchLayout& layout);

  size_t input_;
  Form form_;
  bool kept_;
  int64_t out_, in_;
  PanelForm stored_;        // as it is kept, or packed in a call
  PanelForm panels_;        // as the product reads it
  int64_t scratch_ = -1;    // packed here when no form is kept
  int64_t transposed_ = -1; // blocks, transposed: f32 panels
  int64_t rounded_ = 0;     // activations, in arithmetics other than f32
};

// The packed form kept for an operand; blocks have no transposed one, theirs is made from kPacked.
inline Form kept_form(Form form, const WeightFormat* format) {
  return format != nullptr ? kPacked : form;
}
// Fails when products cannot read the format.
void expect_lanes(const char* op, const graph::ValueType& weight);

// The head of a language model as an operand: logits = x w^T * scale + bias, then softcap * tanh(./
// softcap) when the model has one, for a block of rows and of the vocabulary. Inputs 0 x (capacity,
// in), 1 weight (vocab, in), then bias and scale where the attributes have them.

class Head {
public:
  Head(const CompileInfo& info, ScratchLayout& layout);
  // Logits of at most `rows` rows and a block of ids at a time.
  Head(const CompileInfo& info, int64_t rows, const WeightBlocks& blocks, ScratchLayout& layout);

  int64_t capacity() const { return capacity_; }
  int64_t vocab() const { return weight_.out(); }
  int64_t in() const { return weight_.in(); }
  size_t next_input() const { return next_input_; } // the first one after scale
  const float* scale(const KernelCall& call) const; // or null
  float softcap() const { return softcap_; }        // 0: none
  FormSet wants() const { return weight_.wants(); }

  const std::byte* panels(const KernelCall& call) const { return weight_.panels(call); }
  const PanelForm& form() const { return weight_.form(); }
  // to (rows, end - begin) = logits of x (rows, in) at ids [begin, end). REQUIRES: begin is a
  // multiple of 16.
  void logits(const KernelCall& call, const std::byte* panels, const float* x, int64_t rows,
              int64_t begin, int64_t end, float* to, int64_t to_stride) const;
  // The same with the panels of these ids alone.
  void block_logits(const KernelCall& call, const std::byte* block, const float* x, int64_t rows,
                    int64_t begin, int64_t end, float* to, int64_t to_stride) const;
  int64_t panel_bytes() const { return weight_.panel_bytes(); }

private:
  WeightOperand weight_;
  int64_t capacity_;
  int bias_ = -1;
  int scale_ = -1;
  float softcap_;
  size_t next_input_ = 2;
};

// min(max(count, 0), capacity); input -1: capacity.
int64_t rows_in_use(const KernelCall& call, int input, int64_t capacity);

// Ids of a vocabulary block such that rows x block stays near 16 MB: a multiple of 512. Bits do not
// depend on it.
int64_t vocab_block(int64_t rows, int64_t vocab);

} // namespace dllm::cpu
