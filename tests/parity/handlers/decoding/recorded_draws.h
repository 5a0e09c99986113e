#pragma once
// Random numbers of a reference in place of a decoder's own. Arrays u_gumbel f64(calls, batch,
// width, vocab): token = argmax of logit - temperature ln(-ln u); u_confidence f32(calls, batch,
// width): the largest are decided first.

#include "decode/request/request.h"
#include "runner.h"

#include <memory>

namespace dllm::parity {

// Null when the case has none. For a batch of one row.
std::shared_ptr<const decode::RandomSource> recorded_draws(Case& c);

} // namespace dllm::parity
