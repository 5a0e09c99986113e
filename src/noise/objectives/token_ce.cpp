#include "base/error.h"
#include "noise/objectives/table.h"

namespace dllm::noise {
namespace {

// For scripts and tests: the batch brings ids, targets and weights, this brings the loss.
class TokenCe final : public Objective {
public:
  TokenCe(ScheduleRef schedule, const Options& options) : Objective(std::move(schedule), options) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  Batch prepare(const Batch&, uint64_t, int64_t, const PrepareContext&) const override {
    fail_with_hint("fill targets (-1: not counted) and weights, each (batch, seq)",
                   Code::invalid_argument, "objective token_ce takes prepared batches only");
  }

private:
  std::string name_ = "token_ce";
};

} // namespace

ObjectiveEntry objective_files::token_ce() {
  return {"token_ce", "linear", shared_objective_options(), new_objective<TokenCe>};
}

} // namespace dllm::noise
