#pragma once
// Small traces for the tests of the pictures.

#include "cli/pictures/pictures.h"

#include <string>

namespace dllm::cli {

// Three steps of five positions: one given, one provisional in step 2, one still open at the end.
inline const char* const kLines =
    R"({"model":"runs/x","mask_id":9,"tokens":{"1":"the","2":" <b>&\"cat\"","3":"\n","4":" 猫","9":"<mask>"}}
{"slot":0,"block":0,"step":1,"nfe":1,"open":3,"decided":[1],"ids":[1,2,9,9,9],"states":[3,2,0,0,0],"confidence":[1,0.5,0,0,0]}
{"slot":0,"block":0,"step":2,"nfe":2,"open":2,"decided":[2],"ids":[1,2,3,9,9],"states":[3,2,1,0,0],"confidence":[1,0.5,0.25,0,0]}
{"slot":0,"block":0,"step":3,"nfe":3,"open":1,"decided":[2,3],"ids":[1,2,3,4,9],"states":[3,2,2,2,0],"confidence":[1,0.5,0.75,1,0]}
)";

// A slot of `steps` steps that decides one of `positions` positions a step, from left to right.
inline Trace long_trace(size_t steps, size_t positions) {
  Trace trace;
  trace.slots.push_back({0, {}});
  for (size_t s = 1; s <= steps; ++s) {
    TraceStep step;
    step.step = step.evaluations = static_cast<int64_t>(s);
    for (size_t i = 0; i < positions; ++i) {
      const bool open = i >= s;
      step.open += open ? 1 : 0;
      step.ids.push_back(open ? 0 : static_cast<int32_t>(i % 50 + 1));
      step.states.push_back(open ? 0 : 2);
      step.confidence.push_back(open ? 0.0f : static_cast<float>(i % 10) / 10);
    }
    trace.slots[0].steps.push_back(step);
  }
  return trace;
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

} // namespace dllm::cli
