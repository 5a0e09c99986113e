#include "generate/request_options.h"

#include "base/error.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "generate/constraints/constraint_kinds.h"
#include "text/answer/text_ends.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace dllm::generate {
namespace {

// Options of a decoder that hold for all of its requests, and gen_length, which is length here.
constexpr const char* kOfDecoder[] = {"slots",      "trace",  "trace_bytes",     "on_change",
                                      "gen_length", "policy", "adapter_folders", "adapter_bytes"};

bool is_of_decoder(const std::string& key) {
  return std::ranges::find(kOfDecoder, key) != std::end(kOfDecoder);
}

bool has_key(const Schema& schema, const std::string& key) {
  return std::ranges::find(schema.specs(), key, &OptionSpec::key) != schema.specs().end();
}

std::vector<OptionSpec> own_keys() {
  std::vector<OptionSpec> keys = {
      option_str("prompt", "", "Text that the answer continues."),
      option_json("messages", "A conversation that the assistant continues: a list of {\"role\", "
                              "\"content\"}."),
      option_str("infill", "",
                 "Text with holes: <mask:N> is N open tokens, <mask> is one. All holes are filled "
                 "at once."),
      option_str("template", "", "Chat template for messages; empty: the tokenizer's own."),
      option_str("template_name", "",
                 "Name of the tokenizer's template to use; empty: the one called default."),
      option_json("tools", "Functions that the assistant may call: a list, for the chat template."),
      option_json("variables", "Further variables of the chat template: an object."),
      option_ids(
          "stop_ids",
          "Token ids that end the answer; empty: the end tokens of the model's files; not for "
          "infill."),
      option_i64(
          "length", 64, 0, 1 << 24,
          "Open positions after the prompt or the conversation; a text with holes has its own."),
      option_i64("prompt_length", -1, -1, 1 << 24,
                 "Given positions at the front of a text with holes: blocks begin after them; -1: "
                 "at the beginning."),
      option_i64("seed", 0, INT64_MIN, INT64_MAX, "The same seed gives the same text."),
  };
  for (OptionSpec& key : text::end_options(text::EndsOf::request)) keys.push_back(std::move(key));
  for (OptionSpec& key : constraint_options()) keys.push_back(std::move(key));
  return keys;
}

Schema make_schema(const std::string& policy) {
  std::vector<OptionSpec> keys = own_keys();
  std::vector<std::string> policies = decode::policy_names();
  policies.insert(policies.begin(), kAutomatic);
  keys.push_back(option_choice("policy", policy.empty() ? kAutomatic : policy, policies,
                               "Which open positions are decided in a step; auto: the policy that "
                               "the model was trained for."));
  for (const OptionSpec& key : decode::decoder_schema(policy).specs()) {
    if (!is_of_decoder(key.key)) keys.push_back(key);
  }
  return Schema(policy.empty() ? "request" : "request:" + policy, std::move(keys));
}

} // namespace

const Schema& request_schema(const std::string& policy) {
  static const Schema general = make_schema("");
  static const std::vector<Schema> own = [] {
    std::vector<Schema> list;
    for (const std::string& name : decode::policy_names()) list.push_back(make_schema(name));
    return list;
  }();
  if (policy.empty()) return general;
  decode::decoder_schema(policy); // fails for a name that is not a policy
  return *std::ranges::find(own, "request:" + policy, &Schema::kind);
}

Options decoding_options(const Options& request, const Options& defaults) {
  static const Schema own("request", own_keys());
  const Json values = request.to_json();
  Json set = Json::object();
  for (const OptionSpec& spec : request.schema().specs()) {
    if (spec.key != "policy" && !has_key(own, spec.key) && request.is_set(spec.key))
      set[spec.key] = values[spec.key];
  }
  Options decoding = defaults;
  decoding.set_json(set);
  if (request.is_set("length")) decoding.set_i64("gen_length", request.i64("length"));
  return decoding;
}

Options slot_options(const Options& request, const std::vector<int32_t>& ends) {
  Options slot(decode::request_schema());
  slot.set_i64("seed", request.i64("seed"));
  slot.set_i64("prompt_length", request.i64("prompt_length"));
  slot.set_json({{"stop", ends}});
  return slot;
}

} // namespace dllm::generate
