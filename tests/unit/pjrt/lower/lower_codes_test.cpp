// Weights in blocks of codes: lowered against the kernels of the CPU engine.

#include "graph/ops/build.h"
#include "unit/pjrt/lower/code_cases.h"

#include <cstring>

namespace dllm::pjrt {
namespace {

using graph::Value;

// The plain operations give the numbers of the format's own function bit for bit.
TEST(LowerCodes, NumbersOfEveryFormat) {
  for (const WeightFormat* format : block_formats()) {
    const int64_t k = 2 * format->block;
    const Tensor codes = coded(*format, {40, k});
    auto graph = std::make_shared<graph::Graph>("numbers");
    const Value w = graph->input("w", {codes.shape(), DType::u8, {}, format});
    graph->output("y", graph::ops::widen_weight(w, {}));
    const Tensor got = run_on_cpu(graph, {codes})[0];
    ASSERT_EQ(got.shape(), (Shape{40, k})) << format->name;
    std::vector<float> want(static_cast<size_t>(k));
    for (int64_t row = 0; row < 40; ++row) {
      format->dequantize(codes.bytes() + row * format->row_bytes(k), nullptr, k, want.data());
      EXPECT_EQ(std::memcmp(got.rows(row, row + 1).bytes(), want.data(), want.size() * 4), 0)
          << format->name << " row " << row;
    }
  }
}

// Every 16-bit pattern but infinity and NaN as the scale of a block of q8_0.
TEST(LowerCodes, ScalesInF16) {
  const WeightFormat& format = weight_format("q8_0");
  Tensor codes(DType::u8, {65536, format.block_bytes});
  codes.set_format(&format);
  std::byte* to = codes.mutable_bytes();
  for (int bits = 0; bits < 65536; ++bits, to += format.block_bytes) {
    const auto half = static_cast<uint16_t>((bits & 0x7c00) == 0x7c00 ? 0 : bits);
    std::memcpy(to, &half, sizeof half);
    std::memset(to + 2, 1, static_cast<size_t>(format.block_bytes - 2));
  }
  auto graph = std::make_shared<graph::Graph>("scales");
  const Value w = graph->input("w", {codes.shape(), DType::u8, {}, &format});
  graph->output("y", graph::ops::widen_weight(w, {}));
  const Tensor got = run_on_cpu(graph, {codes})[0];
  for (int bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00) == 0x7c00) continue;
    const float want = f16_to_f32(static_cast<uint16_t>(bits));
    const float own = got.as<float>()[static_cast<size_t>(bits) * 32];
    ASSERT_EQ(std::memcmp(&own, &want, sizeof want), 0) << bits << ": " << own << ", " << want;
  }
}

TEST(LowerCodes, EveryProductOfEveryFormat) {
  for (const WeightFormat* format : block_formats()) {
    const auto c = code_case(*format);
    expect_same_lowered(c.graph, c.inputs, 1e-5, c.label);
  }
}

TEST(LowerCodes, AxesAreKept) {
  expect_axes_kept(*code_case(weight_format("nf4")).graph);
}

} // namespace
} // namespace dllm::pjrt
