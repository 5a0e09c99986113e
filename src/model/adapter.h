#pragma once
// LoRA adapters of a model: two small matrices for each chosen one. The base is frozen, A and B are trained.

#include "model/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::model {

struct AdapterOptions {
  std::vector<std::string> targets; // patterns of logical names, '*' stands for any text
  int64_t rank = 8;
  double alpha = 16; // the product is multiplied by alpha / rank
  uint64_t seed = 0;
};

// "model.layers.0.self_attn.q_proj.weight" gets "model.layers.0.self_attn.q_proj.lora_A.weight" (rank, in), uniform in
// +-1/sqrt(in), and lora_B.weight (out, rank), zero: the model computes what it did. Everything but these is frozen.
// Version + 1. Fails with not_found when a pattern matches nothing, with unimplemented for embeddings, the head and part
// of a stack, with failed_precondition when the model has adapters already.
void add_adapters(Model& model, const AdapterOptions& options);
// W += alpha / rank B A, in the format of W; the adapters are removed. Version + 1.
void merge_adapters(Model& model);

} // namespace dllm::model
