// nf4 of bitsandbytes (QLoRA, Dettmers et al. 2023), see bits4.h.

#include "tensor/formats/bits4.h"

namespace dllm {

extern const WeightFormat kFormatNf4;
constinit const WeightFormat kFormatNf4 =
    formats::BlockFunctions<formats::Bits4Block<formats::kNf4Levels>>::format(
        "nf4", "4-bit quantiles of a normal distribution, one f32 scale per 64 numbers of a row "
               "(bitsandbytes)");

} // namespace dllm
