#pragma once
// The heads of edit flows (Havasi et al. 2025; ZHZisZZ/dllm). They read the hidden state of a
// token. They compute the logits of the token that replaces it, the logits of the token to insert
// to its right, and three rates.
// Any family may have edit heads. config.json names them (model_type "editflow-<type>", or "dllm":
// {"heads"}), the file of the weights holds them, or the model option heads = edit adds them.

#include "model/files/weights.h"
#include "model/network/builder.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::model {

inline constexpr const char* kEditPrefix = "editflow-"; // prefix of model_type
inline constexpr const char* kSubstituteHead = "substitute";
inline constexpr const char* kInsertHead = "insert";
inline constexpr const char* kRateHead = "rate";
inline constexpr int64_t kEditRates = 3; // the rates in order: substitute, delete, insert

bool has_edit_heads(const ModelConfig& config);
// Adds the edit heads that the config does not list. `rate_file` is the name of the tensors of the
// rates without its last word.
void add_edit_heads(ModelConfig& config, const char* rate_file = "rate_heads.0");
// Fails with failed_precondition when the config has no edit heads. The error names the ways to get
// them. `what` names the user of the heads: "objective editflow".
void need_edit_heads(const ModelConfig& config, const char* what);

// Returns `source`, and adds the edit heads to the config when the source holds them. With `wanted`
// the config gets the heads in any case. Heads that the source lacks get first values. The two
// heads of tokens copy the model's own head, and the rates are random numbers of `seed`.
std::unique_ptr<WeightSource> find_edit_heads(std::unique_ptr<WeightSource> source,
                                              ModelConfig& config, bool wanted, uint64_t seed);

// Returns f32(rows, 3), the rates, which are not negative: softplus of the rate head. `hidden` is
// (rows, hidden).
graph::Value edit_rates(Builder& builder, graph::Value hidden);

} // namespace dllm::model
