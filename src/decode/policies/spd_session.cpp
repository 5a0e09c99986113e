// Soft parallel decoding (DMax; github.com/czg1225/DMax, dInfer). Blocks form a grid from position
// 0, under block-causal attention. Every step decides the leading masks that are confident enough.
// It also overwrites every position that was decided before in this block with the new prediction.
// The input of a decided position is a mixture of the likeliest tokens and the mask, weighted by
// their probabilities.

#include "decode/policies/spd.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class SpdSession final : public Session {
public:
  SpdSession(const SpdSettings& settings, Request& request) : settings_(settings) {
    request.origin = 0;
    request.block_length = settings_.block_length;
    const int64_t open = request.open_count(0, request.length());
    const int64_t steps =
        std::min(settings_.steps, std::max<int64_t>(1, open / settings_.minimal_topk));
    steps_per_block_ = std::min(steps, settings_.block_length);
    begin_block(request);
    first_block_ = request.block;
  }
  std::unique_ptr<Session> clone() const override { return std::make_unique<SpdSession>(*this); }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    const int64_t begin = request.block_begin(), end = request.block_end();
    PassRequest pass;
    pass.end = settings_.implementation == SpdImplementation::fast ? window_end(request) : end;
    if (settings_.implementation == SpdImplementation::kv_fast) {
      pass.cached = true;
      pass.generation = cache.generation;
      pass.final_end = begin;
      if (cache.final_end < begin) return cache_pass(std::move(pass), cache.final_end);
      // Under shift 1 the window includes the position that predicts the first token.
      pass.begin = std::max<int64_t>(0, begin - settings_.shift);
    }
    for (int64_t position = begin; position < end; ++position) {
      const State state = request.states[static_cast<size_t>(position)];
      if (state == State::fixed) continue;
      pass.positions.push_back(position);
      if (state == State::provisional) pass.soft.push_back(soft_input(request, position));
    }
    return pass;
  }

  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    Outcome outcome{{}, request.block, request.block_begin(), request.block_end(), false};
    if (pass.kind != PassKind::step) return outcome;
    const std::vector<uint8_t> chosen = decode_set(request, predictions);
    bool same = true, sure = true;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const Prediction& p = predictions[i];
      const auto at = static_cast<size_t>(p.position);
      const int32_t before = request.ids[at];
      const bool was_open = request.is_open(p.position);
      if (!was_open || chosen[i] != 0) write(request, p);
      if (was_open && !request.is_open(p.position)) outcome.decided.push_back(p.position);
      same = same && request.ids[at] == before;
      sure = sure && p.max_probability >= settings_.confidence_stop;
      soft_[static_cast<size_t>(p.position - outcome.begin)] =
          request.is_open(p.position) ? SpdSoft{} : soft_of(p);
    }
    ++request.step_in_block;
    outcome.block_ended = same || sure || request.step_in_block >= steps_per_block_;
    if (outcome.block_ended) end_block(request, outcome);
    return outcome;
  }

  LoopPlan plan_loop(const Request& request, const CacheView& cache) const override {
    return {next_pass(request, cache), request.block_begin(), request.block_end(),
            steps_per_block_};
  }
  // count is the number of steps that are left of the block.
  LoopTables loop_tables(const Request& request, int64_t steps) const override {
    LoopTables tables(steps);
    for (size_t i = 0; i < tables.count.size(); ++i) {
      tables.count[i] =
          static_cast<int32_t>(steps_per_block_ - request.step_in_block) - static_cast<int32_t>(i);
    }
    return tables;
  }

  int64_t nfe(const Request& request) const override {
    if (settings_.compat == SpdCompat::dmax)
      return 1 + request.evaluations; // the source counts its prefill
    const bool cached = settings_.implementation == SpdImplementation::kv_fast;
    return request.evaluations + (cached ? ended_blocks_ : 0);
  }

private:
  // Returns a pass over decided tokens, from the end of the cache to the block. After a block this
  // is a commit: it overwrites the K and V of soft inputs with the K and V of the final tokens.
  PassRequest cache_pass(PassRequest pass, int64_t from) const {
    const bool only_last = ended_blocks_ > 0 && pass.final_end - from == settings_.block_length;
    pass.kind = only_last ? PassKind::commit : PassKind::prefill;
    pass.begin = from;
    pass.end = pass.final_end;
    return pass;
  }

  // Returns the end of the window of implementation fast. Many blocks share one shape of the
  // window. A block does not attend to later positions.
  int64_t window_end(const Request& request) const {
    if (settings_.bucket_length == 0) return request.length();
    const int64_t group = std::max<int64_t>(1, settings_.bucket_length / settings_.block_length);
    const int64_t number = (request.block - first_block_) / group;
    return std::min(request.length(),
                    (first_block_ + (number + 1) * group) * settings_.block_length);
  }

  SoftInput soft_input(const Request& request, int64_t position) const {
    const SpdSoft& soft = soft_[static_cast<size_t>(position - request.block_begin())];
    if (!soft.ids.empty()) return {position, soft.ids, soft.weights};
    // The position was decided before its block began. It has no confidence yet, so its input is
    // the mask.
    const auto width = static_cast<size_t>(settings_.mix_top_k);
    return {position, std::vector<int32_t>(width, request.ids[static_cast<size_t>(position)]),
            std::vector<float>(width, 0.0f)};
  }

  SpdSoft soft_of(const Prediction& p) const {
    // dllm-jax mixes the drawn token with the probability of the likeliest token.
    if (settings_.is_jax() && settings_.mix_top_k == 1) return {{p.token}, {p.max_probability}};
    return spd_likeliest(p, settings_.mix_top_k);
  }

  std::vector<uint8_t> decode_set(const Request& request,
                                  std::span<const Prediction> predictions) const {
    std::vector<uint8_t> open;
    std::vector<float> probability;
    for (const Prediction& p : predictions) {
      open.push_back(request.is_open(p.position) ? 1 : 0);
      probability.push_back(p.probability);
    }
    return spd_decode_set(open, probability, settings_.threshold);
  }

  void write(Request& request, const Prediction& p) const {
    if (p.token == settings_.mask_id)
      request.reopen(p.position, settings_.mask_id);
    else
      request.decide(p.position, p.token, p.probability, State::provisional);
  }

  void end_block(Request& request, Outcome& outcome) {
    for (int64_t i = outcome.begin; i < outcome.end; ++i) {
      State& state = request.states[static_cast<size_t>(i)];
      if (state == State::provisional) state = State::final;
    }
    ++ended_blocks_;
    const int64_t eos = eos_position(request, outcome);
    if (eos >= 0) {
      if (settings_.eos_fill) fill(request, outcome, eos);
      if (settings_.compat != SpdCompat::dllm_jax_batch) {
        request.finish = Finish::stopped;
        return;
      }
    }
    ++request.block;
    begin_block(request);
  }

  // Returns the position of the first EOS of the ended block; -1: it has none.
  int64_t eos_position(const Request& request, const Outcome& block) const {
    for (int64_t i = block.begin; settings_.eos >= 0 && i < block.end; ++i) {
      const auto at = static_cast<size_t>(i);
      // The compiled loops of dllm-jax consider the given tokens of the block too.
      const bool given =
          settings_.is_jax() && settings_.implementation != SpdImplementation::reference;
      const bool counts = request.states[at] == State::final || given;
      if (counts && request.ids[at] == settings_.eos) return i;
    }
    return -1;
  }

  void fill(Request& request, Outcome& outcome, int64_t eos) const {
    const float confidence = request.confidence[static_cast<size_t>(eos)];
    // dllm-jax revises the filled positions as long as another row of the batch goes on.
    const State state =
        settings_.compat == SpdCompat::dllm_jax_batch ? State::provisional : State::final;
    for (int64_t i = outcome.end; i < request.length(); ++i) {
      if (request.states[static_cast<size_t>(i)] == State::fixed) continue;
      if (request.is_open(i)) outcome.decided.push_back(i);
      request.decide(i, settings_.eos, confidence, state);
    }
  }

  // Moves to the first block with open or provisional positions. A request without one is done.
  void begin_block(Request& request) {
    const auto has_work = [&] {
      const auto first = request.states.begin() + request.block_begin();
      return std::any_of(first, request.states.begin() + request.block_end(), [](State state) {
        return state == State::masked || state == State::provisional;
      });
    };
    while (request.block < request.block_count() && !has_work()) ++request.block;
    request.step_in_block = 0;
    soft_.assign(static_cast<size_t>(request.block_length), SpdSoft{});
    if (request.block >= request.block_count()) request.finish = Finish::decided;
  }

  SpdSettings settings_;
  int64_t steps_per_block_ = 1, first_block_ = 0, ended_blocks_ = 0;
  std::vector<SpdSoft> soft_; // (block_length); ids are empty at positions that are not decided
};

} // namespace

std::unique_ptr<Session> make_spd_session(const SpdSettings& settings, Request& request) {
  return std::make_unique<SpdSession>(settings, request);
}

std::vector<uint8_t> spd_decode_set(std::span<const uint8_t> open,
                                    std::span<const float> probability, float threshold) {
  std::vector<uint8_t> decided(open.size(), 0);
  const auto leftmost = std::find_if(open.begin(), open.end(), [](uint8_t o) { return o != 0; });
  if (leftmost == open.end()) return decided;
  const auto first = static_cast<size_t>(leftmost - open.begin());
  decided[first] = 1;
  for (size_t i = first; i < open.size(); ++i) {
    if (open[i] == 0) continue;
    if (probability[i] < threshold) break;
    decided[i] = 1;
  }
  return decided;
}

SpdSoft spd_likeliest(const Prediction& prediction, int64_t width) {
  SpdSoft soft{prediction.top_ids, prediction.top_probs};
  soft.ids.resize(static_cast<size_t>(width), 0);
  soft.weights.resize(static_cast<size_t>(width), 0.0f);
  return soft;
}

} // namespace dllm::decode
