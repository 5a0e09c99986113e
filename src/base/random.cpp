#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace dllm {

std::pair<uint32_t, uint32_t> threefry2x32(Key key, uint32_t x0, uint32_t x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr uint32_t kParity = 0x1BD11BDA; // Skein's key schedule constant, 32-bit
  const uint32_t ks[3] = {key.hi, key.lo, key.hi ^ key.lo ^ kParity};
  x0 += ks[0];
  x1 += ks[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, rotation) ^ x0;
    }
    x0 += ks[(group + 1) % 3];
    x1 += ks[(group + 2) % 3] + group + 1;
  }
  return {x0, x1};
}

Key make_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)};
}

Key fold_in(Key key, uint32_t data) {
  const auto [hi, lo] = threefry2x32(key, 0, data);
  return {hi, lo};
}

uint32_t random_bits_at(Key key, uint64_t index) {
  const auto [a, b] =
      threefry2x32(key, static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(index));
  return a ^ b;
}

namespace {

// The original layout cuts the counters 0..n-1 into two halves (an odd n is padded with 0), one for
// each counter word.
void original_bits(Key key, std::span<uint32_t> dst) {
  const size_t n = dst.size();
  const size_t half = (n + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    const size_t second = half + i;
    const auto [a, b] = threefry2x32(key, static_cast<uint32_t>(i),
                                     second < n ? static_cast<uint32_t>(second) : 0u);
    dst[i] = a;
    if (second < n) dst[second] = b;
  }
}

} // namespace

void random_bits(Key key, std::span<uint32_t> dst, CounterLayout layout) {
  if (layout == CounterLayout::original) return original_bits(key, dst);
  for (size_t i = 0; i < dst.size(); ++i) dst[i] = random_bits_at(key, i);
}

std::vector<Key> split(Key key, int64_t count, CounterLayout layout) {
  std::vector<Key> keys(static_cast<size_t>(count));
  if (layout == CounterLayout::partitionable) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto [hi, lo] = threefry2x32(key, 0, static_cast<uint32_t>(i));
      keys[i] = {hi, lo};
    }
    return keys;
  }
  std::vector<uint32_t> words(2 * keys.size());
  original_bits(key, words);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = {words[2 * i], words[2 * i + 1]};
  return keys;
}

float uniform_from_bits(uint32_t bits) {
  return std::bit_cast<float>((bits >> 9) | 0x3F800000u) - 1.0f;
}

void random_uniform(Key key, std::span<float> dst, CounterLayout layout) {
  if (layout == CounterLayout::partitionable) {
    for (size_t i = 0; i < dst.size(); ++i) dst[i] = uniform_from_bits(random_bits_at(key, i));
    return;
  }
  std::vector<uint32_t> bits(dst.size());
  original_bits(key, bits);
  for (size_t i = 0; i < dst.size(); ++i) dst[i] = uniform_from_bits(bits[i]);
}

void random_int(Key key, std::span<int32_t> dst, int32_t low, int32_t high, CounterLayout layout) {
  // With two words per element the remainder is nearly unbiased (jax.random.randint).
  const std::vector<Key> keys = split(key, 2, layout);
  std::vector<uint32_t> high_bits(dst.size()), low_bits(dst.size());
  random_bits(keys[0], high_bits, layout);
  random_bits(keys[1], low_bits, layout);
  const uint32_t range = high > low ? static_cast<uint32_t>(int64_t{high} - low) : 1u;
  uint32_t multiplier = 65536u % range;
  multiplier = multiplier * multiplier % range;
  for (size_t i = 0; i < dst.size(); ++i) {
    const uint32_t offset = (high_bits[i] % range * multiplier + low_bits[i] % range) % range;
    dst[i] = static_cast<int32_t>(static_cast<uint32_t>(low) + offset);
  }
}

Key stream_key(uint64_t seed, Stream stream, uint64_t step, uint64_t row) {
  Key key = fold_in(make_key(seed), static_cast<uint32_t>(stream));
  for (uint64_t word : {step, row}) {
    key = fold_in(key, static_cast<uint32_t>(word >> 32));
    key = fold_in(key, static_cast<uint32_t>(word));
  }
  return key;
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  double r = std::sqrt(-std::log(std::min(p, 1 - p)));
  double z;
  if (r <= 5) {
    r -= 1.6;
    z = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
        ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  } else {
    r -= 5;
    z = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
        ((0.012258202635 * r + 0.24197894225) * r + 1.0);
  }
  return q < 0 ? -z : z;
}

} // namespace dllm
