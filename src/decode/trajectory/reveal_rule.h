#pragma once
// A reveal rule chooses the tokens that each row of a trajectory shows in addition to the row
// before. A new rule is a class in reveal_rule.cpp and a line of its table.

#include "base/options.h"
#include "decode/pass/pass.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// A row of a dataset, and what its trajectory shows so far.
struct RevealState {
  std::vector<int32_t> ids;   // the canvas: the mask token where a token is hidden
  std::vector<int32_t> order; // as text::Trajectory::order; -1: hidden
  int64_t first = 0;          // positions before it were never hidden
  int64_t hidden_first = 0;   // number of hidden tokens in row 0
  int64_t rows = 1;           // rows of the trajectory so far

  // Returns the hidden positions of [begin, end), ascending.
  std::vector<int64_t> hidden(int64_t begin, int64_t end) const;
  int64_t length() const { return static_cast<int64_t>(ids.size()); }
};

class RevealRule {
public:
  virtual ~RevealRule() = default;
  virtual bool reads_model() const { return true; }
  // Returns true when a token is shown as the model predicts it. false: as the dataset has it.
  virtual bool shows_predictions() const { return false; }
  // Returns the positions among which the rule chooses now. They are hidden, ascending, and there
  // is at least one while a position is hidden.
  virtual std::vector<int64_t> wanted(const RevealState& state) const {
    return state.hidden(0, state.length());
  }
  // Returns true when the row after the next one shows all that is left, as the pass of the next
  // row predicts it.
  virtual bool ends_after_next(const RevealState&) const { return false; }
  // Returns which of `wanted` the next row shows: indices, at least one. entropies: of the model at
  // these positions, in nats; empty for a rule that does not read the model.
  virtual std::vector<size_t> choose(const RevealState& state, std::span<const int64_t> wanted,
                                     std::span<const float> entropies) const = 0;
};

// Returns the rule of option method. options: of trajectory_schema(). Fails with invalid_argument
// for an option that is set and that the rule does not use.
std::unique_ptr<RevealRule> make_reveal_rule(const Options& options);
std::vector<std::string> reveal_rule_names();

} // namespace dllm::decode
