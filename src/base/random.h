#pragma once
// Draws counter-based random numbers with threefry 2x32, 20 rounds (Salmon et al., SC 2011).
// jax.random's default generator with jax_threefry_partitionable = true gives the same bits. Every
// draw is a pure function of its key, so the numbers do not depend on threads or engine. Goldens
// use jax's older counter layout, `original`.

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

// Returns two random words for two counter words: one block of the cipher.
std::pair<uint32_t, uint32_t> threefry2x32(Key key, uint32_t x0, uint32_t x1);

Key make_key(uint64_t seed);         // jax.random.PRNGKey of a 64-bit seed
Key fold_in(Key key, uint32_t data); // jax.random.fold_in
std::vector<Key> split(Key key, int64_t count, CounterLayout layout = CounterLayout::partitionable);

// Fills dst with 32 random bits per element. In the partitionable layout element i depends on (key,
// i) alone; in the original layout it also depends on dst.size().
void random_bits(Key key, std::span<uint32_t> dst,
                 CounterLayout layout = CounterLayout::partitionable);
// Returns element `index` of random_bits in the partitionable layout.
uint32_t random_bits_at(Key key, uint64_t index);
// Returns a number in [0, 1) whose mantissa is the top 23 bits (jax.random.uniform, float32).
float uniform_from_bits(uint32_t bits);
void random_uniform(Key key, std::span<float> dst,
                    CounterLayout layout = CounterLayout::partitionable);
// Fills dst with integers in [low, high), as jax.random.randint does for int32.
void random_int(Key key, std::span<int32_t> dst, int32_t low, int32_t high,
                CounterLayout layout = CounterLayout::partitionable);

// The purpose of random numbers. The library derives a key from a stream, a step and a global row,
// so that the cut of a batch does not change the numbers. The number of a stream never changes.
enum class Stream : uint32_t {
  init = 1,    // model initialisation
  shuffle = 2, // loader order
  time = 3,    // noise level of a row
  mask = 4,    // which tokens are corrupted
  dropout = 5,
  decode = 6, // sampling, by request, step and position
  rollout = 7,
  script = 8, // math.random of Lua
  align = 9,  // positions and layers of an alignment
};
Key stream_key(uint64_t seed, Stream stream, uint64_t step, uint64_t row);

// Returns the quantile of the standard normal distribution for p in (0, 1), with a relative error
// of about 1e-7 (algorithm AS 241, PPND7: M. J. Wichura, Applied Statistics 37, 1988). The function
// computes in double; the result rounded to f32 is the same on any machine.
double normal_quantile(double p);

} // namespace dllm
