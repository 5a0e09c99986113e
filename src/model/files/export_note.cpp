#include "model/files/export_note.h"

#include <fmt/core.h>

namespace dllm::model {
namespace {

std::string mask_line(const ModelConfig& config) {
  if (config.attention == AttentionKind::block_causal) {
    return fmt::format(
        "block = torch.arange(ids.shape[1]) // {}; mask = torch.where(block[None] <= "
        "block[:, None], 0.0, float(\"-inf\"))[None, None]",
        config.block_length);
  }
  return "mask = torch.zeros(1, 1, ids.shape[1], ids.shape[1])";
}

std::string logits_line(const ModelConfig& config) {
  constexpr const char* kLogits = "logits = model(ids, attention_mask=mask).logits";
  // With shift 1 the hidden state before a token predicts it.
  return config.shift == 0
             ? kLogits
             : fmt::format("{}; logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)", kLogits);
}

} // namespace

std::string export_note(const ModelConfig& config, const std::string& path) {
  if (config.attention == AttentionKind::causal) {
    return config.shift == 0
               ? ""
               : "transformers computes this class as the model: the logits of position i predict "
                 "token i + 1";
  }
  const std::string own = fmt::format("transformers computes this class causally and without a "
                                      "shift; the model is {} with shift {}",
                                      attention_name(config.attention), config.shift);
  if (!config.sliding.empty()) return own + "; its windows need a mask for each kind of layer";
  return fmt::format(
      "{}. Its logits of ids (1, length):\n"
      "      model = AutoModelForCausalLM.from_pretrained(\"{}\", attn_implementation=\"eager\")\n"
      "      {}\n"
      "      {}",
      own, path, mask_line(config), logits_line(config));
}

} // namespace dllm::model
