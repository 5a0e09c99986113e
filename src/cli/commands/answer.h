#pragma once
// What can be said of a canvas besides its text.

#include "../session.h"

#include <cstdint>
#include <string>

namespace dllm::cli {

// The text of a canvas with open positions; a run of N of them is written <mask:N>, as dllm infill reads it.
std::string text_with_holes(const dllm_tokenizer* tokenizer, const Canvas& canvas);

// How often the commonest of the tokens that were decided stands there; what follows the end token does not count.
struct Repeats {
  int64_t tokens = 0, same = 0;
};
Repeats most_repeated(const Canvas& canvas, int32_t end_token);

}  // namespace dllm::cli
