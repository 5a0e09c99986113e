// Ancestral sampling under uniform noise (Schiff et al. 2024, UDLM; Sahoo et al. 2025, Duo). The
// canvas begins as random tokens, and every step draws each open position again. With the
// prediction p, the current token z, a = alpha(t) / alpha(s) and K tokens, the posterior is a
// mixture of three draws:
//   a token from p with weight alpha(s) - alpha(t);
//   z with weight K alpha(t) p_z + a - alpha(t);
//   any token with weight (1 - a)(1 - alpha(s)).
// Given positions do not change. The model must be trained with objective uniform.

#include "base/error.h"
#include "decode/policies/policies.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct UniformSettings {
  int64_t steps, block_length, vocab; // steps of a canvas; block_length 0: one block
  int32_t mask_id;                    // never drawn as noise; -1: the model has none
  bool greedy_tail;
  std::shared_ptr<const std::vector<int32_t>> drawn; // the K tokens; null: all but the mask token
  int64_t tokens() const {
    return drawn != nullptr ? static_cast<int64_t>(drawn->size()) : vocab - (has_mask() ? 1 : 0);
  }
  bool has_mask() const { return mask_id >= 0 && mask_id < vocab; }
  int32_t token(float uniform) const { // one of the K tokens
    const auto wanted = static_cast<int64_t>(static_cast<double>(uniform) * tokens());
    const int64_t index = std::min(wanted, tokens() - 1);
    if (drawn != nullptr) return (*drawn)[static_cast<size_t>(index)];
    return static_cast<int32_t>(has_mask() && index >= mask_id ? index + 1 : index);
  }
};

class UniformSession final : public Session {
public:
  UniformSession(const UniformSettings& settings, const noise::Schedule& schedule, Request& request)
      : settings_(settings), schedule_(schedule) {
    request.origin = request.prompt;
    const int64_t span = std::max<int64_t>(request.length() - request.origin, 1);
    request.block_length = settings_.block_length > 0 ? settings_.block_length : span;
    const int64_t blocks = std::max<int64_t>(request.block_count(), 1);
    settings_.steps = (settings_.steps + blocks - 1) / blocks;
    begin_block(request);
  }
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<UniformSession>(*this);
  }

  PassRequest next_pass(const Request& request, const CacheView&) const override {
    PassRequest pass;
    pass.end = request.length();
    pass.ids = request.ids;
    pass.positions = own_;
    pass.time = time(request, 0);
    for (int64_t position = 0; position < pass.end; ++position)
      pass.ids[static_cast<size_t>(position)] = current(request, position);
    return pass;
  }

  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    const bool last = request.step_in_block + 1 >= settings_.steps;
    const double now = schedule_.alpha(time(request, 0)),
                 next = last ? 1.0 : schedule_.alpha(time(request, 1));
    Outcome outcome{{}, request.block, request.block_begin(), request.block_end(), last};
    std::vector<std::pair<int32_t, float>> tokens;
    for (const Prediction& prediction : predictions) {
      const int32_t here = pass.ids[static_cast<size_t>(prediction.position)];
      if (last && settings_.greedy_tail)
        tokens.emplace_back(prediction.argmax, prediction.max_probability);
      else
        tokens.push_back(drawn(request, prediction, here, now, next));
    }
    for (size_t i = 0; i < predictions.size(); ++i) {
      const int64_t position = predictions[i].position;
      if (request.is_open(position)) outcome.decided.push_back(position);
      request.decide(position, tokens[i].first, tokens[i].second,
                     last ? State::final : State::provisional);
    }
    ++request.step_in_block;
    if (last) {
      ++request.block;
      request.step_in_block = 0;
      begin_block(request);
    }
    return outcome;
  }

private:
  // Moves to the next block with open positions. Each of its steps draws all of them again.
  void begin_block(Request& request) {
    own_.clear();
    for (; request.block < request.block_count(); ++request.block) {
      own_ = request.open_positions(request.block_begin(), request.block_end());
      if (!own_.empty()) return;
    }
    request.finish = Finish::decided;
  }

  // Returns the noise level of the block after `ahead` more steps: 1 at first, 0 at the end.
  double time(const Request& request, int64_t ahead) const {
    const int64_t left = settings_.steps - request.step_in_block - ahead;
    return static_cast<double>(std::max<int64_t>(left, 0)) / static_cast<double>(settings_.steps);
  }

  // Returns the current token of a position. A position that was not drawn yet holds noise.
  int32_t current(const Request& request, int64_t position) const {
    if (!request.is_open(position)) return request.ids[static_cast<size_t>(position)];
    return settings_.token(position_uniform(request, position, 3));
  }

  std::pair<int32_t, float> drawn(const Request& request, const Prediction& prediction,
                                  int32_t here, double now, double next) const {
    const double own = probability_of(prediction, here);
    const double ratio = next > 0 ? now / next : 1.0;
    const double from_model = next - now,
                 stays = static_cast<double>(settings_.tokens()) * now * own + ratio - now,
                 anew = (1 - ratio) * (1 - next);
    const double u =
        position_uniform(request, prediction.position, 1) * (from_model + stays + anew);
    if (u < from_model && prediction.token != settings_.mask_id)
      return {prediction.token, prediction.probability};
    if (u < from_model + stays) return {here, static_cast<float>(own)};
    const int32_t token = settings_.token(position_uniform(request, prediction.position, 2));
    return {token, static_cast<float>(probability_of(prediction, token))};
  }

  // Returns the probability of a token. Tokens that are not listed share the rest equally.
  double probability_of(const Prediction& prediction, int32_t token) const {
    const auto found = std::ranges::find(prediction.top_ids, token);
    if (found != prediction.top_ids.end())
      return prediction.top_probs[static_cast<size_t>(found - prediction.top_ids.begin())];
    double listed = 0;
    for (const float probability : prediction.top_probs) listed += probability;
    const int64_t others = settings_.vocab - static_cast<int64_t>(prediction.top_ids.size());
    return others > 0 ? std::max(1 - listed, 0.0) / static_cast<double>(others) : 0.0;
  }

  UniformSettings settings_;
  const noise::Schedule& schedule_;
  std::vector<int64_t> own_; // positions that were open when the block began
};

class UniformPolicy final : public Policy {
public:
  explicit UniformPolicy(const PolicySetup& setup)
      : Policy(setup), settings_{setup.i64("steps"),
                                 setup.i64("block_length"),
                                 setup.config.vocab_size,
                                 setup.mask_id,
                                 setup.options.boolean("greedy_tail"),
                                 drawn_ids(setup, setup.mask_id)} {
    if (setup.f64("guidance") > 0) fail(Code::invalid_argument, "policy uniform has no guidance");
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    if (request.settings.constraint != nullptr && !settings_.greedy_tail) {
      fail_with_hint("set greedy_tail to true", Code::invalid_argument,
                     "without greedy_tail policy uniform leaves noise on the canvas, which a "
                     "constraint cannot refuse");
    }
    return std::make_unique<UniformSession>(settings_, setup().schedule, request);
  }
  PredictionNeeds needs() const override { return {.mask = false, .top = listed()}; }
  std::string approximation() const override {
    if (listed() >= settings_.vocab) return "";
    return "the probability of a token that is not among the likeliest " +
           std::to_string(listed()) + " is taken as the mean of the others";
  }

private:
  int64_t listed() const { return std::min(setup().i64("listed"), settings_.vocab); }

  UniformSettings settings_;
};

std::unique_ptr<Policy> make_uniform(const PolicySetup& setup) {
  return std::make_unique<UniformPolicy>(setup);
}

std::vector<OptionSpec> uniform_keys() {
  return {
      option_f64("temperature", 1, 0, 100,
                 "Divides the logits of a draw, 1e-6 at least; 0 takes the likeliest token."),
      option_bool("greedy_tail", true,
                  "The last step takes the likeliest tokens; false: it draws like the others."),
      option_i64(
          "listed", 1024, 1, 1 << 20,
          "Number of likeliest tokens whose probability is exact; the others share the rest."),
  };
}

} // namespace

PolicyKind policy_files::uniform() {
  return {"uniform", make_uniform, uniform_keys(), false};
}

} // namespace dllm::decode
