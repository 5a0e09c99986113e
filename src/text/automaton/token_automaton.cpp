#include "text/automaton/token_automaton.h"

#include <algorithm>
#include <bit>
#include <map>
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

using Words = std::pair<uint32_t, uint32_t>; // the first one, and the one after the last

Words nonzero_words(const TokenAutomaton::Set& set) {
  Words words = {0, static_cast<uint32_t>(set.size())};
  while (words.first < words.second && set[words.first] == 0) ++words.first;
  while (words.first < words.second && set[words.second - 1] == 0) --words.second;
  return words;
}

bool overlap(const TokenAutomaton::Set& a, const TokenAutomaton::Set& b, const Words& words) {
  for (uint32_t i = words.first; i < words.second; ++i) {
    if ((a[i] & b[i]) != 0) return true;
  }
  return false;
}

// The steps of a word from all states, as two hashes. Two words of 128 equal bits are taken for
// words of equal steps.
struct StepsHash {
  uint64_t first = 0, second = 0;

  void add(int32_t state, int32_t to) {
    const uint64_t pair =
        (static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32) | static_cast<uint32_t>(to);
    first = mixed(first ^ pair);
    second = mixed(second + pair * 0x9E3779B97F4A7C15u);
  }
  friend auto operator<=>(const StepsHash&, const StepsHash&) = default;

private:
  static uint64_t mixed(uint64_t x) { // SplitMix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
};

} // namespace

TokenAutomaton::TokenAutomaton(std::string_view pattern, std::shared_ptr<const TokenTrie> tokens,
                               const Task* task, Notation notation)
    : bytes_(pattern, task, notation), trie_(std::move(tokens)),
      class_of_(static_cast<size_t>(trie_->bytes().size()), -1),
      steps_(static_cast<size_t>(bytes_.size())),
      reach_(static_cast<size_t>(bytes_.size()), none()) {
  number_classes(task);
  add_steps(task);
}

void TokenAutomaton::number_classes(const Task* task) {
  const auto next = [&](int32_t state, uint8_t byte) { return bytes_.next(state, byte); };
  std::vector<StepsHash> hashes(static_cast<size_t>(trie_->words()));
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    check_task(task);
    trie_->walk(state, next, [&](int32_t word, int32_t to) {
      hashes[static_cast<size_t>(word)].add(state, to);
    });
  }
  std::map<StepsHash, int32_t> numbers;
  for (int32_t word = 0; word < trie_->words(); ++word) {
    const StepsHash& own = hashes[static_cast<size_t>(word)];
    if (own == StepsHash()) continue;
    const auto [found, is_new] = numbers.emplace(own, classes_);
    if (is_new) ++classes_, word_of_.push_back(word);
    for (const int32_t token : trie_->tokens(word))
      class_of_[static_cast<size_t>(token)] = found->second;
  }
}

void TokenAutomaton::add_steps(const Task* task) {
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    check_task(task);
    const auto at = static_cast<size_t>(state);
    for (int32_t one = 0; one < classes_; ++one) {
      const int32_t token = trie_->tokens(word_of_[static_cast<size_t>(one)]).front();
      const int32_t to = bytes_.read(state, tokens().of(token));
      if (to == kDead) continue;
      steps_[at].push_back({one, to});
      put(reach_[at], to);
    }
    steps_[at].shrink_to_fit();
    reach_words_.push_back(nonzero_words(reach_[at]));
  }
}

size_t TokenAutomaton::memory() const {
  size_t bytes = class_of_.size() * sizeof(int32_t) + word_of_.size() * sizeof(int32_t);
  for (const std::vector<Step>& steps : steps_) bytes += steps.size() * sizeof(Step);
  for (const Set& set : reach_) bytes += set.size() * sizeof(uint64_t);
  return bytes;
}

int32_t TokenAutomaton::next(int32_t state, int32_t token, const std::vector<int32_t>& ends,
                             bool at_start) const {
  if (state == ended()) return ended();
  if (std::ranges::find(ends, token) != ends.end()) return bytes_.accepts(state) ? ended() : kDead;
  const bool known = token >= 0 && token < tokens().size();
  if (!known || tokens().of(token).empty()) return kDead;
  return bytes_.read(state, at_start ? tokens().at_start(token) : tokens().of(token));
}

TokenAutomaton::Set TokenAutomaton::after(const Set& from, int32_t token,
                                          const std::vector<int32_t>& ends, bool at_start) const {
  Set made = none();
  each_state(from, [&](int32_t state) {
    const int32_t to = next(state, token, ends, at_start);
    if (to != kDead) put(made, to);
  });
  return made;
}

TokenAutomaton::Set TokenAutomaton::after_any(const Set& from, bool may_end) const {
  Set made = none();
  each_state(from, [&](int32_t state) {
    if (state == ended()) return put(made, state);
    const Set& reached = reach_[static_cast<size_t>(state)];
    const auto [first, last] = reach_words_[static_cast<size_t>(state)];
    for (uint32_t i = first; i < last; ++i) made[i] |= reached[i];
    if (may_end && bytes_.accepts(state)) put(made, ended());
  });
  return made;
}

TokenAutomaton::Set TokenAutomaton::before_any(const Set& to, bool may_end) const {
  Set made = none();
  const bool ends = has(to, ended());
  for (int32_t state = 0; state < bytes_.size(); ++state) {
    const bool may = ends && may_end && bytes_.accepts(state);
    const auto at = static_cast<size_t>(state);
    if (may || overlap(reach_[at], to, reach_words_[at])) put(made, state);
  }
  if (ends) put(made, ended());
  return made;
}

TokenAutomaton::Set TokenAutomaton::before(const Set& to, int32_t token,
                                           const std::vector<int32_t>& ends, bool at_start) const {
  Set made = none();
  for (int32_t state = 0; state < size(); ++state) {
    const int32_t after = next(state, token, ends, at_start);
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

TokenAutomaton::Allowed TokenAutomaton::allowed(const Set& from, const Set& to) const {
  Allowed made;
  made.any = has(from, ended()) && has(to, ended()); // after an end any token may be next
  if (made.any) return made;
  made.classes.resize(static_cast<size_t>(classes_));
  each_state(from, [&](int32_t state) {
    if (state == ended()) return;
    for (const Step& step : steps_[static_cast<size_t>(state)]) {
      if (has(to, step.to)) made.classes[static_cast<size_t>(step.token_class)] = 1;
    }
    made.ends = made.ends || (bytes_.accepts(state) && has(to, ended()));
  });
  return made;
}

void TokenAutomaton::ban(const Allowed& allowed, const std::vector<int32_t>& ends,
                         std::span<uint8_t> banned) const {
  if (allowed.any) return;
  const auto is_end = [&](int32_t token) {
    return token >= 0 && static_cast<size_t>(token) < banned.size();
  };
  std::vector<uint8_t> ends_before;
  for (const int32_t token : ends)
    ends_before.push_back(is_end(token) ? banned[static_cast<size_t>(token)] : uint8_t{0});
  const size_t known = std::min(banned.size(), class_of_.size());
  for (size_t token = 0; token < known; ++token) {
    const int32_t own = class_of_[token];
    if (own < 0 || allowed.classes[static_cast<size_t>(own)] == 0) banned[token] = 1;
  }
  std::ranges::fill(banned.subspan(known), uint8_t{1});
  for (size_t i = 0; i < ends.size(); ++i) {
    if (is_end(ends[i]))
      banned[static_cast<size_t>(ends[i])] = allowed.ends ? ends_before[i] : uint8_t{1};
  }
}

} // namespace dllm::text
