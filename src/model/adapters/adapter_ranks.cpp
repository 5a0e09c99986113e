#include "model/adapters/adapter_ranks.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

constexpr int64_t kMostRank = 1 << 16;

void check_rank(int64_t rank, const std::string& what) {
  if (rank < 1 || rank > kMostRank)
    fail(Code::invalid_argument, "{}: rank {} is not in 1 to {}", what, rank, kMostRank);
}

void check_alpha(double alpha, const std::string& what) {
  if (!std::isfinite(alpha) || alpha < 0 || alpha > 1e9)
    fail(Code::invalid_argument, "{}: alpha {} is not in 0 to 1e9", what, alpha);
}

text::Regex module_pattern(const std::string& key, const std::string& what) {
  return {fmt::format("^(?:.*\\.)?(?:{})\\z", key), what + ": " + key};
}

bool matches(const text::Regex& pattern, const std::string& module) {
  text::Regex::Search search(pattern, module);
  size_t begin, end;
  return search.next(begin, end);
}

// Returns the value of the first pattern that matches, else `otherwise`.
template <class T>
T value_of(const std::vector<std::pair<text::Regex, T>>& patterns, const std::string& module,
           T otherwise) {
  for (const auto& pattern : patterns) {
    if (matches(pattern.first, module)) return pattern.second;
  }
  return otherwise;
}

// Returns the index of the first pattern that matches no module.
template <class T>
size_t first_unmatched(const std::vector<std::pair<text::Regex, T>>& patterns,
                       const std::vector<AdapterModule>& modules) {
  size_t i = 0;
  while (i < patterns.size() && std::ranges::any_of(modules, [&](const AdapterModule& module) {
           return matches(patterns[i].first, module.name);
         }))
    ++i;
  return i;
}

} // namespace

AdapterRanks::AdapterRanks(AdapterSettings settings, const std::string& what)
    : settings_(std::move(settings)) {
  check_rank(settings_.rank, what);
  check_alpha(settings_.alpha, what);
  for (const auto& [key, rank] : settings_.rank_pattern) {
    check_rank(rank, what);
    ranks_.emplace_back(module_pattern(key, what), rank);
  }
  for (const auto& [key, alpha] : settings_.alpha_pattern) {
    check_alpha(alpha, what);
    alphas_.emplace_back(module_pattern(key, what), alpha);
  }
}

int64_t AdapterRanks::rank(const std::string& module) const {
  return value_of(ranks_, module, settings_.rank);
}

double AdapterRanks::factor(const std::string& module) const {
  const auto own = static_cast<double>(rank(module));
  return value_of(alphas_, module, settings_.alpha) /
         (settings_.is_stabilised ? std::sqrt(own) : own);
}

AdapterForm AdapterRanks::form(const AdapterModule& module) const {
  return {rank(module.name), factor(module.name)};
}

std::string AdapterRanks::unmatched(const std::vector<AdapterModule>& modules) const {
  const size_t rank = first_unmatched(ranks_, modules), alpha = first_unmatched(alphas_, modules);
  if (rank < ranks_.size())
    return fmt::format("rank_pattern \"{}\"", settings_.rank_pattern[rank].first);
  if (alpha < alphas_.size())
    return fmt::format("alpha_pattern \"{}\"", settings_.alpha_pattern[alpha].first);
  return {};
}

} // namespace dllm::model
