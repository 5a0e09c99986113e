#include "text/pre_tokenizer_scheme.h"

#include "base/error.h"
#include "text/byte_level.h"

namespace dllm::text {

namespace {

// Llama 3: numbers in groups of three; contractions in any case.
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2: the same with single digits.
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TreeJson split(const char* pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TreeJson sequence(std::vector<TreeJson> parts) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

} // namespace

TreeJson byte_level_component(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

const std::vector<std::string>& pre_tokenizer_schemes() {
  static const std::vector<std::string> names = {"gpt2",   "gpt-2", "smollm", "llama-bpe",
                                                 "llama3", "qwen2", "default"};
  return names;
}

TreeJson pre_tokenizer_scheme(const std::string& name) {
  if (name == "gpt2" || name == "gpt-2") return byte_level_component(true);
  if (name == "llama-bpe" || name == "llama3")
    return sequence({split(kLlama3Pattern), byte_level_component(false)});
  if (name == "qwen2") return sequence({split(kQwen2Pattern), byte_level_component(false)});
  if (name == "smollm") {
    return sequence(
        {{{"type", "Digits"}, {"individual_digits", true}}, byte_level_component(true)});
  }
  if (name == "default") { // llama.cpp's fallback: four cuts, one after the other
    return sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(kGpt2Pattern), split(R"(\p{N}+)"),
                     split("[0-9][0-9][0-9]"), byte_level_component(false)});
  }
  const std::string near = nearest(name, pre_tokenizer_schemes());
  fail_with_hint(near.empty() ? "use gpt2, smollm, llama-bpe, qwen2 or default"
                              : "did you mean " + near,
                 Code::not_found, "no pre-tokenizer scheme named {}", name);
}

} // namespace dllm::text
