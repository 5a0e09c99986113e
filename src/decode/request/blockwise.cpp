#include "decode/request/blockwise.h"

#include <algorithm>
#include <numeric>

namespace dllm::decode {

BlockwisePolicy::BlockwisePolicy(const PolicySetup& setup, RuleMaker make_rule, LoopMaker make_loop)
    : BlockwisePolicy(setup, blockwise_settings(setup), std::move(make_rule),
                      std::move(make_loop)) {}

BlockwisePolicy::BlockwisePolicy(const PolicySetup& setup, BlockwiseSettings settings,
                                 RuleMaker make_rule, LoopMaker make_loop)
    : Policy(setup), settings_(std::move(settings)), make_rule_(std::move(make_rule)),
      make_loop_(std::move(make_loop)) {}

std::unique_ptr<Session> BlockwisePolicy::begin(Slot& slot) const {
  return std::make_unique<BlockwiseSession>(settings_, setup().schedule, make_rule_(setup()), slot);
}

LoopOffer BlockwisePolicy::loop() const {
  if (!make_loop_) return Policy::loop();
  if (settings_.cache == CacheMode::prefix || settings_.cache == CacheMode::dual)
    return {nullptr, "approximate caches change their window after the first step of a block"};
  if (settings_.guidance != 0) return {nullptr, "guidance needs a second canvas"};
  if (settings_.early_exit > 0) return {nullptr, "option early_exit has no graph form"};
  return make_loop_();
}

std::string BlockwisePolicy::approximation() const {
  switch (settings_.cache) {
  case CacheMode::prefix:
    return "cache prefix: K and V before a block are those of its first step; they would change "
           "with every later token";
  case CacheMode::dual:
    return "cache dual: K and V outside a block are those of its first step; they would change "
           "with every later token";
  default: return "";
  }
}

BlockwiseSession::BlockwiseSession(const BlockwiseSettings& settings,
                                   const noise::Schedule& schedule, std::unique_ptr<Rule> rule,
                                   Slot& slot)
    : settings_(settings), schedule_(schedule), rule_(std::move(rule)) {
  // Blocks follow the prompt; in a canvas with holes they are windows from its beginning.
  slot.origin = settings_.grid_at_zero ? 0 : slot.prompt;
  const int64_t span = std::max<int64_t>(slot.length() - slot.origin, 1);
  slot.block_length = settings_.block_length > 0 ? settings_.block_length : span;
  // Blocks of given tokens alone take no steps.
  const int64_t skipped = (slot.prompt - slot.origin) / slot.block_length;
  const int64_t blocks = std::max<int64_t>(slot.block_count() - skipped, 1);
  steps_per_block_ = settings_.steps_per_block > 0 ? settings_.steps_per_block
                                                   : (settings_.steps + blocks - 1) / blocks;
  begin_block(slot);
}

Moment BlockwiseSession::moment(const Slot& slot, const std::vector<int64_t>& open) const {
  return {slot, schedule_, steps_per_block_, open, slot.block_begin(), slot.block_end()};
}

// Moves to the first block with open positions; a slot without any is done.
void BlockwiseSession::begin_block(Slot& slot) {
  while (slot.block < slot.block_count() &&
         slot.open_count(slot.block_begin(), slot.block_end()) == 0)
    ++slot.block;
  slot.step_in_block = 0;
  if (slot.block >= slot.block_count()) {
    slot.finish = Finish::decided;
    return;
  }
  const std::vector<int64_t> open = slot.open_positions(slot.block_begin(), slot.block_end());
  rule_->start(moment(slot, open));
}

Ask BlockwiseSession::ask(const Slot& slot, const CacheView& cache) const {
  Ask ask;
  const std::vector<int64_t> open = slot.open_positions(slot.block_begin(), slot.block_end());
  const Moment now = moment(slot, open);
  ask.positions = rule_->wanted(now);
  ask.generation = cache.generation;
  if (first_alone(slot, ask)) ask.positions = {slot.block_begin()};
  if (ask.positions.empty()) return ask;
  ask.time = rule_->time(now);
  set_window(slot, cache, ask);
  if (settings_.guidance != 0) set_guidance(slot, ask);
  return ask;
}

LoopAsk BlockwiseSession::loop_ask(const Slot& slot, const CacheView& cache) const {
  LoopAsk plan{{}, slot.block_begin(), slot.block_end(), 1};
  plan.ask.positions = slot.open_positions(plan.begin, plan.end);
  plan.ask.generation = cache.generation;
  set_window(slot, cache, plan.ask);
  plan.most_steps = rule_->most_steps(std::min(slot.block_length, slot.length()), steps_per_block_);
  return plan;
}

LoopTables BlockwiseSession::loop_tables(const Slot& slot, int64_t steps) const {
  LoopTables tables(steps);
  const std::vector<int64_t> open = slot.open_positions(slot.block_begin(), slot.block_end());
  const Moment now = moment(slot, open);
  for_coming_steps(now, tables.time.size(),
                   [&](size_t i, const Moment& coming) { tables.time[i] = rule_->time(coming); });
  rule_->fill_tables(now, tables);
  return tables;
}

void BlockwiseSession::set_window(const Slot& slot, const CacheView& cache, Ask& ask) const {
  const int64_t begin = slot.block_begin(), length = slot.length();
  // What the block's last position sees.
  ask.end = std::min(slot.span.limit(slot.block_end() - 1), length);
  if (settings_.cache == CacheMode::none) return;
  ask.cached = true;
  if (settings_.cache == CacheMode::exact) {
    ask.final_end = slot.span.floor(begin);
    // A position that is predicted from the one before it needs that one in the window.
    ask.begin = std::max<int64_t>(0, std::min(cache.final_end, ask.final_end) - settings_.shift);
    return;
  }
  ask.end = length;
  if (fills_cache(slot, cache.generation)) return;
  ask.begin = begin;
  if (settings_.cache == CacheMode::dual) ask.end = slot.block_end();
}

// An approximate cache is filled in the first step of a block, and anew when it was lost.
bool BlockwiseSession::fills_cache(const Slot& slot, uint64_t generation) const {
  const bool approximate =
      settings_.cache == CacheMode::prefix || settings_.cache == CacheMode::dual;
  return approximate && (filled_block_ != slot.block || filled_generation_ != generation);
}

// Under shift 1 the window of a block lacks the position that predicts its first token: the pass
// that fills the cache is the only one that knows it, and decides it alone (Fast-dLLM for Dream).
bool BlockwiseSession::first_alone(const Slot& slot, const Ask& ask) const {
  return settings_.shift != 0 && fills_cache(slot, ask.generation) &&
         slot.is_open(slot.block_begin());
}

void BlockwiseSession::set_guidance(const Slot& slot, Ask& ask) const {
  ask.guidance = settings_.guidance;
  const auto& keep = settings_.guidance_keep;
  for (int64_t i = ask.begin; i < ask.end; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool kept = slot.states[at] != State::fixed ||
                      std::find(keep.begin(), keep.end(), slot.ids[at]) != keep.end();
    ask.unconditional.push_back(kept ? slot.ids[at] : settings_.mask_id);
  }
}

Outcome BlockwiseSession::apply(Slot& slot, const Ask& ask,
                                std::span<const Prediction> predictions) {
  Outcome outcome{{}, slot.block, slot.block_begin(), slot.block_end(), false};
  bool exits = false;
  const Choice choice = choose(slot, ask, predictions, &exits);
  for (const int64_t position : choice.remask) slot.reopen(position, settings_.mask_id);
  for (size_t i = 0; i < choice.commit.size(); ++i) {
    const Prediction& chosen = predictions[choice.commit[i]];
    const Token token =
        choice.tokens.empty() ? Token{chosen.token, chosen.probability} : choice.tokens[i];
    if (slot.is_open(chosen.position)) outcome.decided.push_back(chosen.position);
    slot.decide(chosen.position, token.id, token.probability, choice.state);
  }
  if (ask.cached) {
    filled_block_ = slot.block;
    filled_generation_ = ask.generation;
  }
  return finish_step(slot, std::move(outcome), exits);
}

Choice BlockwiseSession::choose(const Slot& slot, const Ask& ask,
                                std::span<const Prediction> predictions, bool* exits) {
  const std::vector<int64_t> open = slot.open_positions(slot.block_begin(), slot.block_end());
  if (first_alone(slot, ask)) return all_of(predictions);
  const auto sure = [&](const Prediction& p) { return p.probability >= settings_.early_exit; };
  *exits = settings_.early_exit > 0 && !open.empty() && ask.positions == open &&
           std::all_of(predictions.begin(), predictions.end(), sure);
  return *exits ? all_of(predictions) : rule_->choose(moment(slot, open), predictions);
}

Outcome BlockwiseSession::settle(Slot& slot, const std::vector<int64_t>& decided) {
  return finish_step(slot, {decided, slot.block, slot.block_begin(), slot.block_end(), false});
}

Outcome BlockwiseSession::finish_step(Slot& slot, Outcome outcome, bool exits) {
  std::sort(outcome.decided.begin(), outcome.decided.end());
  ++slot.step_in_block;
  const std::vector<int64_t> open = slot.open_positions(outcome.begin, outcome.end);
  outcome.block_ended = exits || rule_->block_ended(moment(slot, open));
  if (!outcome.block_ended) return outcome;
  for (int64_t i = outcome.begin; i < outcome.end; ++i) {
    State& state = slot.states[static_cast<size_t>(i)];
    if (state == State::provisional) state = State::final;
  }
  if (stop_at_eos(slot, outcome)) return outcome;
  ++slot.block;
  begin_block(slot);
  return outcome;
}

// A block that holds the end token is the last: what is open behind it becomes that token.
bool BlockwiseSession::stop_at_eos(Slot& slot, Outcome& outcome) const {
  if (settings_.eos < 0) return false;
  int64_t found = outcome.begin;
  const auto ends = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return slot.states[at] == State::final && slot.ids[at] == settings_.eos;
  };
  while (found < outcome.end && !ends(found)) ++found;
  if (found == outcome.end) return false;
  const float confidence = slot.confidence[static_cast<size_t>(found)];
  for (const int64_t rest : slot.open_positions(outcome.end, slot.length())) {
    slot.decide(rest, settings_.eos, confidence);
    outcome.decided.push_back(rest);
  }
  slot.finish = Finish::stopped;
  return true;
}

double Moment::t() const {
  return static_cast<double>(steps - slot.step_in_block) / static_cast<double>(steps);
}

double Moment::s() const {
  return static_cast<double>(steps - slot.step_in_block - 1) / static_cast<double>(steps);
}

std::vector<int64_t> Rule::wanted(const Moment& moment) const {
  return {moment.open.begin(), moment.open.end()};
}

double Rule::time(const Moment& moment) const {
  return std::max(moment.t(), 1.0 / static_cast<double>(moment.steps));
}

void for_coming_steps(const Moment& now, size_t count,
                      const std::function<void(size_t, const Moment&)>& use) {
  Slot slot; // times are all that a coming step is asked for
  slot.step_in_block = now.slot.step_in_block;
  for (size_t i = 0; i < count; ++i, ++slot.step_in_block)
    use(i, {slot, now.schedule, now.steps, {}, now.begin, now.end});
}

Choice all_of(std::span<const Prediction> predictions) {
  Choice choice;
  choice.commit.resize(predictions.size());
  std::iota(choice.commit.begin(), choice.commit.end(), size_t{0});
  return choice;
}

std::vector<size_t> largest(const std::vector<double>& scores, int64_t count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(count, 0))));
  return order;
}

} // namespace dllm::decode
