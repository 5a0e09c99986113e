#include "generate/constraints/text_constraint.h"

#include <algorithm>
#include <utility>

namespace dllm::generate {

using text::ByteAutomaton;
using text::TokenAutomaton;

TextConstraint::TextConstraint(std::shared_ptr<const TokenAutomaton> automaton, int64_t begin,
                               std::vector<int32_t> ends)
    : automaton_(std::move(automaton)), begin_(begin), ends_(std::move(ends)) {}

bool TextConstraint::is_silent(int32_t token) const {
  const text::TokenBytes& tokens = automaton_->tokens();
  return token < tokens.size() && tokens.of(token).empty() &&
         std::ranges::find(ends_, token) == ends_.end();
}

void TextConstraint::follow(const decode::Request& request) const {
  std::vector<int32_t> now(request.ids.size());
  for (size_t i = 0; i < now.size(); ++i)
    now[i] = request.states[i] == decode::State::masked ? -1 : request.ids[i];
  can_match(now);
}

// Keeps the sets that positions before the first change and after the last one determine.
bool TextConstraint::can_match(const std::vector<int32_t>& given) const {
  const auto length = static_cast<int64_t>(given.size());
  if (given.size() != canvas_.size()) {
    forward_.assign(given.size() + 1, Set());
    backward_.assign(given.size() + 1, Set());
    forward_[static_cast<size_t>(begin_)] = automaton_->start();
    backward_[given.size()] = automaton_->finished(may_end());
    forward_known_ = begin_;
    backward_known_ = length;
  } else {
    const auto first = std::ranges::mismatch(given, canvas_).in1 - given.begin();
    int64_t last = length; // after the last change
    while (last > first &&
           given[static_cast<size_t>(last - 1)] == canvas_[static_cast<size_t>(last - 1)])
      --last;
    forward_known_ = std::min<int64_t>(forward_known_, std::max<int64_t>(first, begin_));
    backward_known_ = std::max(backward_known_, last);
  }
  canvas_ = given;
  return TokenAutomaton::has(backward(begin_), automaton_->bytes().begin());
}

const TextConstraint::Set& TextConstraint::forward(int64_t position) const {
  for (; forward_known_ < position; ++forward_known_) {
    const auto at = static_cast<size_t>(forward_known_);
    const int32_t token = canvas_[at];
    const Set& from = forward_[at];
    Set& made = forward_[at + 1];
    if (token >= 0 && is_silent(token)) {
      made = from;
    } else if (token < 0) {
      made = automaton_->after_any(from, may_end());
    } else {
      made = automaton_->none();
      for (int32_t state = 0; state < automaton_->size(); ++state) {
        if (!TokenAutomaton::has(from, state)) continue;
        const int32_t to = automaton_->next(state, token, ends_);
        if (to != ByteAutomaton::kDead) TokenAutomaton::put(made, to);
      }
    }
  }
  return forward_[static_cast<size_t>(position)];
}

const TextConstraint::Set& TextConstraint::backward(int64_t position) const {
  while (backward_known_ > position) {
    const auto at = static_cast<size_t>(--backward_known_);
    const int32_t token = canvas_[at];
    const Set& to = backward_[at + 1];
    if (token >= 0 && is_silent(token))
      backward_[at] = to;
    else
      backward_[at] =
          token < 0 ? automaton_->before_any(to, may_end()) : automaton_->before(to, token, ends_);
  }
  return backward_[static_cast<size_t>(position)];
}

bool TextConstraint::allows(const decode::Request& request, int64_t position, int32_t token) const {
  if (position < begin_) return true;
  follow(request);
  if (is_at_start(position) && token < automaton_->tokens().size() &&
      automaton_->tokens().changes_at_start(token))
    return false;
  const Set &from = forward(position), &to = backward(position + 1);
  for (int32_t state = 0; state < automaton_->size(); ++state) {
    if (!TokenAutomaton::has(from, state)) continue;
    const int32_t after = automaton_->next(state, token, ends_);
    if (after != ByteAutomaton::kDead && TokenAutomaton::has(to, after)) return true;
  }
  return false;
}

void TextConstraint::ban(const decode::Request& request, int64_t position,
                         std::span<uint8_t> banned) const {
  if (position < begin_) return;
  follow(request);
  std::vector<uint8_t> allowed(banned.size());
  automaton_->each_token(forward(position), backward(position + 1), ends_, [&](int32_t token) {
    const auto at = static_cast<size_t>(token);
    const bool changes = is_at_start(position) && automaton_->tokens().changes_at_start(token);
    if (at < allowed.size() && !changes) allowed[at] = 1;
  });
  for (size_t i = 0; i < banned.size(); ++i) {
    if (allowed[i] == 0) banned[i] = 1;
  }
}

int64_t TextConstraint::fewest_positions(int64_t most) const {
  const Set finished = automaton_->finished(may_end());
  Set reached = automaton_->start();
  for (int64_t count = 0; count <= most; ++count) {
    for (size_t i = 0; i < reached.size(); ++i) {
      if ((reached[i] & finished[i]) != 0) return count;
    }
    reached = automaton_->after_any(reached, may_end());
  }
  return -1;
}

} // namespace dllm::generate
