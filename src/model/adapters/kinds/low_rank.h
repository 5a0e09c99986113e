#pragma once
// LoRA (Hu et al. 2021): y += factor (x A^T) B^T, with A (rank, in) and B (out, rank). Kinds that
// change such a product begin with these functions.

#include "model/adapters/kinds/adapter_kind.h"

namespace dllm::model {

inline constexpr std::string_view kDownSuffix = ".lora_a", kUpSuffix = ".lora_b";

// The shapes of A and B, and the first values of A.
std::optional<Shape> low_rank_down_shape(const AdaptedMatrix& matrix);
std::optional<Shape> low_rank_up_shape(const AdaptedMatrix& matrix);
Tensor first_low_rank_down(const FirstValues& of);
inline constexpr AdapterTensor kDownTensor = {.suffix = kDownSuffix,
                                              .ending = ".lora_A.weight",
                                              .shape = low_rank_down_shape,
                                              .is_of_inputs = true,
                                              .first = first_low_rank_down};
// has_scale: the scale of the adapter multiplies B A.
constexpr AdapterTensor up_tensor(bool has_scale) {
  return {.suffix = kUpSuffix,
          .ending = ".lora_B.weight",
          .shape = low_rank_up_shape,
          .has_factor = true,
          .has_scale = has_scale,
          .is_up = true};
}

std::vector<OptionSpec> low_rank_options();
void read_low_rank_options(const Options& options, AdapterSettings& settings);
std::unique_ptr<AdapterForms> low_rank_forms(const AdapterSettings& settings,
                                             const std::string& what);

// Returns factor (x A^T) B^T, where x has the dropout of the adapter.
graph::Value low_rank_product(const AdapterPass& pass, graph::Value x);
// Adds a product: base (out, in) += factor * B A.
void add_low_rank_product(const AdapterNumbers& numbers, Tensor& base);

// Read and write the values of LoraConfig in PEFT 0.21, which also chooses other kinds.
void read_lora_config(const ConfigReader& reader, AdapterSettings& settings);
void write_lora_config(const AdapterSettings& settings, Json& config);
inline constexpr const char* kLoraShapeHint =
    "r and rank_pattern of adapter_config.json are the ranks of the matrices";

} // namespace dllm::model
