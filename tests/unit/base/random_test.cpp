// Threefry against arrays made by JAX, in both counter layouts (golden/jax/rng).

#include "base/random.h"

#include "ckpt/safetensors/safetensors.h"
#include "unit/test_files.h"

#include <algorithm>

namespace dllm {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 42, 1234567, 2147483647};

class Threefry : public ::testing::TestWithParam<CounterLayout> {
protected:
  void SetUp() override {
    const char* name = GetParam() == CounterLayout::partitionable
                           ? "jax/rng/threefry_partitionable_1.safetensors"
                           : "jax/rng/threefry_partitionable_0.safetensors";
    const std::string path = test::golden_path(name);
    DLLM_NEEDS_FILE(path);
    file_ = std::make_unique<ckpt::SafetensorsFile>(map_file(path), name);
  }

  // Calls check(key of the seed, rest of the name, array) for every array whose name begins with
  // s<seed>.<prefix>
  template <class Check> void each(const std::string& prefix, Check check) {
    int arrays = 0;
    for (const uint64_t seed : kSeeds) {
      const std::string begin = fmt::format("s{}.{}", seed, prefix);
      for (const auto& [name, info] : file_->tensors()) {
        if (!name.starts_with(begin)) continue;
        SCOPED_TRACE(name);
        check(make_key(seed), name.substr(begin.size()), file_->tensor(name));
        ++arrays;
      }
    }
    EXPECT_GT(arrays, 0) << prefix;
  }

  std::unique_ptr<ckpt::SafetensorsFile> file_;
};

template <class T> std::vector<T> values(const Tensor& tensor) {
  const auto span = tensor.as<T>();
  return {span.begin(), span.end()};
}

std::vector<uint32_t> words(const std::vector<Key>& keys) {
  std::vector<uint32_t> list;
  for (const Key key : keys) {
    list.push_back(key.hi);
    list.push_back(key.lo);
  }
  return list;
}

TEST_P(Threefry, KeysEqual) {
  each("key", [](Key key, const std::string&, const Tensor& wanted) {
    EXPECT_EQ(words({key}), values<uint32_t>(wanted));
  });
}

TEST_P(Threefry, FoldInEquals) {
  each("fold_in", [](Key key, const std::string& data, const Tensor& wanted) {
    const auto number = static_cast<uint32_t>(std::stoul(data));
    EXPECT_EQ(words({fold_in(key, number)}), values<uint32_t>(wanted));
  });
}

TEST_P(Threefry, SplitEquals) {
  each("split", [](Key key, const std::string& count, const Tensor& wanted) {
    const int64_t number = count == "_shape_2x3" ? 6 : std::stol(count);
    EXPECT_EQ(words(split(key, number, GetParam())), values<uint32_t>(wanted));
  });
}

TEST_P(Threefry, BitsEqual) {
  each("bits.", [](Key key, const std::string&, const Tensor& wanted) {
    std::vector<uint32_t> bits(static_cast<size_t>(wanted.count()));
    random_bits(key, bits, GetParam());
    EXPECT_EQ(bits, values<uint32_t>(wanted));
    if (GetParam() != CounterLayout::partitionable) return;
    for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(random_bits_at(key, i), bits[i]);
  });
}

TEST_P(Threefry, UniformEquals) {
  each("uniform.", [](Key key, const std::string&, const Tensor& wanted) {
    std::vector<float> numbers(static_cast<size_t>(wanted.count()));
    random_uniform(key, numbers, GetParam());
    EXPECT_EQ(numbers, values<float>(wanted));
  });
}

TEST_P(Threefry, RandintEquals) {
  each("randint_", [](Key key, const std::string& range, const Tensor& wanted) {
    const size_t middle = range.find('_');
    std::vector<int32_t> numbers(static_cast<size_t>(wanted.count()));
    random_int(key, numbers, std::stoi(range.substr(0, middle)),
               std::stoi(range.substr(middle + 1)), GetParam());
    EXPECT_EQ(numbers, values<int32_t>(wanted));
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Threefry,
                         ::testing::Values(CounterLayout::partitionable, CounterLayout::original),
                         [](const auto& info) {
                           return info.param == CounterLayout::partitionable ? "partitionable"
                                                                             : "original";
                         });

// Known answers of the cipher (Random123, kat_vectors: threefry2x32 20 rounds).
TEST(ThreefryCipher, KnownAnswers) {
  EXPECT_EQ(threefry2x32({0, 0}, 0, 0), (std::pair<uint32_t, uint32_t>{0x6b200159u, 0x99ba4efeu}));
  EXPECT_EQ(threefry2x32({~0u, ~0u}, ~0u, ~0u),
            (std::pair<uint32_t, uint32_t>{0x1cb996fcu, 0xbb002be7u}));
  EXPECT_EQ(threefry2x32({0x13198a2eu, 0x03707344u}, 0x243f6a88u, 0x85a308d3u),
            (std::pair<uint32_t, uint32_t>{0xc4923a9cu, 0x483df7a0u}));
}

TEST(Uniform, StaysBelowOne) {
  EXPECT_EQ(uniform_from_bits(0), 0.0f);
  EXPECT_LT(uniform_from_bits(UINT32_MAX), 1.0f);
}

TEST(StreamKey, DependsOnEveryPart) {
  std::vector<Key> keys;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{1} << 32}) {
    for (const Stream stream : {Stream::time, Stream::mask}) {
      for (const uint64_t step : {uint64_t{1}, uint64_t{1} << 32}) {
        for (const uint64_t row : {uint64_t{1}, uint64_t{1} << 32})
          keys.push_back(stream_key(seed, stream, step, row));
      }
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(std::count(keys.begin(), keys.end(), keys[i]), 1) << i;
  }
}

} // namespace
} // namespace dllm
