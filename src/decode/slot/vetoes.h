#pragma once
// Vetoes are the tokens that a constraint refuses in one step of a request. A pass predicts none of
// the tokens that its canvas refuses. A token is checked again, with the other tokens of its step,
// when the policy writes it. A position whose token is refused then is predicted again without it.

#include "decode/pass/pass.h"
#include "decode/request/constraint.h"
#include "decode/request/request.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dllm::decode {

class Vetoes {
public:
  // banned (vocab): tokens that are never drawn. The constraint outlives the vetoes.
  Vetoes(const Constraint& constraint, const std::vector<uint8_t>& banned, int32_t mask_id)
      : constraint_(constraint), banned_(std::make_shared<const std::vector<uint8_t>>(banned)),
        mask_id_(mask_id) {}

  bool allows(const Request& canvas, int64_t position, int32_t token) const {
    return constraint_.allows(canvas, position, token);
  }
  // Bans the tokens that are refused at each position. Fails with failed_precondition if no token
  // is left at one of them.
  void ban_refused(const Request& canvas, std::span<const int64_t> positions,
                   const Workers& workers = {});
  // Does the same at one position, and bans `token` there in any case.
  void ban(const Request& canvas, int64_t position, int32_t token);

  // Returns the positions whose predicted tokens are refused, ascending, and bans what is refused
  // there.
  std::vector<int64_t> of_predictions(const Request& request,
                                      std::span<const Prediction> predictions);
  // Returns the same for the tokens that a step wrote, checked from left to right. The step moved
  // no tokens. predictions: the predictions of the step.
  std::vector<int64_t> of_step(const Request& before, const Request& after,
                               std::span<const Prediction> predictions);

  // Returns the bans of each position.
  std::vector<BanRow> at(std::span<const int64_t> positions) const;

private:
  // own: the bans of the constraint at this position.
  void ban_at(int64_t position, BanRow own, std::optional<int32_t> token);

  const Constraint& constraint_;
  BanRow banned_;
  int32_t mask_id_;
  std::map<int64_t, BanRow> at_; // by position
};

} // namespace dllm::decode
