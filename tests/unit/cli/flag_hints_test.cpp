#include "cli/options/flag_hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace dllm::cli {
namespace {

// The flags of a command with these keys.
std::string flag_of(std::string_view key) {
  constexpr std::string_view kKeys[] = {
      "block_length", "overwrite",    "template",    "pack",         "eos_block", "append_eos",
      "truncate",     "lr",           "clip",        "steps",        "minutes",   "tokens",
      "schedule",     "mask_token",   "warmup",      "warmup_ratio", "attention", "slots",
      "top_k",        "top_p",        "temperature", "heads",        "out",       "a",
      "factor",       "entropy_bound"};
  if (key == "model.mask_token") return "--model.mask-token";
  if (std::ranges::find(kKeys, key) == std::end(kKeys)) return "";
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

TEST(FlagHints, NamesOptionsAsFlags) {
  const std::pair<const char*, const char*> rows[] = {
      {"choose another path, or set overwrite", "choose another path, or set --overwrite"},
      {"set block_length = 32, or look at the data", "set --block-length 32, or look at the data"},
      {"load the model with heads=edit (or lm)", "load the model with --heads edit (or lm)"},
      {"name one with the option template", "name one with --template"},
      {"set the model option mask_token to a token or an id",
       "set --mask-token to a token or an id"},
      {"set model.mask_token, or train the model", "set --model.mask-token, or train the model"},
      {"set pack to false", "set --pack false"},
      {"set the loader option pack to false", "set --pack false"},
      {"set a larger length, or truncate = right", "set a larger length, or --truncate right"},
      {"set steps, minutes or tokens, or schedule = constant",
       "set --steps, --minutes or --tokens, or --schedule constant"},
      {"set temperature to 0, top_k to 0 and top_p to 1",
       "set --temperature 0, --top-k 0 and --top-p 1"},
      {"lower lr, set clip, look at the data", "lower lr, set --clip, look at the data"},
      {"remove finished requests, or raise option slots",
       "remove finished requests, or raise --slots"},
      {"leave option attention at auto", "leave --attention at auto"},
      {"set warmup below steps", "set --warmup below steps"},
      {"the template of the model has no steps", "the template of the model has no steps"},
      {"set block_length = 32 (--block-length 32)", "set block_length = 32 (--block-length 32)"},
      {"set HF_TOKEN to a token of the hub", "set HF_TOKEN to a token of the hub"},
      {"write 'PATTERN lr=0.001 warmup=0'", "write 'PATTERN lr=0.001 warmup=0'"},
      {"set 'pack' to false", "set '--pack' to false"},
      {"leave option heads out, or set overwrite", "leave --heads out, or set --overwrite"},
      {"leave option lr and clip out", "leave --lr and --clip out"},
      {"set a = 2, or raise option a", "set --a 2, or raise --a"},
      {"there are dream, entropy_bound, factor, frechet",
       "there are dream, entropy_bound, factor, frechet"},
      {"the names are entropy_bound, factor", "the names are entropy_bound, factor"},
      {"", ""}};
  for (const auto& [hint, wanted] : rows) EXPECT_EQ(hint_in_flags(hint, flag_of), wanted);
}

} // namespace
} // namespace dllm::cli
