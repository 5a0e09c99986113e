#pragma once
// Weights as operands of products. WeightOperand is a matrix, and Head is the head of a language
// model.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

namespace dllm::cpu {

// The blocks of a weight that is multiplied one block of `out` at a time.
struct WeightBlocks {
  int64_t most = 0;         // ids of a block; even
  bool packs_itself = true; // false: the caller packs each block
};

// A weight (out, in) as an operand of x w^T (kPacked) or dy w (kPackedTransposed). If the engine
// keeps its packed form, that form is used. Otherwise each call packs the weight. A weight in
// blocks, or in int8, has the form kPacked alone, from which products make other panels.
class WeightOperand {
public:
  // `input` is the index in the node, `rows` the most rows that are multiplied. Adds its scratch
  // memory to `layout`.
  WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                ScratchLayout& layout);
  WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                const WeightBlocks& blocks, ScratchLayout& layout);

  size_t input() const { return input_; }
  FormSet wants() const;
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  // Returns the form of a block that the caller packs.
  const PanelForm& form() const { return stored_; }
  // Returns the bytes of one panel of the packed form, which has 16 rows and whole chains.
  int64_t panel_bytes() const;
  // Returns the panels. Packs them first when the operand has only its plain form.
  const std::byte* panels(const KernelCall& call) const;
  // Returns the product with all members set but A, C and m.
  Gemm gemm(const KernelCall& call) const;
  // Returns the product as gemm() for these panels.
  Gemm product(const KernelCall& call, const std::byte* panels) const;
  // Returns the part of a product dy w for the outputs [begin, begin + count) of the weight.
  // REQUIRES: begin is a multiple of 16, and of 32 in bf16.
  Gemm chain_part(const Gemm& whole, int64_t begin, int64_t count) const;

private:
  WeightOperand(const CompileInfo& info, size_t input, Form form, bool packs,
                ScratchLayout& layout);

  size_t input_;
  bool kept_;
  int64_t out_, in_;
  PanelForm stored_;                   // form that is kept, or packed in a call
  Gemm product_;                       // the product without operands and work space
  int64_t scratch_ = -1;               // offset of the packed form when none is kept
  int64_t rounded_ = 0, expanded_ = 0; // offsets of work space of the product
};

// Returns the form in which a weight is packed for an operand: kPacked, if products can make the
// transposed panels from it.
PanelForm stored_form(const CompileInfo& info, size_t input, Form form);
inline Form kept_form(const PanelForm& stored) {
  return stored.transposed ? kPackedTransposed : kPacked;
}
// Returns the product with a weight (out, in) in this form, without operands and work space.
Gemm product_of(Arithmetic arithmetic, const PanelForm& stored, int64_t out, int64_t in, Form form);
// Fails with unimplemented when products cannot read the format of the weight.
void expect_lanes(const char* op, const graph::ValueType& weight);

// The head of a language model as an operand. It computes logits z = x w^T * scale + bias for a
// block of rows and of the vocabulary. A model with a softcap has the logits softcap * tanh(z /
// softcap). The inputs are 0 x (capacity, in), 1 weight (vocab, in), then bias and scale where the
// attributes have them.

class Head {
public:
  Head(const CompileInfo& info, ScratchLayout& layout);
  // A head that computes logits of at most `rows` rows and one block of ids at a time.
  Head(const CompileInfo& info, int64_t rows, const WeightBlocks& blocks, ScratchLayout& layout);

  int64_t capacity() const { return capacity_; }
  int64_t vocab() const { return weight_.out(); }
  int64_t in() const { return weight_.in(); }
  size_t next_input() const { return next_input_; } // first input after the inputs of the head
  const float* scale(const KernelCall& call) const; // null: none
  float softcap() const { return softcap_; }        // 0: none
  FormSet wants() const { return weight_.wants(); }

  const std::byte* panels(const KernelCall& call) const { return weight_.panels(call); }
  const PanelForm& form() const { return weight_.form(); }
  // Writes the logits of x (rows, in) at ids [begin, end) to `to` (rows, end - begin). `panels` are
  // the panels of the whole weight. REQUIRES: begin is a multiple of 16.
  void logits(const KernelCall& call, const std::byte* panels, const float* x, int64_t rows,
              int64_t begin, int64_t end, float* to, int64_t to_stride) const;
  // Writes the same logits; `block` has the panels of these ids only.
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

// Returns min(max(count, 0), capacity), where `input` is the index of count i32(). Returns capacity
// when `input` is -1.
int64_t rows_in_use(const KernelCall& call, int input, int64_t capacity);

// Returns the ids of a vocabulary block, a multiple of 512 such that rows x block is near 16 MB.
// Bits do not depend on it.
int64_t vocab_block(int64_t rows, int64_t vocab);

} // namespace dllm::cpu
