#pragma once
// Automata compiles the patterns of requests for one tokenizer, and keeps the last ones.

#include "base/task.h"
#include "text/automaton/token_automaton.h"

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace dllm::generate {

// Any thread may call it. A pattern that is being compiled does not hold up the others.
class Automata {
public:
  explicit Automata(std::shared_ptr<const text::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  // Fails as text::TokenAutomaton. The first call reads the bytes of all tokens.
  std::shared_ptr<const text::TokenAutomaton> get(const std::string& pattern, const Task* task);

private:
  using Compiled = std::shared_ptr<const text::TokenAutomaton>;

  Compiled find(const std::string& pattern);
  std::shared_ptr<const text::TokenBytes> tokens(const Task* task);

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::timed_mutex reads_bytes_;                       // of tokens_
  std::shared_ptr<const text::TokenBytes> tokens_;     // null before the first pattern
  std::mutex mutex_;                                   // of known_
  std::deque<std::pair<std::string, Compiled>> known_; // oldest first
};

} // namespace dllm::generate
