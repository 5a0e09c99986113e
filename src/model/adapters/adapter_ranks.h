#pragma once
// The ranks of an adapter's matrices, and the factors of their products: the forms of kinds that
// have ranks.

#include "model/adapters/kinds/adapter_kind.h"
#include "model/params/part.h"
#include "text/tokenizer/regex.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

inline constexpr double kMostDropout = 0.99;

class AdapterRanks : public AdapterForms {
public:
  // Fails with invalid_argument for a rank below 1, an alpha that is not finite, and a pattern that
  // is not a regular expression. `what` names the settings in errors.
  AdapterRanks(AdapterSettings settings, const std::string& what);

  const AdapterSettings& settings() const { return settings_; }
  int64_t rank(const std::string& module) const;
  // Returns the factor of the product B A.
  double factor(const std::string& module) const;
  AdapterForm form(const AdapterModule& module) const override;
  std::string unmatched(const std::vector<AdapterModule>& modules) const override;

private:
  template <class T> using Patterns = std::vector<std::pair<text::Regex, T>>;

  AdapterSettings settings_;
  Patterns<int64_t> ranks_;
  Patterns<double> alphas_;
};

} // namespace dllm::model
