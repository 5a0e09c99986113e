// A format with blocks and a table next to them whose numbers cross rows: 4 bits with the double
// quantization of bitsandbytes (QLoRA, Dettmers et al. 2023). It shows that stacks, pieces, reads,
// writes and plans need no knowledge of the table.

#include "base/random.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "model/params/param_store.h"
#include "model/params/stack_part.h"
#include "tensor/formats/levels.h"
#include "tensor/weight_format.h"
#include "unit/model/model_tools.h"
#include "unit/test_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace dllm::model {
namespace {

namespace nf4 {

constexpr int64_t kBlock = 64, kBytes = 33; // 32 bytes of two levels each, then the scale's code
constexpr int64_t kGroup = 256;             // blocks of one number of the second level
constexpr auto& kLevels = formats::kNf4Levels;

using ckpt::dynamic_map;

int nearest(std::span<const float> sorted, float x) {
  const auto above = std::ranges::lower_bound(sorted, x);
  if (above == sorted.begin()) return 0;
  const auto at = static_cast<int>(above - sorted.begin());
  if (above == sorted.end()) return at - 1;
  return x - sorted[static_cast<size_t>(at) - 1] <= *above - x ? at - 1 : at;
}

// Numbers of a row: the mean of all scales, the row's first block in its group, and the scales of
// the groups that its blocks may be in.
int64_t table_width(int64_t k) {
  return 2 + (k / kBlock + 2 * kGroup - 2) / kGroup;
}

double quantize_rows(const float* numbers, int64_t rows, int64_t k, std::byte* to, float* table) {
  const int64_t own = k / kBlock, blocks = rows * own; // of a row, of all
  std::vector<float> scales(static_cast<size_t>(blocks)), groups;
  double mean = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    float& top = scales[static_cast<size_t>(b)];
    for (int64_t i = 0; i < kBlock; ++i) top = std::max(top, std::abs(numbers[b * kBlock + i]));
    mean += top;
  }
  const auto offset = static_cast<float>(mean / static_cast<double>(blocks));
  for (int64_t b = 0; b < blocks; ++b) {
    if (b % kGroup == 0) groups.push_back(0);
    groups.back() = std::max(groups.back(), std::abs(scales[static_cast<size_t>(b)] - offset));
  }
  for (int64_t b = 0; b < blocks; ++b) {
    auto* block = reinterpret_cast<uint8_t*>(to + b * kBytes);
    const float top = scales[static_cast<size_t>(b)],
                group = groups[static_cast<size_t>(b / kGroup)];
    for (int64_t i = 0; i < kBlock; ++i) {
      const float x = top > 0 ? numbers[b * kBlock + i] / top : 0;
      const auto level = static_cast<uint8_t>(nearest(kLevels, x));
      block[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? level << 4 : block[i / 2] | level);
    }
    block[32] =
        static_cast<uint8_t>(nearest(dynamic_map(), group > 0 ? (top - offset) / group : 0));
  }
  const int64_t width = table_width(k);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = table + r * width;
    row[0] = offset;
    row[1] = static_cast<float>(r * own % kGroup);
    for (int64_t i = 2; i < width; ++i) {
      const auto group = static_cast<size_t>(r * own / kGroup + i - 2);
      row[i] = group < groups.size() ? groups[group] : 0;
    }
  }
  return 0.17; // at most; unused here
}

void dequantize(const std::byte* row, const float* table, int64_t k, float* to) {
  for (int64_t b = 0; b < k / kBlock; ++b) {
    const auto* block = reinterpret_cast<const uint8_t*>(row + b * kBytes);
    const int64_t group = (static_cast<int64_t>(table[1]) + b) / kGroup;
    const float scale = dynamic_map()[block[32]] * table[2 + group] + table[0];
    for (int64_t i = 0; i < kBlock; ++i)
      to[b * kBlock + i] = kLevels[block[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] * scale;
  }
}

void to_lane(const std::byte* block, int64_t lane, std::byte* panel) {
  for (int64_t at = 0; at < kBytes; ++at) panel[at * kPanelRows + lane] = block[at];
}
void from_lane(const std::byte* panel, int64_t lane, std::byte* block) {
  for (int64_t at = 0; at < kBytes; ++at) block[at] = panel[at * kPanelRows + lane];
}

constexpr WeightFormat kFormat = {.name = "test_nf4",
                                  .text = "4-bit levels, scales in two levels",
                                  .element = DType::u8,
                                  .block = kBlock,
                                  .block_bytes = kBytes,
                                  .arithmetics = kArithmeticF32,
                                  .quantize = nullptr,
                                  .dequantize = dequantize,
                                  .to_lane = to_lane,
                                  .from_lane = from_lane,
                                  .table_width = table_width,
                                  .quantize_rows = quantize_rows};

} // namespace nf4

Tensor bell(const Shape& shape, uint64_t seed) {
  Tensor made(DType::f32, shape);
  for (int64_t i = 0; i < shape.count(); ++i) {
    const double p =
        (random_bits_at(make_key(seed), static_cast<uint64_t>(i)) + 0.5) / 4294967296.0;
    made.mutable_as<float>()[static_cast<size_t>(i)] = static_cast<float>(normal_quantile(p));
  }
  return made;
}

// What one matrix becomes by itself.
Tensor stored_alone(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], k = matrix.shape()[1];
  std::vector<std::byte> bytes(static_cast<size_t>(nf4::kFormat.row_bytes(k) * rows));
  std::vector<float> table(static_cast<size_t>(rows * nf4::table_width(k)));
  nf4::quantize_rows(matrix.as<float>().data(), rows, k, bytes.data(), table.data());
  Tensor back(DType::f32, matrix.shape());
  for (int64_t r = 0; r < rows; ++r)
    nf4::dequantize(bytes.data() + r * nf4::kFormat.row_bytes(k),
                    table.data() + r * nf4::table_width(k), k,
                    back.mutable_as<float>().data() + r * k);
  return back;
}

// Golden facts of bitsandbytes 0.50: four blocks with the scales 0.5, 0.75, 1 and 0.25 have the
// codes 47, 207, 255 and 0, and are read with the scales below.
TEST(TableFormat, TheSecondLevelIsThatOfBitsandbytes) {
  const float tops[] = {0.5f, 0.75f, 1.0f, 0.25f},
              restored[] = {0.50048828f, 0.74951172f, 1.0f, 0.25263673f};
  const int codes[] = {47, 207, 255, 0};
  Tensor matrix(DType::f32, {4, 64});
  for (size_t r = 0; r < 4; ++r) matrix.mutable_as<float>()[r * 64 + 5] = tops[r];
  ParamSpec spec;
  spec.name = "w";
  spec.element = {4, 64};
  spec.pieces = {{"w", 4, false}};
  ParamForm form(spec, nf4::kFormat);
  form.put(spec, 0, 0, matrix);
  const Tensor back = dequantize(form.values, form.scale);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(static_cast<int>(form.values.as<uint8_t>()[r * 33 + 32]), codes[r]);
    EXPECT_NEAR(back.as<float>()[r * 64 + 5], restored[r], 1e-7);
  }
}

// 100 blocks of a row: groups of 256 begin and end inside of rows, and each piece has groups of its
// own.
TEST(TableFormat, PiecesOfAStackKeepTheirTables) {
  const auto engine = test::small_engine();
  ParamSpec spec;
  spec.name = "layers.qk";
  spec.layers = 2;
  spec.element = {32, 6400};
  spec.pieces = {{"layers.{}.q", 19, false}, {"layers.{}.k", 13, false}};
  ParamForm form(spec, nf4::kFormat);
  std::map<std::string, Tensor> wanted;
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (size_t piece = 0; piece < 2; ++piece) {
      const std::string name = spec.logical_name(spec.pieces[piece], layer);
      const Tensor matrix = bell({spec.pieces[piece].rows, 6400}, wanted.size() + 1);
      form.put(spec, piece, layer, matrix);
      wanted[name] = stored_alone(matrix);
    }
  }
  ParamStore store(engine);
  store.add(spec, form);
  for (const auto& [name, numbers] : wanted)
    EXPECT_TRUE(test::same_bytes(store.read(name), numbers)) << name;
  ASSERT_EQ(store.physical().size(), 2u);
  EXPECT_EQ(store.physical()[1].shape, (Shape{2, 32, 2 + 2}));
  EXPECT_EQ(store.bytes(), weight_bytes(nf4::kFormat, spec.shape()));
  // A write changes one matrix and its table alone.
  const std::string changed = spec.logical_name(spec.pieces[0], 1);
  const Tensor other = bell({19, 6400}, 99);
  store.write(changed, other);
  wanted[changed] = stored_alone(other);
  for (const auto& [name, numbers] : wanted)
    EXPECT_TRUE(test::same_bytes(store.read(name), numbers)) << name;
  // The same through the parts that a process keeps.
  ParamStore filled(engine);
  const size_t index = filled.reserve(spec, nf4::kFormat);
  fill_stack(
      filled, index,
      [&](ParamForm& part, const StackPart& of) {
        for (int64_t layer = 0; layer < 2; ++layer) {
          for (size_t piece = 0; piece < 2; ++piece)
            part.put(of.spec, piece, layer,
                     wanted.at(spec.logical_name(spec.pieces[piece], layer)));
        }
      },
      nullptr);
  const std::string first = spec.logical_name(spec.pieces[0], 0);
  EXPECT_TRUE(test::same_bytes(filled.read(first), stored_alone(wanted.at(first))));
  int64_t seen = 0;
  store.visit([&](const ParamStore::Stack& stack) { seen += stack.values.count(); });
  EXPECT_EQ(seen, spec.shape().count());
}

} // namespace
} // namespace dllm::model
