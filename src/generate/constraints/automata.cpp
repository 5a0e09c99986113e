#include "generate/constraints/automata.h"

#include <algorithm>

namespace dllm::generate {
namespace {

constexpr size_t kMostKnown = 16;

} // namespace

Automata::Compiled Automata::find(const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(known_, pattern, [](const auto& row) { return row.first; });
  return found != known_.end() ? found->second : nullptr;
}

std::shared_ptr<const text::TokenBytes> Automata::tokens(const Task* task) {
  const auto reading = lock_with_task(reads_bytes_, task);
  if (tokens_ == nullptr) tokens_ = std::make_shared<const text::TokenBytes>(*tokenizer_, task);
  return tokens_;
}

std::shared_ptr<const text::TokenAutomaton> Automata::get(const std::string& pattern,
                                                          const Task* task) {
  if (const Compiled known = find(pattern)) return known;
  const auto made = std::make_shared<const text::TokenAutomaton>(pattern, tokens(task), task);
  const std::lock_guard lock(mutex_);
  known_.emplace_back(pattern, made);
  if (known_.size() > kMostKnown) known_.pop_front();
  return made;
}

} // namespace dllm::generate
