#pragma once
// The rank of an adapter's matrices, and the factor of their product, for each module.

#include "model/params/part.h"
#include "text/tokenizer/regex.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

inline constexpr double kMostDropout = 0.99;

class AdapterRanks {
public:
  // Fails with invalid_argument for a rank below 1, an alpha that is not finite, and a pattern that
  // is not a regular expression. `what` names the settings in errors.
  AdapterRanks(AdapterSettings settings, const std::string& what);

  const AdapterSettings& settings() const { return settings_; }
  int64_t rank(const std::string& module) const;
  // Returns the factor of the product B A.
  double factor(const std::string& module) const;
  // Returns the first pattern that matches none of these modules, as in 'rank_pattern "q_prj"'; ""
  // when each matches one.
  std::string unmatched(const std::vector<std::string>& modules) const;

private:
  template <class T> using Patterns = std::vector<std::pair<text::Regex, T>>;

  AdapterSettings settings_;
  Patterns<int64_t> ranks_;
  Patterns<double> alphas_;
};

} // namespace dllm::model
