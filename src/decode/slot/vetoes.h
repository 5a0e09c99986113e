#pragma once
// Vetoes are the tokens that a constraint refuses in one step of a request. A token is checked when
// it is predicted, and again with the other tokens of its step when the policy writes it. A
// position whose token is refused is predicted again without it, so the tokens that a step writes
// are allowed together.

#include "decode/pass/pass.h"
#include "decode/request/constraint.h"
#include "decode/request/request.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace dllm::decode {

class Vetoes {
public:
  // banned (vocab): tokens that are never drawn. The vetoes keep both references.
  Vetoes(const Constraint& constraint, const std::vector<uint8_t>& banned, int32_t mask_id)
      : constraint_(constraint), banned_(banned), mask_id_(mask_id) {}

  // Returns the positions whose predicted tokens are refused, ascending, and bans more tokens
  // there. Fails with failed_precondition if no token is left at a position. The bans of a position
  // grow in every round, and start again at most kMostStarts times, so the rounds end.
  std::vector<int64_t> of_predictions(const Request& request,
                                      std::span<const Prediction> predictions);
  // Returns the same for the tokens that a step wrote, checked from left to right. predictions: the
  // predictions of the step. Fails with failed_precondition if a final token is refused and was not
  // drawn.
  std::vector<int64_t> of_step(const Request& before, const Request& after,
                               std::span<const Prediction> predictions);

  // Positions that have the same bans.
  struct Group {
    std::vector<uint8_t> banned; // (vocab)
    std::vector<int64_t> positions;
  };
  // Groups positions by their bans.
  std::vector<Group> groups(std::span<const int64_t> positions) const;

private:
  static constexpr int kMostStarts = 32;

  // The bans of a position, and how often they began again.
  struct Bans {
    std::vector<uint8_t> banned; // (vocab)
    int starts = 0;
  };

  bool add(const Request& request, int64_t position, int32_t token);
  bool ban(Bans& bans, const Request& request, int64_t position, int32_t token) const;

  const Constraint& constraint_;
  const std::vector<uint8_t>& banned_;
  int32_t mask_id_;
  std::map<int64_t, Bans> at_; // by position
};

} // namespace dllm::decode
