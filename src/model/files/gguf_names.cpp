#include "model/files/gguf_names.h"

#include "model/families/family.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

namespace dllm::model {
namespace {

struct GgufName {
  std::string_view file;    // after "blk.<layer>." or whole
  std::string_view logical; // after the prefix of the layer or whole, without ".weight" and ".bias"
};

// Names of Llama, Qwen and their relatives (gguf-py, tensor_mapping.py).
constexpr GgufName kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
};
// Names of models with norms after a block, which take precedence over the names above.
constexpr GgufName kPostNormNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr GgufName kLladaLayerNames[] = {
    {"attn_norm", "attn_norm"}, {"attn_q", "q_proj"},    {"attn_k", "k_proj"},
    {"attn_v", "v_proj"},       {"ffn_norm", "ff_norm"}, {"attn_output", "attn_out"},
    {"ffn_gate", "ff_proj"},    {"ffn_up", "up_proj"},   {"ffn_down", "ff_out"},
};
constexpr GgufName kWholeNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"token_embd", "model.transformer.wte"},
    {"output_norm", "model.transformer.ln_f"},
    {"output", "model.transformer.ff_out"},
};
constexpr std::string_view kPrefixes[] = {"model.layers.", "model.transformer.blocks."};

template <size_t N> std::string_view look_up(const GgufName (&names)[N], std::string_view logical) {
  for (const GgufName& name : names) {
    if (name.logical == logical) return name.file;
  }
  return {};
}

std::string_view layer_name(std::string_view logical, bool llada, const ModelConfig& config) {
  if (llada) return look_up(kLladaLayerNames, logical);
  const std::string_view found = config.post_norms ? look_up(kPostNormNames, logical) : "";
  return found.empty() ? look_up(kLayerNames, logical) : found;
}

// Splits "mlp.experts.3.gate_proj" into the number of the expert and "ffn_gate_exps".
std::string_view expert_name(std::string_view middle, int64_t* expert) {
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!middle.starts_with(kExperts)) return {};
  const std::string_view rest = middle.substr(kExperts.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return {};
  *expert = std::stoll(std::string(rest.substr(0, dot)));
  const std::string_view kind = rest.substr(dot + 1);
  return kind == "gate_proj"   ? "ffn_gate_exps"
         : kind == "up_proj"   ? "ffn_up_exps"
         : kind == "down_proj" ? "ffn_down_exps"
                               : "";
}

Tensor move_rows(const Tensor& rows, int64_t head_dim, bool to_pairs) {
  Tensor moved(rows.dtype(), rows.shape());
  moved.set_format(rows.format());
  const int64_t count = rows.shape()[0], size = rows.byte_size() / count;
  for (int64_t row = 0; row < count; ++row) {
    const int64_t head = row / head_dim, within = row % head_dim, i = within / 2, j = within % 2;
    const int64_t half = head * head_dim + j * (head_dim / 2) + i;
    std::memcpy(moved.mutable_bytes() + (to_pairs ? row : half) * size,
                rows.bytes() + (to_pairs ? half : row) * size, static_cast<size_t>(size));
  }
  return moved;
}

} // namespace

GgufPlace gguf_place(const std::string& logical, const ModelConfig& config) {
  const size_t last = logical.rfind('.');
  if (last == std::string::npos) return {};
  const std::string_view whole = std::string_view(logical).substr(0, last);
  const std::string ending = logical.substr(last);
  if (const std::string_view found = look_up(kWholeNames, whole); !found.empty())
    return {std::string(found) + ending};
  for (const std::string_view prefix : kPrefixes) {
    if (!logical.starts_with(prefix)) continue;
    const size_t dot = logical.find('.', prefix.size());
    if (dot == std::string::npos || dot >= last) return {};
    const std::string_view middle = whole.substr(dot + 1);
    GgufPlace place;
    std::string_view found = expert_name(middle, &place.expert);
    if (found.empty()) found = layer_name(middle, prefix != kPrefixes[0], config);
    if (found.empty()) return {};
    place.name = "blk." + logical.substr(prefix.size(), dot - prefix.size()) + "." +
                 std::string(found) + ending;
    if (place.expert >= 0) {
      const bool down = found == "ffn_down_exps";
      place.row = place.expert * (down ? config.hidden_size : config.experts.intermediate);
    }
    return place;
  }
  return {};
}

GgufPlace fused_place(const GgufPlace& place, const ModelConfig& config) {
  const std::pair<std::string_view, int64_t> parts[] = {
      {".attn_q.", 0},
      {".attn_k.", config.query_size()},
      {".attn_v.", config.query_size() + config.kv_size()}};
  for (const auto& [part, row] : parts) {
    const size_t at = place.name.find(part);
    if (at == std::string::npos) continue;
    return {place.name.substr(0, at) + ".attn_qkv." + place.name.substr(at + part.size()), row};
  }
  return {};
}

std::string gguf_architectures() {
  std::vector<std::string> names;
  for (const Family* family : all_families()) {
    for (const char* name : family->gguf_names) {
      if (name != nullptr) names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

bool turns_pairs(const std::string& logical, const ModelConfig& config) {
  if (config.family != "llama" && config.family != "llada") return false;
  return logical.find(".q_proj.") != std::string::npos ||
         logical.find(".k_proj.") != std::string::npos;
}

Tensor halves_from_pairs(const Tensor& pairs, int64_t head_dim) {
  return move_rows(pairs, head_dim, false);
}

Tensor pairs_from_halves(const Tensor& halves, int64_t head_dim) {
  return move_rows(halves, head_dim, true);
}

bool is_single_row(const std::string& logical) {
  return logical.ends_with("mlp.shared_expert_gate.weight");
}

bool is_centered_norm(const std::string& logical, const ModelConfig& config) {
  return config.centered_norms && logical.ends_with("norm.weight");
}

} // namespace dllm::model
