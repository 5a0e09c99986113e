#include "decode/trace.h"

#include <nlohmann/json.hpp>

namespace dllm::decode {

std::string trace_line(const Slot& slot, std::span<const int64_t> decided) {
  nlohmann::ordered_json line = {{"slot", slot.number},
                                 {"block", slot.block},
                                 {"step", slot.steps},
                                 {"nfe", slot.evaluations},
                                 {"open", slot.open_count(0, slot.length())},
                                 {"decided", std::vector<int64_t>(decided.begin(), decided.end())},
                                 {"ids", slot.ids}};
  std::vector<int> states;
  for (State state : slot.states) states.push_back(static_cast<int>(state));
  line["states"] = states;
  line["confidence"] = slot.confidence;
  return line.dump() + "\n";
}

} // namespace dllm::decode
