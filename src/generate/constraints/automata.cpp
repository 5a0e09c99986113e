#include "generate/constraints/automata.h"

#include <algorithm>

namespace dllm::generate {
namespace {

constexpr size_t kMostKnown = 16, kMostTries = 4;

} // namespace

std::shared_ptr<const text::TokenAutomaton>
Automata::find(const std::string& pattern, text::Notation notation, const Trie& trie) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(known_, [&](const Compiled& row) {
    return row.pattern == pattern && row.notation == notation &&
           &row.automaton->trie() == trie.get();
  });
  if (found == known_.end()) return nullptr;
  std::rotate(found, found + 1, known_.end()); // the last used one is released last
  return known_.back().automaton;
}

Automata::Trie Automata::trie(const std::vector<uint8_t>& banned, const Task* task) {
  const auto reading = lock_with_task(reads_tokens_, task);
  if (bytes_ == nullptr) bytes_ = std::make_shared<const text::TokenBytes>(*tokenizer_, task);
  for (const auto& [own, trie] : tries_) {
    if (own == banned) return trie;
  }
  const auto made = std::make_shared<const text::TokenTrie>(bytes_, banned);
  tries_.emplace_back(banned, made);
  if (tries_.size() > kMostTries) tries_.pop_front();
  return made;
}

std::shared_ptr<const text::TokenAutomaton> Automata::get(const std::string& pattern,
                                                          text::Notation notation,
                                                          const std::vector<uint8_t>& banned,
                                                          const Task* task) {
  const Trie tokens = trie(banned, task);
  if (auto known = find(pattern, notation, tokens)) return known;
  const auto made = std::make_shared<const text::TokenAutomaton>(pattern, tokens, task, notation);
  const std::lock_guard lock(mutex_);
  known_.push_back({pattern, notation, made});
  if (known_.size() > kMostKnown) known_.pop_front();
  return made;
}

} // namespace dllm::generate
