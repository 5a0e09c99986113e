// DiffusionGemma (Google 2026; generation of Hugging Face's "diffusion_gemma"). Canvases of uniform
// noise are denoised one after the other, each after a causal prefix. In each step every position
// gets a candidate. Candidates are kept in the order of their entropy, each while the entropies of
// the ones before it sum to at most a bound. The other positions become noise again. Every step is
// conditioned on the predictions of the step before. The result is the likeliest tokens of the last
// step.

#include "base/error.h"
#include "decode/policies/policies.h"

#include <algorithm>
#include <deque>
#include <numeric>

namespace dllm::decode {
namespace {

constexpr int kNoise = 2, kFirstNoise = 3; // words of position_uniform

struct CanvasSettings {
  int64_t block_length = 256, steps = 48, stability = 1, vocab = 0;
  double entropy_bound = 0.1, t_min = 0.4, t_max = 0.8, confidence = 0.005;
  bool cached = true;
  std::shared_ptr<const std::vector<int32_t>> drawn; // null: every id may be noise

  // Returns the temperature of a step. It falls from t_max at step 0 to t_min at step `steps`.
  double temperature(int64_t step) const {
    return t_min + (t_max - t_min) * static_cast<double>(steps - step) / static_cast<double>(steps);
  }
  int32_t noise(const Request& request, int64_t position, int word) const {
    const double place = static_cast<double>(position_uniform(request, position, word));
    const int64_t count = drawn != nullptr ? static_cast<int64_t>(drawn->size()) : vocab;
    const int64_t index =
        std::min(static_cast<int64_t>(place * static_cast<double>(count)), count - 1);
    return drawn != nullptr ? (*drawn)[static_cast<size_t>(index)] : static_cast<int32_t>(index);
  }
};

class CanvasSession final : public Session {
public:
  CanvasSession(const CanvasSettings& settings, Request& request) : settings_(settings) {
    request.origin = request.prompt;
    request.block_length = settings_.block_length;
    begin_canvas(request);
  }
  std::unique_ptr<Session> clone() const override { return std::make_unique<CanvasSession>(*this); }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    PassRequest pass;
    const int64_t begin = request.block_begin();
    pass.end = pass.span_end = request.block_end();
    pass.together = begin;
    pass.shift = 0;
    pass.positions = own_;
    pass.temperature = temperature(request);
    pass.conditioning = conditioning_;
    if (settings_.cached) {
      pass.cached = true;
      pass.generation = cache.generation;
      pass.final_end = begin;
      pass.begin = std::min(cache.final_end, begin);
    }
    pass.ids.assign(request.ids.begin() + pass.begin, request.ids.begin() + pass.end);
    for (size_t i = 0; i < own_.size(); ++i) {
      pass.ids[static_cast<size_t>(own_[i] - pass.begin)] =
          canvas_.empty() ? settings_.noise(request, own_[i], kFirstNoise) : canvas_[i];
    }
    return pass;
  }

  Outcome apply(Request& request, const PassRequest&,
                std::span<const Prediction> predictions) override {
    Outcome outcome{{}, request.block, request.block_begin(), request.block_end(), false};
    const std::vector<bool> kept = keep(predictions);
    std::vector<int32_t> draft;
    canvas_.clear();
    conditioning_.clear();
    double entropy = 0;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const Prediction& p = predictions[i];
      const int32_t candidate = request.settings.temperature > 0 ? p.token : p.argmax;
      canvas_.push_back(kept[i] ? candidate : settings_.noise(request, p.position, kNoise));
      draft.push_back(p.argmax);
      conditioning_.insert(conditioning_.end(), p.mean_embedding.begin(), p.mean_embedding.end());
      entropy += static_cast<double>(p.shaped_entropy);
    }
    const bool sure = entropy / static_cast<double>(predictions.size()) < settings_.confidence;
    const bool last = request.step_in_block + 1 >= settings_.steps;
    outcome.block_ended = last || (sure && is_stable(draft));
    for (size_t i = 0; i < predictions.size(); ++i) {
      const int64_t position = predictions[i].position;
      if (request.is_open(position)) outcome.decided.push_back(position);
      request.decide(position, draft[i], predictions[i].max_probability,
                     outcome.block_ended ? State::final : State::provisional);
    }
    ++request.step_in_block;
    remember(std::move(draft));
    if (outcome.block_ended) {
      ++request.block;
      begin_canvas(request);
    }
    return outcome;
  }

private:
  // Moves to the next canvas with open positions. A request without one is done.
  void begin_canvas(Request& request) {
    own_.clear();
    canvas_.clear();
    conditioning_.clear();
    drafts_.clear();
    request.step_in_block = 0;
    for (; request.block < request.block_count(); ++request.block) {
      own_ = request.open_positions(request.block_begin(), request.block_end());
      if (!own_.empty()) return;
    }
    request.finish = Finish::decided;
  }

  float temperature(const Request& request) const {
    const float own = request.settings.temperature;
    return static_cast<float>(settings_.temperature(request.step_in_block)) *
           (own > 0 ? own : 1.0f);
  }

  // Returns which candidates are kept: the most certain ones, each while the entropies of the ones
  // before it sum to at most the bound.
  std::vector<bool> keep(std::span<const Prediction> predictions) const {
    std::vector<size_t> order(predictions.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return predictions[i].shaped_entropy; });
    std::vector<bool> kept(predictions.size(), false);
    double before = 0;
    for (const size_t i : order) {
      if (before > settings_.entropy_bound) break;
      kept[i] = true;
      before += static_cast<double>(predictions[i].shaped_entropy);
    }
    return kept;
  }

  bool is_stable(const std::vector<int32_t>& draft) const {
    return static_cast<int64_t>(drafts_.size()) >= settings_.stability &&
           std::ranges::all_of(drafts_, [&](const auto& other) { return other == draft; });
  }

  void remember(std::vector<int32_t> draft) {
    drafts_.push_back(std::move(draft));
    while (static_cast<int64_t>(drafts_.size()) > settings_.stability) drafts_.pop_front();
  }

  CanvasSettings settings_;
  std::vector<int64_t> own_;                // positions that were open when the canvas began
  std::vector<int32_t> canvas_;             // tokens of own_; empty before the first step
  std::vector<float> conditioning_;         // of own_, from the step before
  std::deque<std::vector<int32_t>> drafts_; // likeliest tokens of the latest steps
};

class DiffusionGemmaPolicy final : public Policy {
public:
  explicit DiffusionGemmaPolicy(const PolicySetup& setup) : Policy(setup) {
    if (!setup.config.canvas)
      fail_with_hint("use policy uniform", Code::invalid_argument,
                     "policy diffusion_gemma decodes models of that family, not {}",
                     setup.config.family);
    if (setup.options.str("attention") != "auto")
      fail_with_hint("leave it at auto", Code::invalid_argument,
                     "policy diffusion_gemma sets attention itself, not {}",
                     setup.options.str("attention"));
    if (setup.f64("guidance") > 0)
      fail_with_hint("set guidance to 0", Code::invalid_argument,
                     "policy diffusion_gemma has no guidance");
    if (setup.f64("t_min") > setup.f64("t_max"))
      fail(Code::invalid_argument, "option t_min is {}, more than t_max {}", setup.f64("t_min"),
           setup.f64("t_max"));
    settings_ = {block_length_of(setup),  setup.i64("denoising_steps"), setup.i64("stability"),
                 setup.config.vocab_size, setup.f64("entropy_bound"),   setup.f64("t_min"),
                 setup.f64("t_max"),      setup.f64("confidence"),      true,
                 drawn_ids(setup, -1)};
    settings_.cached = cache_mode(setup.options.str("cache"), kPrefix) != CacheMode::none;
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = kPrefix;
    return std::make_unique<CanvasSession>(settings_, request);
  }
  PredictionNeeds needs() const override {
    return {.mask = false, .shaped = true, .conditions = true};
  }

private:
  static constexpr AttentionSpan kPrefix{1, 0, false};
  CanvasSettings settings_;
};

std::unique_ptr<Policy> make_diffusion_gemma(const PolicySetup& setup) {
  return std::make_unique<DiffusionGemmaPolicy>(setup);
}

std::vector<OptionSpec> diffusion_gemma_keys() {
  return {
      option_i64("block_length", 256, 1, 1 << 24,
                 "Positions of a canvas, counted from the prompt's end; not set: the model's own."),
      option_i64("denoising_steps", 48, 1, 1 << 20, "Most steps of a canvas."),
      option_f64("entropy_bound", 0.1, 0, 1e6,
                 "Positions keep their candidate, the most certain first, until the sum of their "
                 "entropies (nats) is more than this."),
      option_f64("t_max", 0.8, 1e-3, 100, "Divides the logits in the first step of a canvas."),
      option_f64("t_min", 0.4, 1e-3, 100,
                 "Divisor of the logits after the last step; between the first step and this it "
                 "falls evenly."),
      option_i64("stability", 1, 0, 1 << 20,
                 "A canvas may end early when this number of earlier steps had the same likeliest "
                 "tokens."),
      option_f64("confidence", 0.005, 0, 1e6,
                 "... and the mean entropy of its positions is less than this (nats)."),
      option_f64("temperature", 1, 0, 100,
                 "Multiplies the divisor of the logits; 0: the divisor does not change, and "
                 "candidates are the likeliest tokens."),
  };
}

} // namespace

PolicyKind policy_files::diffusion_gemma() {
  return {"diffusion_gemma", make_diffusion_gemma, diffusion_gemma_keys(), false};
}

} // namespace dllm::decode
