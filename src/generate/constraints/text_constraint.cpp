#include "generate/constraints/text_constraint.h"

#include <algorithm>
#include <utility>

namespace dllm::generate {

using text::ByteAutomaton;
using text::TokenAutomaton;

namespace {

constexpr size_t kMostBanBytes = size_t{8} << 20; // of rows that a request keeps
constexpr size_t kMostSetPairs = size_t{1} << 12; // whose row is known

} // namespace

TextConstraint::TextConstraint(std::shared_ptr<const TokenAutomaton> automaton, int64_t begin,
                               std::vector<int32_t> ends, bool may_end, std::string what)
    : automaton_(std::move(automaton)), begin_(begin), ends_(std::move(ends)), may_end_(may_end),
      what_(std::move(what)) {}

std::string TextConstraint::what() const {
  return what_;
}

bool TextConstraint::is_silent(int32_t token) const {
  const text::TokenBytes& tokens = automaton_->tokens();
  return token < tokens.size() && tokens.of(token).empty() &&
         std::ranges::find(ends_, token) == ends_.end();
}

void TextConstraint::follow(const decode::Request& request) const {
  std::vector<int32_t> now(request.ids.size());
  for (size_t i = 0; i < now.size(); ++i)
    now[i] = request.states[i] == decode::State::masked ? -1 : request.ids[i];
  take(now);
}

// Keeps the sets that positions before the first change and after the last one determine.
void TextConstraint::take(const std::vector<int32_t>& given) const {
  const auto length = static_cast<int64_t>(given.size());
  if (given.size() != canvas_.size()) {
    forward_.assign(given.size() + 1, Set());
    backward_.assign(given.size() + 1, Set());
    forward_[static_cast<size_t>(begin_)] = automaton_->start();
    backward_[given.size()] = automaton_->finished(may_end_);
    forward_known_ = begin_;
    backward_known_ = length;
    for (first_ = 0; begin_ == 0 && first_ < length; ++first_) {
      const int32_t token = given[static_cast<size_t>(first_)];
      if (token < 0 || !is_silent(token)) break;
    }
    if (begin_ > 0) first_ = -1;
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
}

bool TextConstraint::can_match(const std::vector<int32_t>& given) const {
  take(given);
  return TokenAutomaton::has(backward(begin_), automaton_->bytes().begin());
}

// Returns the states after an open position.
TextConstraint::Set TextConstraint::after_open(const Set& from, int64_t position) const {
  if (!is_at_start(position)) return automaton_->after_any(from, may_end_);
  Set made = automaton_->none();
  const int32_t begin = automaton_->bytes().begin();
  for (const int32_t token : automaton_->trie().tokens()) {
    const int32_t to = automaton_->next(begin, token, ends_, true);
    if (to != ByteAutomaton::kDead) TokenAutomaton::put(made, to);
  }
  if (may_end_ && automaton_->bytes().accepts(begin))
    TokenAutomaton::put(made, automaton_->ended());
  return made;
}

// Returns the states before an open position. At the start of a text only the first state counts.
TextConstraint::Set TextConstraint::before_open(const Set& to, int64_t position) const {
  if (!is_at_start(position)) return automaton_->before_any(to, may_end_);
  const Set reached = after_open(automaton_->start(), position);
  for (size_t i = 0; i < reached.size(); ++i) {
    if ((reached[i] & to[i]) != 0) return automaton_->start();
  }
  return automaton_->none();
}

const TextConstraint::Set& TextConstraint::forward(int64_t position) const {
  for (; forward_known_ < position; ++forward_known_) {
    const auto at = static_cast<size_t>(forward_known_);
    const int32_t token = canvas_[at];
    const Set& from = forward_[at];
    if (token < 0)
      forward_[at + 1] = after_open(from, forward_known_);
    else
      forward_[at + 1] = is_silent(token)
                             ? from
                             : automaton_->after(from, token, ends_, is_at_start(forward_known_));
  }
  return forward_[static_cast<size_t>(position)];
}

const TextConstraint::Set& TextConstraint::backward(int64_t position) const {
  while (backward_known_ > position) {
    const auto at = static_cast<size_t>(--backward_known_);
    const int32_t token = canvas_[at];
    const Set& to = backward_[at + 1];
    if (token < 0)
      backward_[at] = before_open(to, backward_known_);
    else
      backward_[at] = is_silent(token)
                          ? to
                          : automaton_->before(to, token, ends_, is_at_start(backward_known_));
  }
  return backward_[static_cast<size_t>(position)];
}

bool TextConstraint::leads(int64_t position, int32_t token) const {
  const Set reached = automaton_->after(forward(position), token, ends_, is_at_start(position));
  const Set& to = backward(position + 1);
  for (size_t i = 0; i < reached.size(); ++i) {
    if ((reached[i] & to[i]) != 0) return true;
  }
  return false;
}

bool TextConstraint::allows(const decode::Request& request, int64_t position, int32_t token) const {
  if (position < begin_) return true;
  follow(request);
  return leads(position, token);
}

decode::BanRow TextConstraint::ban(const decode::Request& request, int64_t position,
                                   const decode::BanRow& banned) const {
  if (position < begin_) return banned;
  follow(request);
  if (is_at_start(position)) return bans_at_start(position, banned);
  const bool is_full =
      rows_.size() * banned->size() > kMostBanBytes || bans_.size() >= kMostSetPairs;
  if (is_full || base_ == nullptr || (base_ != banned && *base_ != *banned)) {
    bans_.clear();
    rows_.clear();
    base_ = banned;
  }
  const Set &from = forward(position), &to = backward(position + 1);
  decode::BanRow& known = bans_[{from, to}];
  if (known != nullptr) return known;
  const auto row = rows_.try_emplace(automaton_->allowed(from, to)).first;
  if (row->second == nullptr) row->second = make_bans(row->first, banned);
  return known = row->second;
}

decode::BanRow TextConstraint::make_bans(const TokenAutomaton::Allowed& allowed,
                                         const decode::BanRow& banned) const {
  const auto made = std::make_shared<std::vector<uint8_t>>(*banned);
  automaton_->ban(allowed, ends_, *made);
  return made;
}

// The classes of tokens are of tokens inside a text, so each token is tried.
decode::BanRow TextConstraint::bans_at_start(int64_t position, const decode::BanRow& banned) const {
  const auto made = std::make_shared<std::vector<uint8_t>>(*banned);
  for (size_t i = 0; i < made->size(); ++i) {
    if (!leads(position, static_cast<int32_t>(i))) (*made)[i] = 1;
  }
  return made;
}

int64_t TextConstraint::fewest_positions(int64_t most) const {
  const Set finished = automaton_->finished(may_end_);
  Set reached = automaton_->start();
  for (int64_t count = 0; count <= most; ++count) {
    for (size_t i = 0; i < reached.size(); ++i) {
      if ((reached[i] & finished[i]) != 0) return count;
    }
    reached = automaton_->after_any(reached, may_end_);
  }
  return -1;
}

} // namespace dllm::generate
