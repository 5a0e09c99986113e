#pragma once
// The heads of edit flows (Havasi et al. 2025; ZHZisZZ/dllm): over the hidden state of a token stand the logits of the
// token that replaces it, the logits of the token that is inserted to its right, and three rates. Any family may have
// them: config.json names them (model_type "editflow-<type>", or "dllm": {"heads"}), its file holds them, or the model
// option heads = edit adds them.

#include "model/builder.h"
#include "model/weights.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::model {

inline constexpr const char* kEditPrefix = "editflow-"; // of model_type
inline constexpr const char* kSubstituteHead = "substitute";
inline constexpr const char* kInsertHead = "insert";
inline constexpr const char* kRateHead = "rate";
inline constexpr int64_t kEditRates = 3; // in this order: substitute, delete, insert

bool has_edit_heads(const ModelConfig& config);
// Adds those that the config does not list. rate_file: the tensors of the rates, without their last word.
void add_edit_heads(ModelConfig& config, const char* rate_file = "rate_heads.0");
// Fails with failed_precondition and the ways to get them; what: "objective editflow".
void need_edit_heads(const ModelConfig& config, const char* what);

// The same source where it holds the edit heads, which the config gets then. wanted: otherwise too; both heads of tokens
// begin as the model's own head, the rates as random numbers of `seed`.
std::unique_ptr<WeightSource> find_edit_heads(std::unique_ptr<WeightSource> source,
                                              ModelConfig& config, bool wanted, uint64_t seed);

// f32(rows, 3), not negative: softplus of the head of rates. hidden (rows, hidden).
graph::Value edit_rates(Builder& builder, graph::Value hidden);

} // namespace dllm::model
