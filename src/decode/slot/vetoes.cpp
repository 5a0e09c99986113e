#include "decode/slot/vetoes.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::decode {

// Bans all tokens that are refused at a position, and `token` in any case. Returns whether a token
// is left.
bool Vetoes::ban(Bans& bans, const Request& request, int64_t position, int32_t token) const {
  std::vector<uint8_t>& own = bans.banned;
  // The mask token decides no position, and an option sets whether it may be drawn. A policy that
  // writes it as a decision may not draw it again: its model has no mask token of its own.
  const bool may_draw_mask = token != mask_id_ && mask_id_ >= 0 && mask_id_ < std::ssize(own) &&
                             own[static_cast<size_t>(mask_id_)] == 0;
  constraint_.ban(request, position, own);
  own[static_cast<size_t>(token)] = 1;
  if (may_draw_mask) own[static_cast<size_t>(mask_id_)] = 0;
  return std::ranges::find(own, uint8_t{0}) != own.end();
}

// Bans the refused tokens at a position. Returns false if `token` was banned before. When no token
// is left, some bans are of an earlier try with other tokens next to it, and the bans start again.
bool Vetoes::add(const Request& request, int64_t position, int32_t token) {
  Bans& own = at_.try_emplace(position, Bans{banned_}).first->second;
  if (own.banned[static_cast<size_t>(token)] != 0) return false;
  if (ban(own, request, position, token)) return true;
  if (++own.starts <= kMostStarts) {
    own.banned = banned_;
    if (ban(own, request, position, token)) return true;
  }
  fail_with_hint("let the constraint allow a token at every position, or suppress fewer tokens",
                 Code::failed_precondition, "the constraint allows no token at position {}",
                 position);
}

std::vector<int64_t> Vetoes::of_predictions(const Request& request,
                                            std::span<const Prediction> predictions) {
  std::vector<int64_t> refused;
  for (const Prediction& p : predictions) {
    std::vector<int32_t> tokens = {p.token, p.argmax};
    if (p.edit.insert_probability > 0) tokens.push_back(p.edit.insert);
    bool added = false;
    for (const int32_t token : tokens) {
      if (token == mask_id_ || constraint_.allows(request, p.position, token)) continue;
      added = add(request, p.position, token) || added;
    }
    if (added) refused.push_back(p.position);
  }
  return refused;
}

std::vector<int64_t> Vetoes::of_step(const Request& before, const Request& after,
                                     std::span<const Prediction> predictions) {
  if (before.length() != after.length()) return {}; // the predictions have other positions now
  const auto at = [](const Prediction& p) { return static_cast<size_t>(p.position); };
  const auto wrote = [&](const Prediction& p) {
    const bool written = !after.is_open(p.position) && after.states[at(p)] != State::fixed;
    const bool is_new = before.is_open(p.position) || before.ids[at(p)] != after.ids[at(p)];
    // A token that a policy writes for a while as noise is not a decision.
    const bool drawn = after.ids[at(p)] == p.token || after.ids[at(p)] == p.argmax;
    return written && is_new && (drawn || after.states[at(p)] == State::final);
  };
  Request canvas = after;
  for (const Prediction& p : predictions) {
    if (wrote(p)) canvas.decide(p.position, mask_id_, 0, State::masked);
  }
  std::vector<int64_t> refused;
  for (const Prediction& p : predictions) {
    if (!wrote(p)) continue;
    const int32_t token = after.ids[at(p)];
    if (constraint_.allows(canvas, p.position, token)) {
      canvas.decide(p.position, token, 0, after.states[at(p)]);
      continue;
    }
    if (add(canvas, p.position, token))
      refused.push_back(p.position);
    else if (after.states[at(p)] == State::final)
      fail_with_hint("use a policy that writes what it draws, for example low_confidence",
                     Code::failed_precondition,
                     "the policy wrote token {} at position {}, which the constraint refuses",
                     token, p.position);
  }
  return refused;
}

std::vector<Vetoes::Group> Vetoes::groups(std::span<const int64_t> positions) const {
  std::vector<Group> made;
  for (const int64_t position : positions) {
    const std::vector<uint8_t>& banned = at_.at(position).banned;
    auto same = std::ranges::find(made, banned, &Group::banned);
    if (same == made.end()) same = made.insert(made.end(), {banned, {}});
    same->positions.push_back(position);
  }
  return made;
}

} // namespace dllm::decode
