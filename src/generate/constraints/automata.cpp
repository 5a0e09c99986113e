#include "generate/constraints/automata.h"

#include <algorithm>

namespace dllm::generate {
namespace {

constexpr size_t kMostKnown = 16;

} // namespace

std::shared_ptr<const text::TokenAutomaton> Automata::get(const std::string& pattern,
                                                          const Task* task) {
  const auto found = std::ranges::find(known_, pattern, [](const auto& row) { return row.first; });
  if (found != known_.end()) return found->second;
  if (tokens_ == nullptr) tokens_ = std::make_shared<const text::TokenBytes>(*tokenizer_, task);
  auto made = std::make_shared<const text::TokenAutomaton>(pattern, tokens_, task);
  known_.emplace_back(pattern, made);
  if (known_.size() > kMostKnown) known_.pop_front();
  return made;
}

} // namespace dllm::generate
