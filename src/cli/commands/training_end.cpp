#include "training_end.h"

#include <algorithm>
#include <cstdio>

namespace dllm::cli {
namespace {

constexpr int64_t kLength = 32;  // tokens of the sample

Owned<dllm_options> options_of(const char* kind, const char* json) {
  auto options = make<dllm_options>([&](dllm_options** out, dllm_error* err) { return dllm_options_new(kind, out, err); });
  const std::string text = json;
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), text.data(), static_cast<int64_t>(text.size()), err);
  });
  return options;
}

// Behind the token that ends a text: the model begins a new one.
std::string sample(Context& context, const Run& run, bool causal) {
  const auto how = causal ? options_of("decoder:autoregressive", R"({"temperature": 0.8})")
                          : options_of("decoder:random", R"({"steps": 16, "temperature": 0.8})");
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(run.model.get(), how.get(), out, err);
  });
  std::vector<int32_t> prompt(1);
  if (dllm_tokenizer_id(run.tokenizer.get(), "eos", prompt.data(), nullptr) != DLLM_OK) prompt.clear();
  const std::string request = "{\"seed\": 1, \"gen_length\": " + std::to_string(kLength) + "}";
  const auto slot = options_of("slot", request.c_str());
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder.get(), prompt.data(), nullptr, static_cast<int64_t>(prompt.size()), slot.get(),
                            nullptr, err);
  });
  for (int64_t active = 1; active > 0;) {
    call([&](dllm_error* err) { return dllm_decoder_step(decoder.get(), context.task(), &active, err); });
  }
  const std::vector<int32_t> ids = canvas_of(decoder.get(), 0).ids;
  std::string text = decode(run.tokenizer.get(), {ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()), ids.end()});
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

void say_what_next(Context& context, const Run& run) {
  if (context.json()) return;
  const std::string objective = context.text("objective");
  const bool causal = objective == "ar";
  if (causal || objective == "mdlm") {
    try {
      std::fprintf(stderr, "sample: %s\n", sample(context, run, causal).c_str());
    } catch (const Failure& failure) {
      std::fprintf(stderr, "no sample: %s\n", failure.what());
    }
  }
  std::fprintf(stderr, "next: dllm generate --model %s --length 64%s\n", context.text("out").c_str(),
               causal ? " --policy autoregressive" : objective == "mdlm" ? " --policy random --decoder.temperature 0.8" : "");
}

}  // namespace dllm::cli
