#pragma once
// The teacher of a loss: a network that the student is compared with. It is not trained, and no
// gradient flows into it.

#include "base/options.h"
#include "model/network/builder.h"
#include "tensor/batch.h"

#include <map>
#include <string>
#include <vector>

namespace dllm::noise {

enum class TeacherKind {
  base,  // the model without its adapters
  model, // the part "teacher" of the model
  rows,  // numbers that the batch holds
};

// Tokens that the teacher sees.
enum class TeacherInput { clean, noised };

// Array of prepared rows, i32(batch, seq): the tokens before they were corrupted.
inline constexpr const char* kCleanIds = "clean_ids";
// Returns that array. Without it the tokens are made of ids and targets.
Tensor clean_ids(const Batch& prepared);

class Teacher {
public:
  explicit Teacher(const Options& options);

  static std::vector<OptionSpec> option_rows();
  TeacherKind kind() const { return kind_; }
  // Returns the parts of the model that the teacher reads in addition to the base.
  std::vector<std::string> parts() const;

  // Fails with failed_precondition when the model lacks adapters that would make its base a
  // teacher.
  void check(const model::Model& model) const;
  // Adds the arrays of the teacher's pass.
  void feed(const Batch& prepared, Batch& feed) const;
  // Returns the teacher's network.
  model::Builder& network(model::Builder& builder) const;
  // Returns the teacher's pass. `tap_rows` as in ForwardInputs. Terms with the same input share a
  // pass.
  const model::ForwardOutputs& forward(model::Builder& builder,
                                       const std::map<std::string, graph::Value>& arrays,
                                       TeacherInput input, graph::Value tap_rows);
  // Returns a pass over other tokens in the places of the rows, i32(batch, seq).
  model::ForwardOutputs forward_over(model::Builder& builder,
                                     const std::map<std::string, graph::Value>& arrays,
                                     graph::Value ids, graph::Value tap_rows = {}) const;
  // Returns the input of a comparison of logits: what option teacher_input says; auto: clean tokens
  // for a causal teacher, and the student's tokens for others.
  TeacherInput input(model::Builder& builder) const;
  model::AttentionKind attention(model::Builder& builder) const;
  // Returns 1 when the state before a token predicts it, as in every causal teacher.
  int shift(model::Builder& builder) const;

private:
  TeacherKind kind_;
  std::string attention_, input_;
  std::map<TeacherInput, model::ForwardOutputs> passes_; // of one graph
};

} // namespace dllm::noise
