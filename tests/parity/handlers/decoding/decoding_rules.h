#pragma once
// Cases of decoding_misc that need no model: logits are given.

#include "runner.h"

namespace dllm::parity {

void run_select(Case& c, const Json& entry); // select.*: which positions one step decides
void run_credit(Case& c, const Json& entry); // credit.*: several steps of credit decoding

} // namespace dllm::parity
