#include "decode/policy.h"

#include "base/error.h"
#include "decode/policies/factories.h"

namespace dllm::decode {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Policy> (*make)();
};

constexpr Entry kPolicies[] = {
    {"ancestral", make_ancestral}, {"low_confidence", make_low_confidence}, {"random", make_random}};

std::vector<OptionSpec> decoder_keys(const std::string& policy) {
  std::vector<OptionSpec> keys = {
      option_choice("policy", policy, policy_names(), "Which open positions are decided in a step."),
      option_i64("steps", 64, 1, 1 << 20, "Denoising steps of a request, spread evenly over its blocks."),
      option_i64("block_length", 0, 0, 1 << 24, "Positions decided before the next ones begin; 0: all at once."),
      option_i64("gen_length", 64, 0, 1 << 24, "Open positions after a prompt."),
      option_f64("temperature", 0, 0, 100, "Divides the logits of a draw; 0 takes the likeliest token."),
      option_i64("top_k", 0, 0, 1 << 24, "Draw among so many likeliest tokens; 0: all."),
      option_f64("top_p", 1, 0, 1, "Draw among the likeliest tokens of this total probability; 1: all."),
      option_str("schedule", "linear", "Noise schedule that says how many positions a step decides."),
      option_choice("attention", "auto", {"auto", "causal", "bidirectional", "block_causal"},
                    "What a token sees; auto: the model's own."),
      option_i64("shift", -1, -1, 1, "1: the hidden state before a token predicts it; -1: the model's own."),
      option_list("suppress", {}, "Token ids that are never drawn."),
      option_i64("slots", 256, 1, 1 << 16, "Most requests at a time."),
      option_bool("trace", true, "Keep every step of every request."),
      option_choice("on_change", "continue", {"continue", "fail"}, "What a step does after the model's weights changed."),
  };
  return keys;
}

}  // namespace

float Moment::uniform(int64_t position) const {
  return uniform_from_bits(random_bits_at(position_key(slot, position), 1));
}

Key position_key(const Slot& slot, int64_t position) {
  return stream_key(slot.settings.seed, Stream::decode, static_cast<uint64_t>(slot.steps),
                    static_cast<uint64_t>(position));
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

const Schema& decoder_schema(const std::string& policy) {
  static const Schema general("decoder", decoder_keys("low_confidence"));
  static const std::vector<Schema> own = [] {
    std::vector<Schema> list;
    for (const std::string& name : policy_names()) list.emplace_back("decoder:" + name, decoder_keys(name));
    return list;
  }();
  if (policy.empty()) return general;
  for (const Schema& schema : own) {
    if (schema.kind() == "decoder:" + policy) return schema;
  }
  const std::string near = nearest(policy, policy_names());
  fail_with_hint(near.empty() ? "policies are ancestral, low_confidence, random" : "did you mean " + near + "?",
                 Code::not_found, "no policy named {}", policy);
}

std::unique_ptr<Policy> make_policy(const std::string& name) {
  decoder_schema(name);  // an unknown name fails here
  for (const Entry& entry : kPolicies) {
    if (name == entry.name) return entry.make();
  }
  fail(Code::internal, "policy {} has a schema but no factory", name);
}

}  // namespace dllm::decode
