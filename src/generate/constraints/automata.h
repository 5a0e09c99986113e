#pragma once
// Automata compiles the patterns of requests for one tokenizer, and keeps the last ones.

#include "base/task.h"
#include "text/automaton/token_automaton.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace dllm::generate {

// One call at a time.
class Automata {
public:
  explicit Automata(std::shared_ptr<const text::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  // Fails as text::TokenAutomaton. The first call reads the bytes of all tokens.
  std::shared_ptr<const text::TokenAutomaton> get(const std::string& pattern, const Task* task);

private:
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::TokenBytes> tokens_;
  std::deque<std::pair<std::string, std::shared_ptr<const text::TokenAutomaton>>> known_;
};

} // namespace dllm::generate
