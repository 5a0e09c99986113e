#include "decode/slot/vetoes.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::decode {

void Vetoes::ban_refused(const Request& canvas, std::span<const int64_t> positions,
                         const Workers& workers) {
  std::vector<BanRow> own = constraint_.bans(canvas, positions, banned_, workers);
  for (size_t i = 0; i < positions.size(); ++i)
    ban_at(positions[i], std::move(own[i]), std::nullopt);
}

void Vetoes::ban(const Request& canvas, int64_t position, int32_t token) {
  ban_at(position, constraint_.ban(canvas, position, banned_), token);
}

void Vetoes::ban_at(int64_t position, BanRow own, std::optional<int32_t> token) {
  const auto set = [&](int32_t id, uint8_t value) {
    if (id < 0 || id >= std::ssize(*own) || (*own)[static_cast<size_t>(id)] == value) return;
    const auto changed = std::make_shared<std::vector<uint8_t>>(*own);
    (*changed)[static_cast<size_t>(id)] = value;
    own = changed;
  };
  if (token) set(*token, 1);
  // The mask token decides no position, and an option sets whether it may be drawn. A policy that
  // writes it as a decision may not draw it again: its model has no mask token of its own.
  const bool may_draw_mask = token != mask_id_ && mask_id_ >= 0 && mask_id_ < std::ssize(*own) &&
                             (*banned_)[static_cast<size_t>(mask_id_)] == 0;
  if (may_draw_mask) set(mask_id_, 0);
  if (std::ranges::find(*own, uint8_t{0}) == own->end()) {
    fail_with_hint("let the constraint allow a token at every position, or suppress fewer tokens",
                   Code::failed_precondition, "the constraint allows no token at position {}",
                   position);
  }
  at_[position] = std::move(own);
}

std::vector<int64_t> Vetoes::of_predictions(const Request& request,
                                            std::span<const Prediction> predictions) {
  std::vector<int64_t> refused;
  for (const Prediction& p : predictions) {
    std::vector<int32_t> tokens = {p.token, p.argmax};
    if (p.edit.insert_probability > 0) tokens.push_back(p.edit.insert);
    const auto bad = std::ranges::find_if(tokens, [&](int32_t token) {
      return token != mask_id_ && !constraint_.allows(request, p.position, token);
    });
    if (bad == tokens.end()) continue;
    ban(request, p.position, *bad);
    refused.push_back(p.position);
  }
  return refused;
}

std::vector<int64_t> Vetoes::of_step(const Request& before, const Request& after,
                                     std::span<const Prediction> predictions) {
  const auto at = [](const Prediction& p) { return static_cast<size_t>(p.position); };
  const auto wrote = [&](const Prediction& p) {
    const bool written = !after.is_open(p.position) && after.states[at(p)] != State::fixed;
    const bool is_new = before.is_open(p.position) || before.ids[at(p)] != after.ids[at(p)];
    // A token that a policy writes for a while as noise is not a decision.
    const int32_t own = after.ids[at(p)];
    const bool drawn =
        own == p.token || own == p.argmax || std::ranges::find(p.top_ids, own) != p.top_ids.end();
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
    ban(canvas, p.position, token);
    refused.push_back(p.position);
  }
  return refused;
}

std::vector<BanRow> Vetoes::at(std::span<const int64_t> positions) const {
  std::vector<BanRow> bans;
  for (const int64_t position : positions) {
    const auto own = at_.find(position);
    bans.push_back(own == at_.end() ? banned_ : own->second);
  }
  return bans;
}

} // namespace dllm::decode
