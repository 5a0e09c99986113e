#pragma once
// What the handlers of edit flows share: rows of the references in our words, alignments, the
// outputs of the heads.

#include "base/json.h"
#include "model/model.h"
#include "noise/objective.h"
#include "runner.h"
#include "tensor/batch.h"

#include <string>
#include <vector>

namespace dllm::parity {

// The objective with the settings of a case (scheduler, max_w, normalize_per_position).
noise::ObjectiveRef reference_editflow(const Json& settings, const std::string& compat);

// x_1 and x_0 i32(batch, any), negative behind a row's end; t f32(batch), 0 at the start; the
// uniform number of each column of a row.
struct EditRows {
  Tensor clean, start, t;
  std::vector<std::vector<float>> columns;
};
Batch prepare_edits(const noise::Objective& objective, const model::Model& model,
                    const EditRows& rows);
// tokens, mask i32(batch, any): x_t and 1 where it is.
void check_edit_rows(Case& c, const Batch& prepared, const Tensor& tokens, const Tensor& mask);
// sub_logits, ins_logits, sub_rate_hat, del_rate_hat, ins_rate_hat of the case.
void check_edit_heads(Case& c, Tolerance tolerance, const Batch& heads);
// x0, x1, z0, z1, zt, edits.
void check_alignment(Case& c, const Json& entry);

} // namespace dllm::parity
