#include "decode/slot.h"

namespace dllm::decode {

const Schema& slot_schema() {
  static const Schema schema(
      "slot", {
                  option_i64("seed", 0, INT64_MIN, INT64_MAX, "The same seed gives the same tokens."),
                  option_i64("gen_length", -1, -1, 1 << 24, "Open positions after the canvas; -1: as the decoder's."),
                  option_f64("temperature", -1, -1, 100, "As the decoder's, for this request; -1: the decoder's."),
                  option_i64("top_k", -1, -1, 1 << 24, "As the decoder's, for this request; -1: the decoder's."),
                  option_f64("top_p", -1, -1, 1, "As the decoder's, for this request; -1: the decoder's."),
                  option_list("stop", {},
                              "Token ids: when one is decided and nothing before it is open, the rest becomes that token."),
              });
  return schema;
}

int64_t Slot::open_count(int64_t begin, int64_t end) const {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) count += states[static_cast<size_t>(i)] == State::masked;
  return count;
}

}  // namespace dllm::decode
