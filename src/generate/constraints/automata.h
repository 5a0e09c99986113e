#pragma once
// Automata compiles the patterns of requests for one tokenizer, and keeps the last ones. A pattern
// has an automaton for each set of tokens that may be drawn.

#include "base/task.h"
#include "text/automaton/token_automaton.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace dllm::generate {

// Any thread may call it. A pattern that is being compiled does not hold up the others.
class Automata {
public:
  explicit Automata(std::shared_ptr<const text::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  // banned: 1 for tokens that are not drawn inside a text; ids beyond it are not drawn either.
  // Fails as text::TokenAutomaton. The first call reads the bytes of all tokens.
  std::shared_ptr<const text::TokenAutomaton> get(const std::string& pattern,
                                                  text::Notation notation,
                                                  const std::vector<uint8_t>& banned,
                                                  const Task* task);

  using Trie = std::shared_ptr<const text::TokenTrie>;
  // Returns the tokens that may be drawn, with their bytes, for constraints without a pattern.
  Trie trie(const std::vector<uint8_t>& banned, const Task* task);

private:
  struct Compiled {
    std::string pattern;
    text::Notation notation;
    std::shared_ptr<const text::TokenAutomaton> automaton;
  };

  std::shared_ptr<const text::TokenAutomaton> find(const std::string& pattern,
                                                   text::Notation notation, const Trie& trie);

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::timed_mutex reads_tokens_;                           // of bytes_ and tries_
  std::shared_ptr<const text::TokenBytes> bytes_;           // null before the first pattern
  std::deque<std::pair<std::vector<uint8_t>, Trie>> tries_; // oldest first
  std::mutex mutex_;                                        // of known_
  std::deque<Compiled> known_;                              // last used one at the end
};

} // namespace dllm::generate
