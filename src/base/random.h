#pragma once
// Counter-based random numbers: threefry 2x32 with 20 rounds (Salmon et al., SC 2011), bit-equal to jax.random's
// default generator with jax_threefry_partitionable = true (the "partitionable" counter layout; the older layout is
// kept for goldens). Every draw is a pure function of a key: same numbers on any thread count and back end.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dllm {

struct Key {
  uint32_t hi = 0;
  uint32_t lo = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

enum class CounterLayout { partitionable, original };

// One block of the cipher: two counter words in, two random words out.
std::pair<uint32_t, uint32_t> threefry2x32(Key key, uint32_t x0, uint32_t x1);

Key make_key(uint64_t seed);         // jax.random.PRNGKey of a 64-bit seed
Key fold_in(Key key, uint32_t data); // jax.random.fold_in
std::vector<Key> split(Key key, int64_t count, CounterLayout layout = CounterLayout::partitionable);

// 32 random bits per element of a flat array of dst.size(); element i depends on (key, i) alone in the partitionable
// layout, and on the size too in the original one.
void random_bits(Key key, std::span<uint32_t> dst,
                 CounterLayout layout = CounterLayout::partitionable);
// The single element `index` of the partitionable layout.
uint32_t random_bits_at(Key key, uint64_t index);
// Uniform in [0, 1): the top 23 bits as a mantissa (jax.random.uniform, float32).
float uniform_from_bits(uint32_t bits);
void random_uniform(Key key, std::span<float> dst,
                    CounterLayout layout = CounterLayout::partitionable);
// Integers in [low, high), as jax.random.randint with int32.
void random_int(Key key, std::span<int32_t> dst, int32_t low, int32_t high,
                CounterLayout layout = CounterLayout::partitionable);

// The library's own keys: one stream per purpose, then step, then global row, so that any batch cut and any mesh
// draws the same numbers. Streams are numbered here and never renumbered.
enum class Stream : uint32_t {
  init = 1,    // model initialisation
  shuffle = 2, // loader order
  time = 3,    // noise level of a row
  mask = 4,    // which tokens are corrupted
  dropout = 5,
  decode = 6, // sampling: per request, step, position
  rollout = 7,
  script = 8, // math.random of Lua
};
Key stream_key(uint64_t seed, Stream stream, uint64_t step, uint64_t row);

// Quantile of the standard normal distribution. p in (0, 1); relative error about 1e-7 (algorithm AS 241, PPND7: M. J. Wichura, Applied
// Statistics 37, 1988). Arithmetic, square root and log in double: rounded to f32 it is the same on
// any machine.
double normal_quantile(double p);

} // namespace dllm
