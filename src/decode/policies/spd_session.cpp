// Soft parallel decoding (DMax; github.com/czg1225/DMax, dInfer). Blocks of an absolute grid, block-causal
// attention. In every step the leading masks that are sure enough are decided, and every position
// decided before in this block is overwritten by what the model says now: its input is not its
// token but a mix of the likeliest tokens and the mask, weighted by their probabilities.

#include "decode/policies/spd.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class SpdSession final : public Session {
public:
  SpdSession(const SpdSettings& settings, Slot& slot) : settings_(settings) {
    slot.origin = 0;
    slot.block_length = settings_.block_length;
    const int64_t open = slot.open_count(0, slot.length());
    const int64_t steps =
        std::min(settings_.steps, std::max<int64_t>(1, open / settings_.minimal_topk));
    steps_per_block_ = std::min(steps, settings_.block_length);
    begin_block(slot);
    first_block_ = slot.block;
  }

  Ask ask(const Slot& slot, const CacheView& cache) const override {
    const int64_t begin = slot.block_begin(), end = slot.block_end();
    Ask ask;
    ask.end = settings_.implementation == SpdImplementation::fast ? window_end(slot) : end;
    if (settings_.implementation == SpdImplementation::kv_fast) {
      ask.cached = true;
      ask.generation = cache.generation;
      ask.final_end = begin;
      if (cache.final_end < begin) return hard(std::move(ask), cache.final_end);
      // A position that is predicted from the one before it needs that one in the window.
      ask.begin = std::max<int64_t>(0, begin - settings_.shift);
    }
    for (int64_t position = begin; position < end; ++position) {
      const State state = slot.states[static_cast<size_t>(position)];
      if (state == State::fixed) continue;
      ask.positions.push_back(position);
      if (state == State::provisional) ask.soft.push_back(soft_input(slot, position));
    }
    return ask;
  }

  Outcome apply(Slot& slot, const Ask& ask, std::span<const Prediction> predictions) override {
    Outcome outcome{{}, slot.block, slot.block_begin(), slot.block_end(), false};
    if (ask.pass != Pass::step) return outcome;
    const std::vector<uint8_t> chosen = decode_set(slot, predictions);
    bool same = true, sure = true;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const Prediction& p = predictions[i];
      const auto at = static_cast<size_t>(p.position);
      const int32_t before = slot.ids[at];
      const bool was_open = slot.is_open(p.position);
      if (!was_open || chosen[i] != 0) write(slot, p);
      if (was_open && !slot.is_open(p.position)) outcome.decided.push_back(p.position);
      same = same && slot.ids[at] == before;
      sure = sure && p.max_probability >= settings_.confidence_stop;
      soft_[static_cast<size_t>(p.position - outcome.begin)] =
          slot.is_open(p.position) ? SpdSoft{} : soft_of(p);
    }
    ++slot.step_in_block;
    outcome.block_ended = same || sure || slot.step_in_block >= steps_per_block_;
    if (outcome.block_ended) end_block(slot, outcome);
    return outcome;
  }

  LoopAsk loop_ask(const Slot& slot, const CacheView& cache) const override {
    return {ask(slot, cache), slot.block_begin(), slot.block_end(), steps_per_block_};
  }
  // count: steps that are left of the block.
  LoopTables loop_tables(const Slot& slot, int64_t steps) const override {
    LoopTables tables(steps);
    for (size_t i = 0; i < tables.count.size(); ++i) {
      tables.count[i] = static_cast<int32_t>(steps_per_block_ - slot.step_in_block) -
                        static_cast<int32_t>(i);
    }
    return tables;
  }

  int64_t nfe(const Slot& slot) const override {
    if (settings_.compat == SpdCompat::dmax) return 1 + slot.evaluations; // its prefill is counted
    const bool hard = settings_.implementation == SpdImplementation::kv_fast;
    return slot.evaluations + (hard ? ended_blocks_ : 0);
  }

private:
  // A pass over tokens that are decided, from where the cache ends to the block. After a block that
  // is the hard write of its final tokens over the K and V of its soft inputs.
  Ask hard(Ask ask, int64_t from) const {
    const bool only_last = ended_blocks_ > 0 && ask.final_end - from == settings_.block_length;
    ask.pass = only_last ? Pass::commit : Pass::prefill;
    ask.begin = from;
    ask.end = ask.final_end;
    return ask;
  }

  // fast: one shape of the window for many blocks; what lies behind a block is not seen by it.
  int64_t window_end(const Slot& slot) const {
    if (settings_.bucket_length == 0) return slot.length();
    const int64_t group = std::max<int64_t>(1, settings_.bucket_length / settings_.block_length);
    const int64_t number = (slot.block - first_block_) / group;
    return std::min(slot.length(), (first_block_ + (number + 1) * group) * settings_.block_length);
  }

  SoftInput soft_input(const Slot& slot, int64_t position) const {
    const SpdSoft& soft = soft_[static_cast<size_t>(position - slot.block_begin())];
    if (!soft.ids.empty()) return {position, soft.ids, soft.weights};
    // Decided before its block began: no confidence yet, so all of it is the mask.
    const auto width = static_cast<size_t>(settings_.mix_top_k);
    return {position, std::vector<int32_t>(width, slot.ids[static_cast<size_t>(position)]),
            std::vector<float>(width, 0.0f)};
  }

  SpdSoft soft_of(const Prediction& p) const {
    // dllm-jax mixes the token that was drawn, with the probability of the likeliest one.
    if (settings_.is_jax() && settings_.mix_top_k == 1) return {{p.token}, {p.max_probability}};
    return spd_likeliest(p, settings_.mix_top_k);
  }

  std::vector<uint8_t> decode_set(const Slot& slot, std::span<const Prediction> predictions) const {
    std::vector<uint8_t> open;
    std::vector<float> probability;
    for (const Prediction& p : predictions) {
      open.push_back(slot.is_open(p.position) ? 1 : 0);
      probability.push_back(p.probability);
    }
    return spd_decode_set(open, probability, settings_.threshold);
  }

  void write(Slot& slot, const Prediction& p) const {
    if (p.token == settings_.mask_id)
      slot.reopen(p.position, settings_.mask_id);
    else
      slot.decide(p.position, p.token, p.probability, State::provisional);
  }

  void end_block(Slot& slot, Outcome& outcome) {
    for (int64_t i = outcome.begin; i < outcome.end; ++i) {
      State& state = slot.states[static_cast<size_t>(i)];
      if (state == State::provisional) state = State::final;
    }
    ++ended_blocks_;
    const int64_t eos = eos_position(slot, outcome);
    if (eos >= 0) {
      if (settings_.eos_fill) fill(slot, outcome, eos);
      if (settings_.compat != SpdCompat::dllm_jax_batch) {
        slot.finish = Finish::stopped;
        return;
      }
    }
    ++slot.block;
    begin_block(slot);
  }

  // Of the first EOS of the ended block; -1: it has none.
  int64_t eos_position(const Slot& slot, const Outcome& block) const {
    for (int64_t i = block.begin; settings_.eos >= 0 && i < block.end; ++i) {
      const auto at = static_cast<size_t>(i);
      // The compiled loops of dllm-jax look at the given tokens of the block too.
      const bool given =
          settings_.is_jax() && settings_.implementation != SpdImplementation::reference;
      const bool counts = slot.states[at] == State::final || given;
      if (counts && slot.ids[at] == settings_.eos) return i;
    }
    return -1;
  }

  void fill(Slot& slot, Outcome& outcome, int64_t eos) const {
    const float confidence = slot.confidence[static_cast<size_t>(eos)];
    // dllm-jax revises what it filled as long as another row of the batch goes on.
    const State state =
        settings_.compat == SpdCompat::dllm_jax_batch ? State::provisional : State::final;
    for (int64_t i = outcome.end; i < slot.length(); ++i) {
      if (slot.states[static_cast<size_t>(i)] == State::fixed) continue;
      if (slot.is_open(i)) outcome.decided.push_back(i);
      slot.decide(i, settings_.eos, confidence, state);
    }
  }

  // Moves to the first block with something to decide or to revise; without one the slot is done.
  void begin_block(Slot& slot) {
    const auto has_work = [&] {
      const auto first = slot.states.begin() + slot.block_begin();
      return std::any_of(first, slot.states.begin() + slot.block_end(), [](State state) {
        return state == State::masked || state == State::provisional;
      });
    };
    while (slot.block < slot.block_count() && !has_work()) ++slot.block;
    slot.step_in_block = 0;
    soft_.assign(static_cast<size_t>(slot.block_length), SpdSoft{});
    if (slot.block >= slot.block_count()) slot.finish = Finish::decided;
  }

  SpdSettings settings_;
  int64_t steps_per_block_ = 1, first_block_ = 0, ended_blocks_ = 0;
  std::vector<SpdSoft> soft_; // (block_length); without ids: nothing yet
};

} // namespace

std::unique_ptr<Session> make_spd_session(const SpdSettings& settings, Slot& slot) {
  return std::make_unique<SpdSession>(settings, slot);
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
