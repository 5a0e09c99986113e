#pragma once
// What a compiler made, for people: plugins hand their optimized program out as a protobuf message.

#include <string>
#include <string_view>

namespace dllm::pjrt {

// The computations of an HLO module as text, one instruction a line, the entry computation last:
//   %all-gather.3 = f32[32,4]{1,0} all-gather(%param.1), dimensions={0},
//   replica_groups={{0,2},{1,3}}
// format as PJRT names it: "hlo" or "hlo_with_config". Fails with data_loss for bytes that are no
// module, with unimplemented for another format.
std::string hlo_text(std::string_view bytes, std::string_view format);

} // namespace dllm::pjrt
