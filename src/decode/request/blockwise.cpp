#include "decode/request/blockwise.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace dllm::decode {

BlockwisePolicy::BlockwisePolicy(const PolicySetup& setup, RuleMaker make_rule, LoopMaker make_loop)
    : BlockwisePolicy(setup, blockwise_settings(setup), std::move(make_rule),
                      std::move(make_loop)) {}

BlockwisePolicy::BlockwisePolicy(const PolicySetup& setup, BlockwiseSettings settings,
                                 RuleMaker make_rule, LoopMaker make_loop)
    : Policy(setup), settings_(std::move(settings)), make_rule_(std::move(make_rule)),
      make_loop_(std::move(make_loop)) {
  const model::ExpertConfig& experts = setup.config.experts;
  const bool aligned =
      settings_.grid_at_zero && settings_.block_length % std::max<int64_t>(experts.block, 1) == 0;
  if (experts.capacity > 0 && settings_.cache == CacheMode::exact && !aligned) {
    fail_with_hint("set cache to none, or use policy llada22, llada2 or sdar with such blocks",
                   Code::invalid_argument,
                   "experts are chosen by blocks of {} positions: an exact cache needs blocks from "
                   "position 0 whose length is a multiple of it, not {}",
                   experts.block, settings_.block_length);
  }
}

std::unique_ptr<Session> BlockwisePolicy::begin(Request& request) const {
  return std::make_unique<BlockwiseSession>(settings_, setup().schedule, make_rule_(setup()),
                                            request);
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
    return "cache prefix: K and V before a block come from its first step; exact ones would change "
           "with every later token";
  case CacheMode::dual:
    return "cache dual: K and V outside a block come from its first step; exact ones would change "
           "with every later token";
  default: return "";
  }
}

BlockwiseSession::BlockwiseSession(const BlockwiseSettings& settings,
                                   const noise::Schedule& schedule,
                                   std::unique_ptr<UnmaskingRule> rule, Request& request)
    : settings_(settings), schedule_(schedule), rule_(std::move(rule)) {
  // The blocks begin after the prompt, or at position 0 in a canvas with holes.
  request.origin = settings_.grid_at_zero ? 0 : request.prompt;
  const int64_t span = std::max<int64_t>(request.length() - request.origin, 1);
  request.block_length = settings_.block_length > 0 ? settings_.block_length : span;
  // Blocks without open positions take no steps.
  const int64_t skipped = (request.prompt - request.origin) / request.block_length;
  const int64_t blocks = std::max<int64_t>(request.block_count() - skipped, 1);
  steps_per_block_ = settings_.steps_per_block > 0 ? settings_.steps_per_block
                                                   : (settings_.steps + blocks - 1) / blocks;
  begin_block(request);
}

BlockwiseSession::BlockwiseSession(const BlockwiseSession& other)
    : Session(other), settings_(other.settings_), schedule_(other.schedule_),
      rule_(other.rule_->clone()), steps_per_block_(other.steps_per_block_),
      filled_block_(other.filled_block_), filled_generation_(other.filled_generation_) {}

std::unique_ptr<Session> BlockwiseSession::clone() const {
  return std::make_unique<BlockwiseSession>(*this);
}

StepContext BlockwiseSession::moment(const Request& request,
                                     const std::vector<int64_t>& open) const {
  return {request, schedule_, steps_per_block_, open, request.block_begin(), request.block_end()};
}

// Moves to the first block with open positions. A request without one is done.
void BlockwiseSession::begin_block(Request& request) {
  while (request.block < request.block_count() &&
         request.open_count(request.block_begin(), request.block_end()) == 0)
    ++request.block;
  request.step_in_block = 0;
  if (request.block >= request.block_count()) {
    request.finish = Finish::decided;
    return;
  }
  const std::vector<int64_t> open =
      request.open_positions(request.block_begin(), request.block_end());
  rule_->start(moment(request, open));
}

PassRequest BlockwiseSession::next_pass(const Request& request, const CacheView& cache) const {
  PassRequest pass;
  const std::vector<int64_t> open =
      request.open_positions(request.block_begin(), request.block_end());
  const StepContext now = moment(request, open);
  pass.positions = rule_->wanted(now);
  pass.generation = cache.generation;
  if (first_alone(request, pass)) pass.positions = {request.block_begin()};
  if (pass.positions.empty()) return pass;
  pass.time = rule_->time(now);
  set_window(request, cache, pass);
  if (settings_.guidance != 0) set_guidance(request, pass);
  return pass;
}

LoopPlan BlockwiseSession::plan_loop(const Request& request, const CacheView& cache) const {
  LoopPlan plan{{}, request.block_begin(), request.block_end(), 1};
  plan.pass.positions = request.open_positions(plan.begin, plan.end);
  plan.pass.generation = cache.generation;
  set_window(request, cache, plan.pass);
  plan.most_steps =
      rule_->most_steps(std::min(request.block_length, request.length()), steps_per_block_);
  return plan;
}

LoopTables BlockwiseSession::loop_tables(const Request& request, int64_t steps) const {
  LoopTables tables(steps);
  const std::vector<int64_t> open =
      request.open_positions(request.block_begin(), request.block_end());
  const StepContext now = moment(request, open);
  for_coming_steps(now, tables.time.size(), [&](size_t i, const StepContext& coming) {
    tables.time[i] = rule_->time(coming);
  });
  rule_->fill_tables(now, tables);
  return tables;
}

void BlockwiseSession::set_window(const Request& request, const CacheView& cache,
                                  PassRequest& pass) const {
  const int64_t begin = request.block_begin(), length = request.length();
  // The window ends where the block's last position attends to.
  pass.end = std::min(request.span.limit(request.block_end() - 1), length);
  if (settings_.cache == CacheMode::none) return;
  pass.cached = true;
  if (settings_.cache == CacheMode::exact) {
    pass.final_end = request.span.floor(begin);
    // Under shift 1 the window includes the position that predicts the first token.
    pass.begin = std::max<int64_t>(0, std::min(cache.final_end, pass.final_end) - settings_.shift);
    return;
  }
  pass.end = length;
  if (fills_cache(request, cache.generation)) return;
  pass.begin = begin;
  if (settings_.cache == CacheMode::dual) pass.end = request.block_end();
}

// An approximate cache is filled in the first step of a block, and again if it was lost.
bool BlockwiseSession::fills_cache(const Request& request, uint64_t generation) const {
  const bool approximate =
      settings_.cache == CacheMode::prefix || settings_.cache == CacheMode::dual;
  return approximate && (filled_block_ != request.block || filled_generation_ != generation);
}

// Returns whether the pass decides only the first position of the block. Under shift 1 the window
// of a block lacks the position that predicts its first token. Only the pass that fills the cache
// computes it, so that pass decides the first token (Fast-dLLM for Dream).
bool BlockwiseSession::first_alone(const Request& request, const PassRequest& pass) const {
  return settings_.shift != 0 && fills_cache(request, pass.generation) &&
         request.is_open(request.block_begin());
}

void BlockwiseSession::set_guidance(const Request& request, PassRequest& pass) const {
  pass.guidance = settings_.guidance;
  const auto& keep = settings_.guidance_keep;
  for (int64_t i = pass.begin; i < pass.end; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool kept = request.states[at] != State::fixed ||
                      std::find(keep.begin(), keep.end(), request.ids[at]) != keep.end();
    pass.unconditional.push_back(kept ? request.ids[at] : settings_.mask_id);
  }
}

Outcome BlockwiseSession::apply(Request& request, const PassRequest& pass,
                                std::span<const Prediction> predictions) {
  Outcome outcome{{}, request.block, request.block_begin(), request.block_end(), false};
  bool exits = false;
  const bool alone = first_alone(request, pass); // the rule does not choose
  const Choice choice = choose(request, pass, predictions, &exits);
  for (const int64_t position : choice.remask) request.reopen(position, settings_.mask_id);
  for (size_t i = 0; i < choice.decided.size(); ++i) {
    const Prediction& chosen = predictions[choice.decided[i]];
    const Token token =
        choice.tokens.empty() ? Token{chosen.token, chosen.probability} : choice.tokens[i];
    write(request, chosen.position, token, choice.state, outcome);
  }
  if (pass.cached) {
    filled_block_ = request.block;
    filled_generation_ = pass.generation;
  }
  return finish_step(request, std::move(outcome), !alone, exits);
}

// Writes a token. The mask token leaves the position open, or opens it again.
void BlockwiseSession::write(Request& request, int64_t position, Token token, State state,
                             Outcome& outcome) const {
  const bool was_open = request.is_open(position);
  if (token.id == settings_.mask_id) {
    if (!was_open) request.reopen(position, settings_.mask_id);
    return;
  }
  if (was_open) outcome.decided.push_back(position);
  request.decide(position, token.id, token.probability, state);
}

bool BlockwiseSession::exits_early(const PassRequest& pass, const std::vector<int64_t>& open,
                                   std::span<const Prediction> predictions) const {
  const auto sure = [&](const Prediction& p) {
    return p.probability >= settings_.early_exit && p.token != settings_.mask_id;
  };
  return settings_.early_exit > 0 && !open.empty() && pass.positions == open &&
         std::all_of(predictions.begin(), predictions.end(), sure);
}

Choice BlockwiseSession::choose(const Request& request, const PassRequest& pass,
                                std::span<const Prediction> predictions, bool* exits) {
  const std::vector<int64_t> open =
      request.open_positions(request.block_begin(), request.block_end());
  if (first_alone(request, pass)) return all_of(predictions);
  *exits = exits_early(pass, open, predictions);
  return *exits ? all_of(predictions) : rule_->choose(moment(request, open), predictions);
}

Outcome BlockwiseSession::host_decided(Request& request, const std::vector<int64_t>& decided) {
  return finish_step(request,
                     {decided, request.block, request.block_begin(), request.block_end(), false},
                     false, false);
}

Outcome BlockwiseSession::finish_step(Request& request, Outcome outcome, bool chosen, bool exits) {
  std::sort(outcome.decided.begin(), outcome.decided.end());
  ++request.step_in_block;
  const std::vector<int64_t> open = request.open_positions(outcome.begin, outcome.end);
  StepContext now = moment(request, open);
  now.chosen = chosen;
  outcome.block_ended = exits || rule_->block_ended(now);
  if (!outcome.block_ended) return outcome;
  for (int64_t i = outcome.begin; i < outcome.end; ++i) {
    State& state = request.states[static_cast<size_t>(i)];
    if (state == State::provisional) state = State::final;
  }
  if (stop_at_eos(request, outcome)) return outcome;
  ++request.block;
  begin_block(request);
  return outcome;
}

// Ends the request if the block contains the end token. All later open positions become that token.
bool BlockwiseSession::stop_at_eos(Request& request, Outcome& outcome) const {
  if (settings_.eos < 0) return false;
  int64_t found = outcome.begin;
  const auto ends = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return request.states[at] == State::final && request.ids[at] == settings_.eos;
  };
  while (found < outcome.end && !ends(found)) ++found;
  if (found == outcome.end) return false;
  const float confidence = request.confidence[static_cast<size_t>(found)];
  for (const int64_t rest : request.open_positions(outcome.end, request.length())) {
    request.decide(rest, settings_.eos, confidence);
    outcome.decided.push_back(rest);
  }
  request.finish = Finish::stopped;
  return true;
}

Json BlockwiseSession::memory() const {
  return rule_->memory();
}

double StepContext::t() const {
  return static_cast<double>(steps - request.step_in_block) / static_cast<double>(steps);
}

double StepContext::s() const {
  return static_cast<double>(steps - request.step_in_block - 1) / static_cast<double>(steps);
}

std::vector<int64_t> UnmaskingRule::wanted(const StepContext& moment) const {
  return {moment.open.begin(), moment.open.end()};
}

Json UnmaskingRule::memory() const {
  return Json::object();
}

double UnmaskingRule::time(const StepContext& moment) const {
  return std::max(moment.t(), 1.0 / static_cast<double>(moment.steps));
}

void for_coming_steps(const StepContext& now, size_t count,
                      const std::function<void(size_t, const StepContext&)>& use) {
  Request request; // only step_in_block is used
  request.step_in_block = now.request.step_in_block;
  for (size_t i = 0; i < count; ++i, ++request.step_in_block)
    use(i, {request, now.schedule, now.steps, {}, now.begin, now.end});
}

Choice all_of(std::span<const Prediction> predictions) {
  Choice choice;
  choice.decided.resize(predictions.size());
  std::iota(choice.decided.begin(), choice.decided.end(), size_t{0});
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
