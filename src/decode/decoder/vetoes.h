#pragma once
// What a constraint refuses in one step of a request. A token is checked when it was predicted, and
// again when the policy wrote it next to the other tokens of its step; a position whose token is
// refused is predicted again without it, so that a step ends with tokens that are allowed together.

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
  // banned (vocab): what the request never draws. Both references outlive it.
  Vetoes(const Constraint& constraint, const std::vector<uint8_t>& banned, int32_t mask_id)
      : constraint_(constraint), banned_(banned), mask_id_(mask_id) {}

  // Positions whose predicted tokens are refused, ascending: more is banned there now. Fails with
  // failed_precondition where no token is left. The bans grow in every round, so rounds come to an end.
  std::vector<int64_t> of_predictions(const Request& request,
                                      std::span<const Prediction> predictions);
  // The same of what a step wrote, from left to right; predictions: those it was made from. Fails with
  // failed_precondition for a final token that is refused and was not drawn.
  std::vector<int64_t> of_step(const Request& before, const Request& after,
                               std::span<const Prediction> predictions);

  // Positions with the same bans.
  struct Group {
    std::vector<uint8_t> banned; // (vocab)
    std::vector<int64_t> positions;
  };
  std::vector<Group> groups(std::span<const int64_t> positions) const;

private:
  bool add(const Request& request, int64_t position, int32_t token);

  const Constraint& constraint_;
  const std::vector<uint8_t>& banned_;
  int32_t mask_id_;
  std::map<int64_t, std::vector<uint8_t>> at_; // (vocab) by position
};

} // namespace dllm::decode
