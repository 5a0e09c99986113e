#include "model/families/experts.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {

std::vector<bool> parse_layer_flags(const ConfigReader& reader, const char* key, int64_t layers) {
  const std::string expected = fmt::format("a list of {} numbers, 0: a dense layer", layers);
  if (!reader.has(key)) reader.bad(key, expected);
  const Json& list = reader.object().at(key);
  const bool fits = list.is_array() && static_cast<int64_t>(list.size()) == layers &&
                    std::all_of(list.begin(), list.end(), [](const Json& item) {
                      return item.is_number_integer() || item.is_boolean();
                    });
  if (!fits) reader.bad(key, expected);
  std::vector<bool> flags;
  for (const Json& item : list)
    flags.push_back(item.is_boolean() ? item.get<bool>() : item.get<int64_t>() != 0);
  return flags;
}

std::vector<bool> sparse_after(int64_t dense, int64_t layers) {
  std::vector<bool> sparse(static_cast<size_t>(layers), true);
  std::fill_n(sparse.begin(), std::min(dense, layers), false);
  return sparse;
}

Json print_layer_flags(const std::vector<bool>& flags) {
  Json list = Json::array();
  for (const bool flag : flags) list.push_back(flag ? 1 : 0);
  return list;
}

TensorNames expert_names() {
  const std::string mlp = "model.layers.{}.mlp.";
  TensorNames names = llama_names();
  names["router"] = mlp + "gate.weight";
  names["expert_gate"] = mlp + "experts.[].gate_proj.weight";
  names["expert_up"] = mlp + "experts.[].up_proj.weight";
  names["expert_down"] = mlp + "experts.[].down_proj.weight";
  names["shared_gate"] = mlp + "shared_expert.gate_proj.weight";
  names["shared_up"] = mlp + "shared_expert.up_proj.weight";
  names["shared_down"] = mlp + "shared_expert.down_proj.weight";
  return names;
}

} // namespace dllm::model
