#include "text/tokenizer/pre_tokenizer_scheme.h"

#include "base/named_table.h"
#include "text/tokenizer/token_model.h"

namespace dllm::text {

namespace {

// Llama 3: numbers in groups of three; contractions in any case.
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Qwen 2: the same with single digits.
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// LLaDA-MoE and the models of Ling, LLaDA2 among them: single digits; a line end ends a piece.
constexpr const char* kBailingPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";

TreeJson split(const char* pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TreeJson sequence(std::vector<TreeJson> parts) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
}

TreeJson split_by(const char* pattern) {
  return sequence({split(pattern), byte_level_component(false)});
}

TreeJson gpt2_scheme() {
  return byte_level_component(true);
}

TreeJson llama3_scheme() {
  return split_by(kLlama3Pattern);
}

TreeJson qwen2_scheme() {
  return split_by(kQwen2Pattern);
}

TreeJson bailing_scheme() {
  return split_by(kBailingPattern);
}

TreeJson smollm_scheme() {
  return sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level_component(true)});
}

// llama.cpp's fallback: four cuts, one after the other.
TreeJson default_scheme() {
  return sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(kGpt2Pattern), split(R"(\p{N}+)"),
                   split("[0-9][0-9][0-9]"), byte_level_component(false)});
}

struct Scheme {
  const char* name;
  TreeJson (*make)();
};

constexpr Scheme kSchemes[] = {
    {"gpt2", gpt2_scheme},           {"gpt-2", gpt2_scheme},
    {"smollm", smollm_scheme},       {"llama-bpe", llama3_scheme},
    {"llama3", llama3_scheme},       {"llama-v3", llama3_scheme},
    {"qwen2", qwen2_scheme},         {"deepseek-r1-qwen", qwen2_scheme},
    {"llada-moe", bailing_scheme},   {"bailingmoe", bailing_scheme},
    {"bailingmoe2", bailing_scheme}, {"default", default_scheme},
};

} // namespace

TreeJson byte_level_component(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

const std::vector<std::string>& pre_tokenizer_schemes() {
  static const std::vector<std::string> names = names_of(kSchemes, &Scheme::name);
  return names;
}

TreeJson pre_tokenizer_scheme(const std::string& name) {
  return need_named(kSchemes, name, &Scheme::name, {"pre-tokenizer scheme"}).make();
}

} // namespace dllm::text
