#include "model/adapters/adapter_ranks.h"

#include "base/error.h"

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

// Returns the value of the first pattern that matches, else `otherwise`.
template <class T>
T value_of(const std::vector<std::pair<text::Regex, T>>& patterns, const std::string& module,
           T otherwise) {
  for (const auto& pattern : patterns) {
    text::Regex::Search search(pattern.first, module);
    size_t begin, end;
    if (search.next(begin, end)) return pattern.second;
  }
  return otherwise;
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

} // namespace dllm::model
