// Samples models of objective ldlm (noise/objectives/ldlm.cpp). The array of a request has the
// latents of its whole text. The denoiser predicts them in every step, and looks at the states of
// the given tokens where it was trained with prompts. Decoder and reader make the text of a step.

#include "base/error.h"
#include "decode/array/array_policy.h"
#include "decode/policies/policies.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "noise/latent/latent_networks.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// The sizes of a model's networks.
struct LatentSizes {
  explicit LatentSizes(const PolicySetup& setup) {
    if (setup.parts == nullptr) return;
    const auto tower = [&](const char* part) { return setup.parts->find(part)->config.tower; };
    latents = tower(noise::latent_part::kEncoder).latents;
    size = tower(noise::latent_part::kDecoder).context;
    positions = tower(noise::latent_part::kDecoder).latents;
    reads_prompt = tower(noise::latent_part::kDenoiser).context > 0;
    prompt_layer = tower(noise::latent_part::kDenoiser).context_layer;
  }
  int64_t latents = 1, size = 1, positions = 1;
  bool reads_prompt = false;
  int64_t prompt_layer = -1; // of the base, whose states of the prompt the denoiser reads
};

class LatentRule final : public ArrayRule {
public:
  explicit LatentRule(const LatentSizes& sizes) : sizes_(sizes) {}
  int64_t width(const model::ModelConfig&) const override { return sizes_.size; }
  int64_t length(const model::ModelConfig&, int64_t) const override { return sizes_.latents; }
  bool self_conditions() const override { return true; }
  std::vector<std::string> other_parts() const override { return noise::latent_parts(); }

  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    noise::DenoiserInputs inputs;
    inputs.noised = array.numbers;
    inputs.levels = graph::reshape(array.level.time, {rows.rows()});
    inputs.previous = array.previous;
    if (noise::reads_prompt(rows.builder)) inputs.prompt = prompt(rows);
    if (noise::skips_projection(rows.builder)) {
      const graph::Value none = graph::full(rows.builder.graph(), array.has_previous.shape(), 0.0f);
      inputs.projects = graph::greater(array.has_previous, none);
    }
    return {noise::denoise(rows.builder, inputs)};
  }

  ArrayText read(const ArrayRows& rows, graph::Value latents) const override {
    const graph::Value made =
        noise::read_states(rows.builder, noise::decode_latents(rows.builder, latents));
    // A window may be longer than what the decoder makes; no text has these positions.
    const int64_t window = rows.window(), known = std::min(window, made.dim(1));
    const graph::Value placed =
        graph::pad(graph::slice_axis(made, 1, 0, known), {0, 0, 0}, {0, window - known, 0},
                   graph::scalar(rows.builder.graph(), 0.0f));
    return {graph::reshape(placed, {rows.rows() * window, made.dim(2)}),
            noise::reader_head(rows.builder)};
  }

private:
  noise::LatentPrompt prompt(const ArrayRows& rows) const {
    const model::ModelConfig& config = rows.builder.config();
    model::ForwardInputs tokens;
    tokens.ids = rows.ids;
    tokens.positions = rows.positions;
    const auto block = static_cast<int32_t>(std::max<int64_t>(config.block_length, 1));
    tokens.mask =
        model::make_mask(config.attention, graph::scalar_i32(rows.builder.graph(), block));
    return noise::latent_prompt(rows.builder, tokens, rows.given, sizes_.prompt_layer);
  }

  LatentSizes sizes_;
};

class LatentPolicy final : public ArrayPolicy {
public:
  LatentPolicy(const PolicySetup& setup, const LatentSizes& sizes)
      : ArrayPolicy(setup, std::make_shared<LatentRule>(sizes)), sizes_(sizes) {
    if (setup.f64("guidance") == 0 || sizes.reads_prompt) return;
    fail_with_hint("set guidance to 0, or train with option prompt of objective ldlm",
                   Code::failed_precondition, "the denoiser of the model reads no prompt");
  }
  std::unique_ptr<Session> begin(Request& request) const override {
    if (request.length() > sizes_.positions) {
      fail_with_hint("choose a shorter prompt or gen_length, or train with option positions of "
                     "objective ldlm",
                     Code::invalid_argument,
                     "the text has {} positions, and the decoder of the model makes {}",
                     request.length(), sizes_.positions);
    }
    return ArrayPolicy::begin(request);
  }
  std::string approximation() const override {
    return sizes_.reads_prompt ? ""
                               : "the denoiser reads no prompt: the text does not depend on given "
                                 "tokens";
  }

private:
  LatentSizes sizes_;
};

std::unique_ptr<Policy> make_latent(const PolicySetup& setup) {
  return std::make_unique<LatentPolicy>(setup, LatentSizes(setup));
}

} // namespace

PolicyKind policy_files::latent() {
  return {"latent", make_latent, {trained_schedule_option()}, false};
}

} // namespace dllm::decode
