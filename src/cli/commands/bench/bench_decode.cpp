// This file has the works of dllm bench that need a decoder: the prefill of a prompt, and a step of
// a block.

#include "bench_work.h"

#include <memory>

namespace dllm::cli {
namespace {

// Makes a decoder with an exact cache. A causal model keeps its attention; other models attend
// block by block, which an exact cache needs.
Owned<dllm_decoder> decoder_of(const BenchSubject& subject, int64_t length, int64_t block) {
  const bool causal = subject.about.value("attention", "") == "causal";
  const auto options =
      options_with("decoder:low_confidence", {{"policy", "low_confidence"},
                                              {"attention", causal ? "causal" : "block_causal"},
                                              {"gen_length", length},
                                              {"block_length", block},
                                              {"cache", "exact"}});
  return make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(subject.weights.get(), options.get(), out, err);
  });
}

int64_t add_prompt(dllm_decoder* decoder, const std::vector<int32_t>& prompt) {
  int64_t slot = 0;
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder, prompt.data(), nullptr, static_cast<int64_t>(prompt.size()),
                            nullptr, &slot, err);
  });
  return slot;
}

void predict(const Context& context, dllm_decoder* decoder) {
  call([&](dllm_error* err) { return dllmx_decoder_predict(decoder, context.task(), err); });
}

} // namespace

// Makes the work of a prefill: a prompt of rows - 1 tokens, followed by one open position.
BenchWork make_prefill(Context& context, BenchSubject& subject) {
  const int64_t rows = size_of_work(context, subject, "rows", "prefill");
  if (rows < 2)
    throw UsageFailure("--rows of prefill takes 2 and more, not " + std::to_string(rows));
  const auto count = static_cast<double>(rows);
  const double flops = subject.cost.flops(count, mean_keys("causal", count, 0), 1);
  const std::shared_ptr<dllm_decoder> decoder = decoder_of(subject, 1, 1);
  const auto turn = std::make_shared<int64_t>(0);
  return {"prefill",
          {{"rows", rows}},
          rows,
          subject.cost.bytes(count, 1),
          [&context, &subject, decoder, turn, rows, flops] {
            // Each repetition has another prompt, because the cache of a known beginning would be
            // reused.
            const int64_t slot = add_prompt(decoder.get(), made_up_ids(subject, rows - 1, ++*turn));
            const double seconds = seconds_of([&] { predict(context, decoder.get()); });
            call([&](dllm_error* err) { return dllm_decoder_remove(decoder.get(), slot, err); });
            return BenchSample{seconds, flops};
          }};
}

// Makes the work of a denoising step of one block whose context is in the cache. The step decides
// nothing, so that all repetitions are equal.
BenchWork make_decode(Context& context, BenchSubject& subject) {
  const int64_t rows = size_of_work(context, subject, "rows", "decode");
  const int64_t cached = size_of_work(context, subject, "context", "decode");
  const auto count = static_cast<double>(rows);
  const double keys =
      static_cast<double>(cached) +
      mean_keys(subject.about.value("attention", "") == "causal" ? "causal" : "", count, 0);
  const double flops = subject.cost.flops(count, keys, count);
  const std::shared_ptr<dllm_decoder> decoder = decoder_of(subject, rows, rows);
  const int64_t slot = add_prompt(decoder.get(), made_up_ids(subject, cached, 0));
  return {"decode",
          {{"rows", rows}, {"context", cached}},
          rows,
          subject.cost.bytes(count, count),
          [&context, decoder, slot, flops] {
            const double seconds = seconds_of([&] {
              predict(context, decoder.get());
              call([&](dllm_error* err) {
                return dllmx_decoder_commit(decoder.get(), slot, nullptr, nullptr, 0, err);
              });
            });
            return BenchSample{seconds, flops};
          }};
}

} // namespace dllm::cli
