#include "handles.h"

#include "text/answer/answer.h"

#include <vector>

using namespace dllm;
using namespace dllm::abi;

namespace {

using text::PositionState;

// Returns the states of the caller. Fails for a number that is not a state.
std::vector<PositionState> known_states(const uint8_t* states, int64_t count) {
  static_assert(static_cast<int>(PositionState::masked) == DLLM_MASKED &&
                static_cast<int>(PositionState::fixed) == DLLM_FIXED);
  std::vector<PositionState> known;
  for (const uint8_t state : need_array(states, count, "states")) {
    if (state > DLLM_FIXED) {
      fail_with_hint("states are DLLM_MASKED to DLLM_FIXED", Code::invalid_argument,
                     "states[{}] is {}", known.size(), state);
    }
    known.push_back(static_cast<PositionState>(state));
  }
  return known;
}

} // namespace

dllm_status dllm_answer_new(const dllm_tokenizer* tok, const dllm_options* opts, dllm_answer** out,
                            dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_answer(need(tok, "tok").object, options_of(opts, "answer"));
  });
}

void dllm_answer_release(dllm_answer* answer) {
  release(answer);
}

dllm_status dllm_answer_update(dllm_answer* answer, const int32_t* ids, const uint8_t* states,
                               int64_t count, int32_t* out_end, dllm_error* err) {
  return guard(err, [&] {
    text::Answer& object = need_own(answer, "answer").object;
    const auto canvas = need_array(ids, count, "ids");
    const text::AnswerEnd end =
        object.update({canvas.begin(), canvas.end()}, known_states(states, count));
    if (out_end != nullptr) *out_end = static_cast<int32_t>(end);
  });
}

dllm_status dllm_answer_text(dllm_answer* answer, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill(out, need_own(answer, "answer").object.text()); });
}

dllm_status dllm_answer_next(dllm_answer* answer, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    text::Answer& object = need_own(answer, "answer").object;
    need(out, "out"); // a text that is returned once must not be lost
    fill(out, object.next());
  });
}

dllm_status dllm_answer_cells(dllm_answer* answer, dllm_buffer* out_text, int64_t* dst,
                              int64_t dst_count, int64_t* out_count, dllm_error* err) {
  return guard(err, [&] {
    std::string all;
    std::vector<int64_t> ends;
    for (const std::string& cell : need_own(answer, "answer").object.cells()) {
      all += cell;
      ends.push_back(static_cast<int64_t>(all.size()));
    }
    need(out_text, "out_text");
    copy_out(std::span<const int64_t>(ends), dst, dst_count, out_count, "dst");
    fill(out_text, std::move(all), "out_text");
  });
}
