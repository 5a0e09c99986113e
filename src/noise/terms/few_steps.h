#pragma once
// Few-step distillation: the student matches several steps of its teacher in one (Deschenaux &
// Gulcehre 2024, self-distillation through time). A row of time t is decoded by the teacher from t
// to t - steps / of. A token is compared with the teacher's distribution at the step that reveals
// the token.

#include "base/options.h"
#include "noise/terms/term.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::noise {

class FewSteps {
public:
  // Fails with invalid_argument for options that exclude each other.
  explicit FewSteps(const Options& options);
  static std::vector<OptionSpec> option_rows();
  // Fails with invalid_argument for an objective without masks that the teacher could reveal.
  static void check(const TermUse& use);

  bool is_on() const { return steps_ > 1; }
  // Draws the step that reveals each masked token, and the number that chooses its token.
  void prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const;
  bool is_prepared(const Batch& prepared) const;
  // Adds the arrays of the graph. `positions` are those that the head rows predict, in the whole
  // batch, of which the first `count` are in use.
  void feed(const Batch& prepared, std::span<const int32_t> positions, size_t count,
            Batch& feed) const;

  // What the head rows are compared with.
  struct Targets {
    graph::Value states; // f32(capacity, hidden), of the teacher
    graph::Value counts; // f32(capacity): 1: the row is compared
  };
  // Runs the steps of the teacher. rows: i32(capacity), the states that predict the head rows.
  // is_predicted: u8(capacity), 0: the teacher has no such state.
  Targets build(const TermInputs& inputs, graph::Value rows, graph::Value is_predicted) const;

private:
  graph::Value drawn(const TermInputs& inputs, graph::Value states) const;

  int64_t steps_, of_;
  bool rest_;
  int64_t mask_id_;
};

} // namespace dllm::noise
