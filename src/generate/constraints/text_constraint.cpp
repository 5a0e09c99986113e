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
  return bans(request, std::span(&position, 1), banned, {}).front();
}

std::vector<decode::BanRow> TextConstraint::bans(const decode::Request& request,
                                                 std::span<const int64_t> positions,
                                                 const decode::BanRow& banned,
                                                 const Workers& workers) const {
  follow(request);
  const bool is_full =
      rows_.size() * banned->size() > kMostBanBytes || bans_.size() >= kMostSetPairs;
  if (is_full || base_ == nullptr || (base_ != banned && *base_ != *banned)) {
    bans_.clear();
    rows_.clear();
    base_ = banned;
  }
  std::vector<decode::BanRow> made(positions.size());
  std::vector<std::pair<size_t, const decode::BanRow*>> found; // places in `made`, and their rows
  std::map<SetPair, decode::BanRow> missing;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t position = positions[i];
    if (position < begin_) {
      made[i] = banned;
    } else if (is_at_start(position)) {
      made[i] = bans_at_start(position, banned, workers);
    } else {
      SetPair sets = {forward(position), backward(position + 1)};
      const auto known = bans_.find(sets);
      found.emplace_back(i, known != bans_.end()
                                ? &known->second
                                : &missing.try_emplace(std::move(sets)).first->second);
    }
  }
  make_bans(missing, workers);
  bans_.merge(missing); // moves the rows without a copy
  for (const auto& [i, row] : found) made[i] = *row;
  return made;
}

void TextConstraint::make_bans(std::map<SetPair, decode::BanRow>& missing,
                               const Workers& workers) const {
  std::vector<std::map<SetPair, decode::BanRow>::value_type*> pairs;
  for (auto& pair : missing) pairs.push_back(&pair);
  std::vector<TokenAutomaton::Allowed> allowed(pairs.size());
  parallel(workers, std::ssize(pairs), [&](int64_t i) {
    const auto& [from, to] = pairs[static_cast<size_t>(i)]->first;
    allowed[static_cast<size_t>(i)] = automaton_->allowed(from, to);
  });
  std::map<TokenAutomaton::Allowed, decode::BanRow> made;
  for (const TokenAutomaton::Allowed& own : allowed) {
    if (!rows_.contains(own)) made.try_emplace(own);
  }
  std::vector<std::map<TokenAutomaton::Allowed, decode::BanRow>::value_type*> rows;
  for (auto& row : made) rows.push_back(&row);
  parallel(workers, std::ssize(rows), [&](int64_t i) {
    auto& [own, row] = *rows[static_cast<size_t>(i)];
    const auto bans = std::make_shared<std::vector<uint8_t>>(*base_);
    automaton_->ban(own, ends_, *bans);
    row = bans;
  });
  rows_.merge(made);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i]->second = rows_.at(allowed[i]);
}

// The classes of tokens are of tokens inside a text, so each token is tried.
decode::BanRow TextConstraint::bans_at_start(int64_t position, const decode::BanRow& banned,
                                             const Workers& workers) const {
  constexpr int64_t kChunk = 4096;
  const auto made = std::make_shared<std::vector<uint8_t>>(*banned);
  const int64_t count = std::ssize(*made);
  leads(position, 0); // makes the sets, which the chunks then read
  parallel(workers, (count + kChunk - 1) / kChunk, [&](int64_t chunk) {
    for (int64_t i = kChunk * chunk; i < std::min(count, kChunk * (chunk + 1)); ++i) {
      if (!leads(position, static_cast<int32_t>(i))) (*made)[static_cast<size_t>(i)] = 1;
    }
  });
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
