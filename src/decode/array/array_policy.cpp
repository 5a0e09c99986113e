#include "decode/array/array_policy.h"

#include "base/error.h"
#include "graph/ops.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {

HostLevel ArrayRule::level(const noise::Schedule& schedule, double t) const {
  const double alpha = schedule.alpha(t);
  return {static_cast<float>(t), static_cast<float>(std::sqrt(alpha)),
          static_cast<float>(std::sqrt(1 - alpha))};
}

ArrayText ArrayRule::read(const ArrayRows& rows, graph::Value read) const {
  const Shape flat{rows.rows() * rows.window(), rows.builder.config().hidden_size};
  return {graph::reshape(read, flat), rows.builder.head()};
}

ArrayPolicy::ArrayPolicy(const PolicySetup& setup, std::shared_ptr<const ArrayRule> rule)
    : Policy(setup), rule_(std::move(rule)), solver_(make_solver(setup.options.str("solver"))) {}

OptionSpec trained_schedule_option() {
  return option_str("schedule", kTrainedSchedule,
                    "Noise schedule of the steps; trained: that of the model's training, else "
                    "tangent.");
}

std::vector<HostLevel> ArrayPolicy::levels(int64_t steps) const {
  std::vector<HostLevel> made;
  for (int64_t left = steps; left > 0; --left) {
    const HostLevel now =
        rule_->level(setup().schedule, static_cast<double>(left) / static_cast<double>(steps));
    if (!(now.sigma > 0 && now.signal >= 0)) {
      fail_with_hint("take fewer steps, or another schedule", Code::invalid_argument,
                     "schedule {} has sigma {} at time {}, expected more than 0",
                     setup().schedule.name(), now.sigma, now.time);
    }
    made.push_back(now);
  }
  made.push_back({0, 1, 0}); // the last step leaves no noise, whatever the schedule has at 0
  return made;
}

namespace {

// Moves to the next block with a position that is not given. Returns false when there is none.
bool begin_block(Request& request) {
  while (request.block < request.block_count()) {
    for (int64_t p = request.block_begin(); p < request.block_end(); ++p) {
      if (request.states[static_cast<size_t>(p)] != State::fixed) return true;
    }
    ++request.block;
  }
  return false;
}

// Returns the number of blocks that have an open position, at least one.
int64_t open_blocks(const Request& request) {
  int64_t blocks = 0;
  for (int64_t begin = request.origin; begin < request.length(); begin += request.block_length) {
    const int64_t end = std::min(begin + request.block_length, request.length());
    blocks += request.open_count(begin, end) > 0 ? 1 : 0;
  }
  return std::max<int64_t>(blocks, 1);
}

} // namespace

std::unique_ptr<Session> ArrayPolicy::begin(Request& request) const {
  const int64_t block = rule_->block_length();
  request.origin = block > 0 ? 0 : request.prompt;
  request.block_length =
      block > 0 ? block : std::max<int64_t>(1, request.length() - request.origin);
  const auto width = static_cast<size_t>(rule_->width(setup().config));
  const int64_t length = rule_->length(setup().config, request.length());
  request.array.resize(static_cast<size_t>(length) * width);
  for (int64_t row = 0; row < length; ++row) {
    position_normals(request.settings.seed, 0, row,
                     std::span(request.array).subspan(static_cast<size_t>(row) * width, width));
  }
  if (request.open_count(0, request.length()) == 0) request.finish = Finish::decided;
  if (block > 0) begin_block(request);
  ArrayPlan plan;
  const int64_t steps = setup().i64("steps"), blocks = block > 0 ? open_blocks(request) : 1;
  plan.levels = levels((steps + blocks - 1) / blocks);
  plan.evaluations = solver_->evaluations();
  plan.in_blocks = block > 0;
  plan.guidance = static_cast<float>(setup().f64("guidance"));
  for (const std::string& text : setup().options.list("guidance_keep"))
    plan.guidance_keep.push_back(parse_id(text, setup().config.vocab_size, "option guidance_keep"));
  plan.mask_id = std::max(0, setup().mask_id);
  return std::make_unique<ArraySession>(std::move(plan));
}

bool ArraySession::is_given(const Request& request, int64_t position, bool without) const {
  const auto at = static_cast<size_t>(position);
  if (request.states[at] != State::fixed) return false;
  return !without ||
         std::ranges::find(plan_->guidance_keep, request.ids[at]) != plan_->guidance_keep.end();
}

PassRequest ArraySession::next_pass(const Request& request, const CacheView&) const {
  PassRequest pass;
  pass.end = request.length();
  pass.time = level(request, 0).time;
  pass.guidance = plan_->guidance;
  for (int64_t position = 0; position < request.length(); ++position) {
    const bool reads =
        !in_blocks() || (position >= request.block_begin() && position < request.block_end());
    if (reads && !is_given(request, position, false)) pass.positions.push_back(position);
    if (!is_guided()) continue;
    const int32_t id = request.ids[static_cast<size_t>(position)];
    pass.unconditional.push_back(is_given(request, position, true) ? id : plan_->mask_id);
  }
  return pass;
}

Outcome ArraySession::apply(Request& request, const PassRequest&,
                            std::span<const Prediction> predictions) {
  const bool last = steps_left(request) == 1;
  Outcome outcome;
  outcome.block = request.block;
  outcome.begin = request.block_begin();
  outcome.end = request.block_end();
  outcome.block_ended = last;
  for (const Prediction& p : predictions) {
    if (request.is_open(p.position)) outcome.decided.push_back(p.position);
    request.decide(p.position, p.token, p.probability, last ? State::final : State::provisional);
  }
  ++request.step_in_block;
  if (!last) return outcome;
  if (in_blocks()) {
    ++request.block;
    request.step_in_block = 0;
    if (begin_block(request)) return outcome;
  }
  request.finish = Finish::decided;
  return outcome;
}

} // namespace dllm::decode
