#pragma once
// x^y through double precision, written out so that every machine gives the same bits. Special
// cases as C's pow.

namespace dllm::cpu {

float power(float x, float y);

} // namespace dllm::cpu
