#pragma once
// How far the student's distribution of a token is from the teacher's: the graph of distillation. A
// new one is a value here, its name in distill.cpp, and its formula in divergence.cpp.

#include "model/network/builder.h"

namespace dllm::noise {

enum class DivergenceKind {
  forward,        // KL(teacher | student): the student covers what the teacher may say
  reverse,        // KL(student | teacher): the student says only what the teacher may say
  jensen_shannon, // the mean of both, each to the mean of the distributions
};

struct Divergence {
  DivergenceKind kind = DivergenceKind::forward;
  double temperature = 1; // divides the logits of both; the result is times temperature^2
};

// Returns the divergence of each row in nats, f32(rows). `student` and `teacher` are hidden states
// (rows, hidden). The student may have more tokens than the teacher: the divergence is of the
// tokens that both have. No gradient flows into the teacher.
graph::Value divergences(const Divergence& divergence, const model::Head& student_head,
                         graph::Value student, const model::Head& teacher_head,
                         graph::Value teacher);

// Returns the divergence from top logits: ids i32(rows, k) and logits f32(rows, k). The teacher's
// distribution is the softmax of these logits. Of kind reverse the student is compared within the k
// tokens, and -log of its mass on them is added: KL(student, teacher) is not finite.
graph::Value top_divergences(const Divergence& divergence, const model::Head& head,
                             graph::Value student, graph::Value top_ids, graph::Value top_logits);

} // namespace dllm::noise
