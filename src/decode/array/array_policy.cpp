#include "decode/array/array_policy.h"

#include "base/error.h"

#include <cmath>

namespace dllm::decode {

HostLevel ArrayPolicy::level(double t) const {
  const double alpha = setup().schedule.alpha(t);
  return {static_cast<float>(t), static_cast<float>(std::sqrt(alpha)),
          static_cast<float>(std::sqrt(1 - alpha))};
}

std::vector<HostLevel> ArrayPolicy::levels(int64_t steps) const {
  std::vector<HostLevel> made;
  for (int64_t left = steps; left > 0; --left) {
    const HostLevel now = level(static_cast<double>(left) / static_cast<double>(steps));
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

std::unique_ptr<Session> ArrayPolicy::begin(Request& request) const {
  request.origin = request.prompt;
  request.block_length = std::max<int64_t>(1, request.length() - request.origin);
  const auto width = static_cast<size_t>(rule_->width(setup().config));
  request.array.resize(static_cast<size_t>(request.length()) * width);
  for (int64_t position = 0; position < request.length(); ++position) {
    const auto at = static_cast<size_t>(position) * width;
    position_normals(request.settings.seed, 0, position,
                     std::span(request.array).subspan(at, width));
  }
  if (request.open_count(0, request.length()) == 0) request.finish = Finish::decided;
  return std::make_unique<ArraySession>(levels(setup().i64("steps")),
                                        rule_->solver().evaluations());
}

PassRequest ArraySession::next_pass(const Request& request, const CacheView&) const {
  PassRequest pass;
  pass.end = request.length();
  pass.time = level(request, 0).time;
  for (int64_t position = 0; position < request.length(); ++position) {
    if (request.states[static_cast<size_t>(position)] != State::fixed)
      pass.positions.push_back(position);
  }
  return pass;
}

Outcome ArraySession::apply(Request& request, const PassRequest&,
                            std::span<const Prediction> predictions) {
  const bool last = steps_left(request) == 1;
  Outcome outcome;
  outcome.begin = request.origin;
  outcome.end = request.length();
  outcome.block_ended = last;
  for (const Prediction& p : predictions) {
    if (request.is_open(p.position)) outcome.decided.push_back(p.position);
    request.decide(p.position, p.token, p.probability, last ? State::final : State::provisional);
  }
  ++request.step_in_block;
  if (last) request.finish = Finish::decided;
  return outcome;
}

} // namespace dllm::decode
