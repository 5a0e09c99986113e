// Soft parallel decoding (DMax; spec-dllm-jax 4.6, 4.7). Blocks of an absolute grid, block-causal
// attention. In every step the leading masks that are sure enough are decided, and every position
// decided before in this block is overwritten by what the model says now: its input is not its
// token but a mix of the likeliest tokens and the mask, weighted by their probabilities.

#include "base/error.h"
#include "decode/policies/factories.h"
#include "decode/policies/spd_rule.h"

#include <algorithm>

namespace dllm::decode {
namespace {

enum class Implementation : uint8_t { reference, fast, kv_fast };

// Whose counts and defects are reproduced; see the option.
enum class Compat : uint8_t { none, dllm_jax, dllm_jax_batch, dmax };

struct Settings {
  int64_t block_length, steps, minimal_topk, mix_top_k, bucket_length;
  float threshold, confidence_stop;
  int32_t eos, mask_id;
  bool eos_fill;
  int shift;
  Implementation implementation;
  Compat compat;

  bool is_jax() const { return compat == Compat::dllm_jax || compat == Compat::dllm_jax_batch; }
};

class SpdSession final : public Session {
public:
  SpdSession(const Settings& settings, Slot& slot) : settings_(settings) {
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
    ask.end = settings_.implementation == Implementation::fast ? window_end(slot) : end;
    if (settings_.implementation == Implementation::kv_fast) {
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

  int64_t nfe(const Slot& slot) const override {
    if (settings_.compat == Compat::dmax) return 1 + slot.evaluations; // its prefill is counted
    const bool hard = settings_.implementation == Implementation::kv_fast;
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
      if (settings_.compat != Compat::dllm_jax_batch) {
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
          settings_.is_jax() && settings_.implementation != Implementation::reference;
      const bool counts = slot.states[at] == State::final || given;
      if (counts && slot.ids[at] == settings_.eos) return i;
    }
    return -1;
  }

  void fill(Slot& slot, Outcome& outcome, int64_t eos) const {
    const float confidence = slot.confidence[static_cast<size_t>(eos)];
    // dllm-jax revises what it filled as long as another row of the batch goes on.
    const State state =
        settings_.compat == Compat::dllm_jax_batch ? State::provisional : State::final;
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

  Settings settings_;
  int64_t steps_per_block_ = 1, first_block_ = 0, ended_blocks_ = 0;
  std::vector<SpdSoft> soft_; // (block_length); without ids: nothing yet
};

Implementation implementation_of(const std::string& name) {
  if (name == "reference") return Implementation::reference;
  return name == "fast" ? Implementation::fast : Implementation::kv_fast;
}

Compat compat_of(const std::string& name) {
  if (name == "dllm-jax") return Compat::dllm_jax;
  if (name == "dllm-jax-batch") return Compat::dllm_jax_batch;
  return name == "dmax" ? Compat::dmax : Compat::none;
}

void refuse_what_does_not_fit(const PolicySetup& setup) {
  const Options& options = setup.options;
  const std::string& attention = options.str("attention");
  if (attention == "causal" || attention == "bidirectional") {
    fail_with_hint("leave attention at auto, or use policy low_confidence", Code::invalid_argument,
                   "policy spd decodes under block_causal attention, not {}", attention);
  }
  const std::string &cache = options.str("cache"), &implementation = options.str("implementation");
  const bool kv = implementation == "kv_fast";
  if (cache != "auto" && cache != (kv ? "exact" : "none")) {
    fail_with_hint("leave cache at auto; implementation reference and fast keep none, kv_fast an "
                   "exact one",
                   Code::invalid_argument, "cache {} does not go with implementation {}", cache,
                   implementation);
  }
  if (setup.f64("guidance") != 0) {
    fail_with_hint("set guidance to 0", Code::invalid_argument,
                   "policy spd has no second canvas for guidance {}", setup.f64("guidance"));
  }
  if (setup.i64("bucket_length") > 0 && implementation != "fast") {
    fail_with_hint("use implementation fast, or bucket_length 0", Code::invalid_argument,
                   "bucket_length {} is of implementation fast, not {}", setup.i64("bucket_length"),
                   implementation);
  }
  if (setup.i64("eos") >= setup.config.vocab_size) {
    fail(Code::invalid_argument, "option eos is {}, which is no token id below {}",
         setup.i64("eos"), setup.config.vocab_size);
  }
}

class Spd final : public Policy {
public:
  explicit Spd(const PolicySetup& setup) : Policy(setup) {
    refuse_what_does_not_fit(setup);
    settings_.block_length = block_length_of(setup);
    settings_.steps = setup.i64("steps");
    settings_.minimal_topk = setup.i64("minimal_topk");
    settings_.mix_top_k = std::min(setup.i64("mix_top_k"), setup.config.vocab_size);
    settings_.bucket_length = setup.i64("bucket_length");
    settings_.threshold = static_cast<float>(setup.f64("threshold"));
    settings_.confidence_stop = static_cast<float>(setup.f64("confidence_stop"));
    settings_.eos = static_cast<int32_t>(setup.i64("eos"));
    settings_.mask_id = setup.mask_id;
    settings_.eos_fill = setup.options.boolean("eos_fill");
    settings_.shift = setup.shift;
    settings_.implementation = implementation_of(setup.options.str("implementation"));
    settings_.compat = compat_of(setup.options.str("compat"));
  }

  std::unique_ptr<Session> begin(Slot& slot) const override {
    slot.sight = {settings_.block_length, 0, false};
    return std::make_unique<SpdSession>(settings_, slot);
  }
  int64_t top() const override { return settings_.mix_top_k; }
  int64_t soft_width() const override { return settings_.mix_top_k; }

private:
  Settings settings_{};
};

} // namespace

std::vector<OptionSpec> spd_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, counted from position 0, prompt included; unset: the "
                 "model's own, else 32."),
      option_i64("steps", 32, 1, 1 << 20,
                 "Most steps of a block (never more than its positions); what is open then stays."),
      option_i64("minimal_topk", 1, 1, 1 << 20,
                 "Caps the steps of a block at the open positions divided by this."),
      option_f64("threshold", 0.95, 0, 1,
                 "Masks are decided from the left while the probability is at least this; the "
                 "leftmost always."),
      option_f64("confidence_stop", 0.9, 0, 2,
                 "A block ends when every position of it is at least so sure, also with masks "
                 "left; above 1: never."),
      option_i64("mix_top_k", 1, 1, 1024,
                 "Likeliest tokens that are mixed into the input of a decided position; top_k, in "
                 "contrast, limits draws."),
      option_bool("suppress_mask", false, "The mask token is never drawn."),
      option_i64("eos", -1, -1, 1 << 30,
                 "A block that decides this token id ends the request; -1: none does."),
      option_bool("eos_fill", true, "What lies behind a block with eos becomes eos."),
      option_choice("implementation", "kv_fast", {"reference", "fast", "kv_fast"},
                    "The same tokens at other costs. reference: a pass sees up to its block; fast: "
                    "passes of one shape; kv_fast: a pass is one block, the rest is cached."),
      option_i64("bucket_length", 0, 0, 1 << 24,
                 "Windows of implementation fast grow by so many positions; 0: one window."),
      option_choice("compat", "none", {"none", "dllm-jax", "dllm-jax-batch", "dmax"},
                    "dllm-jax: also an eos in the given part of a block ends the request, and a "
                    "drawn token is mixed with the likeliest one's probability; dllm-jax-batch: "
                    "moreover what eos filled is revised again and the host ends the request; "
                    "dmax: nfe is 1 + steps."),
  };
}

std::unique_ptr<Policy> make_spd(const PolicySetup& setup) {
  return std::make_unique<Spd>(setup);
}

} // namespace dllm::decode
