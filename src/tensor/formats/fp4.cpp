// fp4 of bitsandbytes, see bits4.h.

#include "tensor/formats/bits4.h"

namespace dllm {

extern const WeightFormat kFormatFp4;
constinit const WeightFormat kFormatFp4 =
    formats::BlockFunctions<formats::Bits4Block<formats::kFp4Levels>>::format(
        "fp4", "4-bit floats, one f32 scale per 64 numbers of a row (bitsandbytes)");

} // namespace dllm
