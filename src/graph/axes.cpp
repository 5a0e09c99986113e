#include "graph/axes.h"

namespace dllm::graph {

const char* axis_name(Axis axis) {
  switch (axis) {
  case Axis::data: return "data";
  case Axis::fsdp: return "fsdp";
  case Axis::tensor: return "tensor";
  case Axis::sequence: return "sequence";
  case Axis::expert: return "expert";
  }
  return "unknown";
}

std::string AxisSet::text() const {
  std::string text = "{";
  for (int i = 0; i < kAxisCount; ++i) {
    if (!has(static_cast<Axis>(i))) continue;
    if (text.size() > 1) text += ", ";
    text += axis_name(static_cast<Axis>(i));
  }
  return text + "}";
}

} // namespace dllm::graph
