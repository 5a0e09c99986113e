// The engine's option arithmetic: which products it changes, forms of weights, gradients, stacks of
// layers and experts.

#include "cpu/gemm/dot.h"
#include "cpu/kernel.h"
#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

namespace dllm::cpu {
namespace {

using graph::Value;

Tensor weight_in(const char* name, Shape shape, Tensor* scales = nullptr) {
  const WeightFormat& format = weight_format(name);
  const Tensor numbers = random_tensor(shape, 3);
  const int64_t k = shape.dim(-1), rows = shape.count() / k;
  Tensor made(format.is_blocks() ? DType::u8 : format.element, stored_shape(format, shape));
  if (format.is_blocks()) made.set_format(&format);
  for (int64_t r = 0; r < rows; ++r) {
    float scale = 1;
    format.quantize(numbers.as<float>().data() + r * k, k,
                    made.mutable_bytes() + r * format.row_bytes(k), &scale);
    if (scales != nullptr) scales->mutable_as<float>()[static_cast<size_t>(r)] = scale;
  }
  return made;
}

// max |a - b| over max |b|
double apart(const Tensor& a, const Tensor& b) {
  double most = 0, size = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]));
    size = std::max(size, std::abs(static_cast<double>(b.as<float>()[i])));
  }
  return most / size;
}

TEST(ArithmeticOption, IsDescribed) {
  for (const char* name : {"f32", "bf16", "int8"}) {
    const Json described = test_engine(1, "none", name)->describe();
    EXPECT_EQ(described.at("arithmetic"), name);
    EXPECT_FALSE(described.at("product_kernel").get<std::string>().empty());
  }
  EXPECT_EQ(thrown_by([] { test_engine(1, "none", "fp8"); }).code(), Code::invalid_argument);
}

struct FormatCase {
  const char* format;
  const char* arithmetic;
  bool rounds;   // the format can be multiplied in it
  double within; // of the f32 product
};
constexpr FormatCase kFormatCases[] = {
    {"f32", "bf16", true, 0.01},  {"bf16", "bf16", true, 0.01}, {"f16", "bf16", true, 0.01},
    {"q8_0", "bf16", true, 0.01}, {"int8", "bf16", true, 0.01}, {"q4_1", "bf16", true, 0.01},
    {"int8", "int8", true, 0.02}, {"q8_0", "int8", true, 0.02}, {"f32", "int8", false, 0},
    {"bf16", "int8", false, 0},   {"f16", "int8", false, 0},    {"q4_1", "int8", false, 0},
};

// Two layers of x w^T with stacked weights (2, size, size).
std::shared_ptr<graph::Graph> two_layers(const Tensor& w, bool scaled, int64_t rows, int64_t size) {
  auto body = std::make_shared<graph::Graph>("layer");
  const Value x = body->input("x", DType::f32, {rows, size});
  const Shape one = w.shape().with_dim(0, 1);
  const Value layer = body->input("w", {{one.dim(1), one.dim(2)}, w.dtype(), {}, w.format()});
  const Value scale = body->input("s", DType::f32, {size});
  body->output("x", graph::linear(x, layer, {}, scaled ? scale : Value{}));
  auto made = std::make_shared<graph::Graph>("layers");
  const Value start = made->input("x", DType::f32, {rows, size});
  const Value weights = made->input("w", {w.shape(), w.dtype(), {}, w.format()}, true);
  const Value scales = made->input("s", {{2, size}, DType::f32, {}}, true);
  made->output("y", graph::scan(body, {start}, {weights, scales}, {}, 2).carry[0]);
  return made;
}

// Also: rows alone, threads, and a weight of which only panels are kept, give the same bits; it is
// read back as it was.
TEST(ArithmeticOption, ChangesTheProductsOfItsFormats) {
  constexpr int64_t size = 96, rows = 9;
  for (const FormatCase& c : kFormatCases) {
    Tensor scales(DType::f32, {2, size});
    const Tensor w = weight_in(c.format, {2, size, size}, &scales);
    const Tensor x = random_tensor({rows, size}, 5);
    const bool scaled = w.dtype() == DType::i8;
    const auto run = [&](const char* arithmetic, bool keep_plain, int64_t threads) {
      auto engine = test_engine(threads, "none", arithmetic);
      std::vector<graph::BufferRef> in{
          engine->upload(x), engine->upload_weight(w, keep_plain, nullptr), engine->upload(scales)};
      const auto y = engine->compile(two_layers(w, scaled, rows, size))->run(in);
      const Tensor back = in[1]->read();
      EXPECT_EQ(std::memcmp(back.bytes(), w.bytes(), static_cast<size_t>(w.byte_size())), 0)
          << c.format << ' ' << arithmetic;
      return y[0]->read();
    };
    const Tensor expected = run("f32", true, 1), got = run(c.arithmetic, true, 1);
    if (c.rounds) {
      EXPECT_LT(apart(got, expected), c.within) << c.format << ' ' << c.arithmetic;
      EXPECT_GT(apart(got, expected), 1e-5) << c.format << ' ' << c.arithmetic;
    } else {
      EXPECT_EQ(floats(got), floats(expected)) << c.format << ' ' << c.arithmetic;
    }
    EXPECT_EQ(floats(run(c.arithmetic, false, 1)), floats(got)) << c.format;
    EXPECT_EQ(floats(run(c.arithmetic, true, 3)), floats(got)) << c.format;
  }
}

// Panels made for a call and panels that are kept are the same.
TEST(ArithmeticKernels, FormsChangeNoBit) {
  const int64_t rows = 6, out = 37, in = 71;
  const Tensor x = random_tensor({rows, in}, 1), dy = random_tensor({rows, out}, 2);
  for (const auto& [arithmetic, format] :
       {std::pair{kArithmeticBf16, "f32"}, {kArithmeticBf16, "bf16"}, {kArithmeticInt8, "int8"}}) {
    const Tensor w = weight_in(format, {out, in});
    for (const bool gradient : {false, true}) {
      KernelSetup setup{find_kernel(gradient ? "linear_input_grad" : "linear"),
                        {gradient ? dy : x, w},
                        {f32_type({rows, gradient ? in : out})},
                        {{"has_bias", false}, {"has_scale", false}}};
      setup.arithmetic = arithmetic;
      const std::vector<Tensor> fresh = run_kernel(setup);
      setup.keeps_forms = {false, true};
      setup.threads = 2;
      EXPECT_EQ(floats(run_kernel(setup)[0]), floats(fresh[0])) << format << gradient;
      setup.arithmetic = kArithmeticF32;
      EXPECT_LT(apart(fresh[0], run_kernel(setup)[0]), 0.01) << format << gradient;
    }
  }
}

// More rows than one block of the kernel: the chain goes on.
TEST(ArithmeticKernels, Bf16GradientOfAWeightIsNearTheF32One) {
  for (const int64_t rows : {1, 35, 1500}) {
    const int64_t out = 21, in = 40;
    KernelSetup setup{find_kernel("linear_weight_grad"),
                      {random_tensor({rows, out}, 1), random_tensor({rows, in}, 2)},
                      {f32_type({out, in})},
                      {{"has_bias", false}, {"has_scale", false}}};
    const Tensor expected = run_kernel(setup)[0];
    setup.arithmetic = kArithmeticBf16;
    const Tensor got = run_kernel(setup)[0];
    EXPECT_LT(apart(got, expected), 0.01) << rows;
    EXPECT_GT(apart(got, expected), 1e-6) << rows;
    setup.threads = 3;
    EXPECT_EQ(floats(run_kernel(setup)[0]), floats(got));
  }
}

// A row's product with its expert has the bits of the product with that matrix alone.
TEST(ArithmeticKernels, ExpertsAreProductsOfTheirRows) {
  const int64_t rows = 11, choices = 2, experts = 4, out = 37, in = 64;
  const Tensor x = random_tensor({rows, in}, 1);
  Tensor chosen(DType::i32, {rows, choices});
  for (int64_t i = 0; i < rows * choices; ++i)
    chosen.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>(i * 7 % 5); // 4: none
  for (const auto& [arithmetic, format] :
       {std::pair{kArithmeticBf16, "f32"}, {kArithmeticInt8, "int8"}}) {
    const Tensor w = weight_in(format, {experts, out, in});
    KernelSetup setup{find_kernel("expert_linear"),
                      {x, chosen, w},
                      {f32_type({rows, choices, out})},
                      {{"has_scale", false}}};
    setup.arithmetic = arithmetic;
    setup.threads = 2;
    const std::vector<float> y = floats(run_kernel(setup)[0]);
    const int64_t bytes = out * in * dtype_size(w.dtype());
    for (int64_t pair = 0; pair < rows * choices; ++pair) {
      const int32_t e = chosen.as<int32_t>()[static_cast<size_t>(pair)];
      std::vector<float> expected(static_cast<size_t>(out), 0.0f);
      if (e < experts) {
        Tensor one(w.dtype(), {out, in}), row(DType::f32, {1, in});
        std::memcpy(one.mutable_bytes(), w.bytes() + e * bytes, static_cast<size_t>(bytes));
        std::memcpy(row.mutable_bytes(), x.bytes() + pair / choices * in * 4,
                    static_cast<size_t>(in) * 4);
        KernelSetup alone{find_kernel("linear"),
                          {row, one},
                          {f32_type({1, out})},
                          {{"has_bias", false}, {"has_scale", false}}};
        alone.arithmetic = arithmetic;
        expected = floats(run_kernel(alone)[0]);
      }
      EXPECT_EQ(std::vector<float>(y.begin() + pair * out, y.begin() + (pair + 1) * out), expected)
          << format << " pair " << pair;
    }
  }
}

} // namespace
} // namespace dllm::cpu
