#pragma once
// The two models of dllm verify --against: what both are asked for.

#include "../../command.h"
#include "../../process.h"

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
  std::vector<double> seconds = {}; // of forward passes

  bool is_causal() const { return about.value("attention", "") == "causal"; }
};

// Loads a model on an engine of its own; status shows the bytes.
Side open_side(Context& context, StatusLine& status, const std::string& path,
               const nlohmann::ordered_json& engine_options,
               const nlohmann::ordered_json& model_options);

Owned<dllm_batch> row_batch(const std::vector<int32_t>& ids);
std::vector<int32_t> ids_of(const dllm_batch* batch);
// (tokens, vocab). Row i predicts token i: in a causal model it comes from the state before.
std::vector<float> logits_of(const Context& context, Side& side, const std::vector<int32_t>& ids);
// The most probable tokens behind a prompt, one in each step.
std::vector<int32_t> continuation(const Context& context, Side& side,
                                  const std::vector<int32_t>& prompt, int64_t length);
// Median of the passes after the first one, which compiles and packs.
double rows_per_second(const Side& side, size_t rows);

void print_comparison(const nlohmann::ordered_json& result); // against_report.cpp

} // namespace dllm::cli
