#pragma once
// What the handlers of families/ share: logits of a checkpoint, and a request of a decoder against
// a recorded canvas.

#include "decode/decoder/decoder.h"
#include "handlers/decoding/sampler_case.h"
#include "model/model.h"
#include "runner.h"

#include <cstdint>
#include <string>

namespace dllm::parity {

Ids family_ids(const Tensor& array); // all its numbers in one line
// Token ids of a case: null none, a number one, a list all of it; and the same as an option's text.
Ids case_ids(const Json& value);
std::string list_text(const Ids& ids);

// `array` against the logits of input_ids; settings: of forward_schema, shift is 0.
void compare_forward(Case& c, model::Model& model, const Json& entry, const Json& settings,
                     const std::string& array);

// Logits f32(seq, vocab) of a canvas, every position up to the limit of its span.
Tensor span_logits(model::Model& model, const Ids& ids, const decode::AttentionSpan& span);

// Positions from `begin` on of the only request hold these ids.
void compare_canvas(Case& c, const decode::Decoder& decoder, int64_t begin, const Ids& want,
                    int64_t call);

} // namespace dllm::parity
