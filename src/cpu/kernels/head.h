#pragma once
// The head of a language model as an operand: logits = x w^T * scale + bias, then softcap * tanh(./
// softcap) when the model has one, for a block of rows and of the vocabulary. Inputs 0 x (capacity,
// in), 1 weight (vocab, in), then bias and scale as the attributes say.

#include "cpu/kernels/weight.h"

namespace dllm::cpu {

class Head {
public:
  Head(const CompileInfo& info, ScratchLayout& layout);

  int64_t capacity() const { return capacity_; }
  int64_t vocab() const { return weight_.out(); }
  int64_t in() const { return weight_.in(); }
  size_t next_input() const { return next_input_; } // the first one after scale
  const float* scale(const KernelCall& call) const; // or null
  float softcap() const { return softcap_; }        // 0: none
  FormSet wants() const { return weight_.wants(); }

  const std::byte* panels(const KernelCall& call) const { return weight_.panels(call); }
  // to (rows, end - begin) = logits of x (rows, in) at ids [begin, end). REQUIRES: begin is a
  // multiple of 16.
  void logits(const KernelCall& call, const std::byte* panels, const float* x, int64_t rows,
              int64_t begin, int64_t end, float* to, int64_t to_stride) const;

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
