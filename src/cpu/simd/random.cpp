#include "cpu/simd/random.h"

#include "cpu/simd/targets.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using U32 = hn::ScalableTag<uint32_t>;
using V32 = hn::Vec<U32>;

// One round: x0 += x1, then x1 = rotate(x1) ^ x0.
template <int kBits> HWY_INLINE void Round(V32& x0, V32& x1) {
  x0 = hn::Add(x0, x1);
  x1 = hn::Xor(hn::Or(hn::ShiftLeft<kBits>(x1), hn::ShiftRight<32 - kBits>(x1)), x0);
}

template <int kA, int kB, int kC, int kD> HWY_INLINE void Rounds(V32& x0, V32& x1) {
  Round<kA>(x0, x1);
  Round<kB>(x0, x1);
  Round<kC>(x0, x1);
  Round<kD>(x0, x1);
}

// Returns the words of the counters (hi, lo), one for each lane.
HWY_INLINE V32 Words(const uint32_t (&schedule)[3], uint32_t hi, V32 lo) {
  const U32 d;
  V32 x0 = hn::Set(d, hi + schedule[0]), x1 = hn::Add(lo, hn::Set(d, schedule[1]));
  const auto inject = [&](uint32_t group) HWY_ATTR {
    x0 = hn::Add(x0, hn::Set(d, schedule[group % 3]));
    x1 = hn::Add(x1, hn::Set(d, schedule[(group + 1) % 3] + group));
  };
  Rounds<13, 15, 26, 6>(x0, x1);
  inject(1);
  Rounds<17, 29, 16, 24>(x0, x1);
  inject(2);
  Rounds<13, 15, 26, 6>(x0, x1);
  inject(3);
  Rounds<17, 29, 16, 24>(x0, x1);
  inject(4);
  Rounds<13, 15, 26, 6>(x0, x1);
  inject(5);
  return hn::Xor(x0, x1);
}

// The counters hi:lo, hi:lo + 1, ... do not reach 2^32 in their lower word.
void RandomWords(Key key, uint32_t hi, uint32_t lo, uint32_t* dst, int64_t count) {
  constexpr uint32_t kParity = 0x1BD11BDA; // Skein's key schedule constant, 32-bit
  const uint32_t schedule[3] = {key.hi, key.lo, key.hi ^ key.lo ^ kParity};
  const U32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V32 step = hn::Iota(d, 0);
  HWY_ALIGN uint32_t last[hn::MaxLanes(d)];
  for (int64_t i = 0; i < count; i += lanes) {
    const V32 at = hn::Add(hn::Set(d, lo + static_cast<uint32_t>(i)), step);
    const V32 words = Words(schedule, hi, at);
    if (i + lanes <= count) {
      hn::StoreU(words, d, dst + i);
    } else {
      hn::Store(words, d, last);
      std::copy_n(last, count - i, dst + i);
    }
  }
}

} // namespace HWY_NAMESPACE
} // namespace dllm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dllm::cpu {

HWY_EXPORT(RandomWords);

void random_words(Key key, uint64_t first, uint32_t* dst, int64_t count) {
  constexpr uint64_t kWords = uint64_t{1} << 32; // counters with one upper word
  while (count > 0) {
    const auto lo = static_cast<uint32_t>(first);
    const auto now = static_cast<int64_t>(std::min<uint64_t>(count, kWords - lo));
    HWY_DYNAMIC_DISPATCH(RandomWords)
    (key, static_cast<uint32_t>(first >> 32), lo, dst, now);
    first += static_cast<uint64_t>(now);
    dst += now;
    count -= now;
  }
}

} // namespace dllm::cpu
#endif
