#include "text/automaton/token_automaton.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace dllm::text {
namespace {

constexpr int32_t kDead = ByteAutomaton::kDead;

// Calls `look` with each state of a set.
template <class Look> void each_state(const TokenAutomaton::Set& set, const Look& look) {
  for (size_t word = 0; word < set.size(); ++word) {
    for (uint64_t left = set[word]; left != 0; left &= left - 1)
      look(static_cast<int32_t>(64 * word) + std::countr_zero(left));
  }
}

bool overlap(const TokenAutomaton::Set& a, const TokenAutomaton::Set& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] & b[i]) != 0) return true;
  }
  return false;
}

} // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer, const Task* task) {
  const auto size = static_cast<size_t>(tokenizer.size());
  bytes_.resize(size);
  at_start_.resize(size);
  const DecodeOptions raw{.skip_special = true, .raw = true};
  std::vector<int32_t> pair = tokenizer.encode("a", EncodeOptions());
  pair = {pair.empty() ? 0 : pair.back(), 0}; // a token before the one that is read
  const std::string before = tokenizer.decode({pair.data(), 1}, raw);
  for (size_t i = 0; i < size; ++i) {
    if (i % 4096 == 0) check_task(task);
    const auto id = static_cast<int32_t>(i);
    if (tokenizer.is_special(id) || tokenizer.token(id).empty()) continue;
    pair[1] = id;
    const std::string text = tokenizer.decode(pair, raw);
    if (!text.starts_with(before)) continue;
    bytes_[i] = text.substr(before.size());
    at_start_[i] = tokenizer.decode({&id, 1}, raw) != bytes_[i] ? 1 : 0;
    if (!bytes_[i].empty()) sorted_.push_back(id);
  }
  std::ranges::sort(
      sorted_, [&](int32_t a, int32_t b) { return std::pair(of(a), a) < std::pair(of(b), b); });
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const std::string &own = of(sorted_[i]), &last = of(sorted_[i == 0 ? 0 : i - 1]);
    const auto differ = std::ranges::mismatch(own, last);
    shared_.push_back(i == 0 ? 0 : static_cast<int32_t>(differ.in1 - own.begin()));
  }
}

template <class Found> void TokenAutomaton::walk(int32_t state, const Found& found) const {
  std::vector<int32_t> path = {state}; // states after 0, 1, ... bytes of the last token
  const std::vector<int32_t>&sorted = tokens_->sorted(), &shared = tokens_->shared();
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto same = static_cast<size_t>(shared[i]);
    if (same >= path.size()) continue; // it begins as a token that is not allowed
    path.resize(same + 1);
    const std::string& bytes = tokens_->of(sorted[i]);
    for (size_t at = same; at < bytes.size(); ++at) {
      const int32_t to = bytes_.next(path.back(), static_cast<uint8_t>(bytes[at]));
      if (to == kDead) break;
      path.push_back(to);
    }
    if (path.size() == bytes.size() + 1) found(sorted[i], path.back());
  }
}

TokenAutomaton::TokenAutomaton(std::string_view pattern, std::shared_ptr<const TokenBytes> tokens,
                               const Task* task)
    : bytes_(pattern, task), tokens_(std::move(tokens)),
      reach_(static_cast<size_t>(bytes_.size()), none()) {
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    check_task(task);
    Set& reached = reach_[static_cast<size_t>(state)];
    walk(state, [&](int32_t, int32_t to) { put(reached, to); });
  }
}

bool TokenAutomaton::is_empty(const Set& set) {
  return std::ranges::all_of(set, [](uint64_t word) { return word == 0; });
}

int32_t TokenAutomaton::next(int32_t state, int32_t token, const std::vector<int32_t>& ends) const {
  if (state == ended()) return ended();
  if (std::ranges::find(ends, token) != ends.end()) return bytes_.accepts(state) ? ended() : kDead;
  const bool known = token >= 0 && token < tokens_->size();
  if (!known || tokens_->of(token).empty()) return kDead;
  return bytes_.read(state, tokens_->of(token));
}

TokenAutomaton::Set TokenAutomaton::after_any(const Set& from, bool may_end) const {
  Set made = none();
  each_state(from, [&](int32_t state) {
    if (state == ended()) return put(made, state);
    const Set& reached = reach_[static_cast<size_t>(state)];
    for (size_t i = 0; i < made.size(); ++i) made[i] |= reached[i];
    if (may_end && bytes_.accepts(state)) put(made, ended());
  });
  return made;
}

TokenAutomaton::Set TokenAutomaton::before_any(const Set& to, bool may_end) const {
  Set made = none();
  const bool ends = has(to, ended());
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    const bool may = ends && may_end && bytes_.accepts(state);
    if (may || overlap(reach_[static_cast<size_t>(state)], to)) put(made, state);
  }
  if (ends) put(made, ended());
  return made;
}

TokenAutomaton::Set TokenAutomaton::before(const Set& to, int32_t token,
                                           const std::vector<int32_t>& ends) const {
  Set made = none();
  for (int32_t state = 0; state < size(); ++state) {
    const int32_t after = next(state, token, ends);
    if (after != kDead && has(to, after)) put(made, state);
  }
  return made;
}

TokenAutomaton::Set TokenAutomaton::start() const {
  Set made = none();
  put(made, bytes_.begin());
  return made;
}

TokenAutomaton::Set TokenAutomaton::finished(bool may_end) const {
  Set made = none();
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    if (bytes_.accepts(state)) put(made, state);
  }
  if (may_end) put(made, ended());
  return made;
}

void TokenAutomaton::each_token(const Set& from, const Set& to, const std::vector<int32_t>& ends,
                                const std::function<void(int32_t token)>& allow) const {
  each_state(from, [&](int32_t state) {
    if (state == ended()) {
      if (!has(to, ended())) return;
      for (int64_t token = 0; token < tokens_->size(); ++token) allow(static_cast<int32_t>(token));
      return;
    }
    walk(state, [&](int32_t token, int32_t after) {
      if (has(to, after) && std::ranges::find(ends, token) == ends.end()) allow(token);
    });
    if (!bytes_.accepts(state) || !has(to, ended())) return;
    for (const int32_t token : ends) allow(token);
  });
}

} // namespace dllm::text
