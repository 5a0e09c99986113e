#pragma once
// A Side is one of the two models that dllm verify --against compares. The functions run it.

#include "../../command.h"
#include "../../processes/process.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

// One of the two models.
struct Side {
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  nlohmann::ordered_json about;
  std::vector<double> seconds = {}; // time of each forward pass

  bool is_causal() const { return about.value("attention", "") == "causal"; }
};

// Loads a model on its own engine. `status` shows the loaded bytes.
Side open_side(Context& context, StatusLine& status, const std::string& path,
               const nlohmann::ordered_json& engine_options,
               const nlohmann::ordered_json& model_options);

Owned<dllm_batch> row_batch(const std::vector<int32_t>& ids);
std::vector<int32_t> ids_of(const dllm_batch* batch);
// Returns logits (tokens, vocab). Row i predicts token i; in a causal model it comes from the
// hidden state of token i - 1.
std::vector<float> logits_of(const Context& context, Side& side, const std::vector<int32_t>& ids);
// Returns `length` tokens after a prompt, decoded greedily, one in each step.
std::vector<int32_t> continuation(const Context& context, Side& side,
                                  const std::vector<int32_t>& prompt, int64_t length);
// Returns rows per second of the median pass, without the first pass, which compiles and packs.
double rows_per_second(const Side& side, size_t rows);

void print_comparison(const nlohmann::ordered_json& result); // against_report.cpp

} // namespace dllm::cli
