// Matrices of bitsandbytes. The numbers are facts of bitsandbytes 0.50 (spec of the fork
// dLLM-castlehill, 17.1); parity torch/quant4 compares whole matrices.

#include "base/task.h"
#include "base/threads/parallel.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string_view>

namespace dllm::ckpt {
namespace {

using test::expect_error;

Json state_of(std::vector<int64_t> shape) {
  return {{"quant_type", "nf4"}, {"blocksize", 64}, {"shape", shape}};
}

Tensor floats(const std::vector<float>& values) {
  return Tensor::from(Shape{std::ssize(values)}, std::span<const float>(values));
}

Tensor levels() {
  const auto all = bits4_levels(weight_format("nf4"));
  return floats({all.begin(), all.end()});
}

// The tensors of a matrix in memory.
Bits4Matrix::Read reads(const Bits4Codes& codes, const Tensor& map = levels()) {
  return [&codes, map](const char* ending, const Box& box) {
    const std::string_view part = ending;
    if (part == ".quant_map") return map;
    if (part == ".absmax") return floats(codes.tops);
    const auto begin = static_cast<size_t>(box.begin[0]);
    return Tensor::from(
        Shape{box.shape[0], 1},
        std::span<const uint8_t>(codes.pairs).subspan(begin, static_cast<size_t>(box.shape[0])));
  };
}

TEST(Bits4, AShortBlockHasTheBytesOfBitsandbytes) {
  const std::vector<float> numbers = {0.5f, -0.25f, 0.1f, 0, -0.5f, 0.3f, 0.05f, -0.04f};
  const Bits4Codes made = bits4_codes(weight_format("nf4"), numbers, 64);
  EXPECT_EQ(made.pairs, (std::vector<uint8_t>{0xf2, 0x97, 0x0d, 0x86}));
  EXPECT_EQ(made.tops, std::vector<float>{0.5f});
  const Bits4Form form = Bits4Form::of(state_of({1, 8}), "w");
  EXPECT_FALSE(form.has_block_rows());
  float back[8];
  Bits4Matrix(form, "w", Box::whole({1, 8}), reads(made)).read_numbers(back, nullptr);
  const float wanted[] = {0.5f,  -0.26253653f, 0.08046510f, 0,
                          -0.5f, 0.28130850f,  0.03979015f, -0.04552502f};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(back[i], wanted[i], 1e-8) << i;
  EXPECT_EQ(bits4_codes(weight_format("nf4"), {}, 64).pairs.size(), 0u);
  // A number without a neighbour has a zero next to it.
  EXPECT_EQ(bits4_codes(weight_format("nf4"), std::vector<float>{1}, 64).pairs,
            std::vector<uint8_t>{0xf7});
}

// The formats are those whose WeightFormat says so.
TEST(Bits4, EveryFormatOfBitsandbytesIsReadAndWritten) {
  EXPECT_EQ(bits4_names("or"), "nf4 or fp4");
  std::vector<float> numbers(128);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i * 37 % 101) * 0.02f - 1;
  int found = 0;
  for (const WeightFormat* format : weight_formats()) {
    Json state = state_of({1, 128});
    state["quant_type"] = format->name;
    if (format->bitsandbytes == nullptr) {
      expect_error(Code::unimplemented, std::string("quant_type is ") + format->name,
                   [&] { Bits4Form::of(state, "w"); });
      continue;
    }
    ++found;
    const Bits4Form form = Bits4Form::of(state, "w");
    EXPECT_EQ(form.format, format);
    std::vector<std::byte> blocks(static_cast<size_t>(format->row_bytes(128))), read(blocks.size());
    format->quantize(numbers.data(), 128, blocks.data(), nullptr);
    const auto values = bits4_levels(*format);
    const Bits4Matrix matrix(form, "w", Box::whole(form.shape),
                             reads(bits4_codes(*format, numbers, 64),
                                   floats(std::vector<float>(values.begin(), values.end()))));
    matrix.read_blocks(read.data(), nullptr);
    EXPECT_EQ(read, blocks) << format->name;
  }
  EXPECT_EQ(found, 2);
}

TEST(Bits4, ScalesHaveTheCodesOfBitsandbytes) {
  float offset = 0;
  const DynamicCodes made = coded_tops(std::vector<float>{0.5f, 0.75f, 1.0f, 0.25f}, 256, &offset);
  EXPECT_EQ(offset, 0.625f);
  EXPECT_EQ(made.tops, std::vector<float>{0.375f});
  EXPECT_EQ(made.codes, (std::vector<uint8_t>{47, 207, 255, 0}));
  const float wanted[] = {0.50048828f, 0.74951172f, 1.0f, 0.25263673f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(dynamic_number(made, 256, i) + offset, wanted[i], 1e-7);
}

TEST(Bits4, PartsAreReadFromTheirOwnBlocks) {
  std::vector<float> numbers(4 * 128);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 0.01f * static_cast<float>(i % 37) - 0.002f * static_cast<float>(i / 64);
  const WeightFormat& format = weight_format("nf4");
  const Bits4Codes made = bits4_codes(format, numbers, 64);
  const Bits4Form form = Bits4Form::of(state_of({4, 128}), "w");
  ASSERT_TRUE(form.has_block_rows());
  std::vector<float> whole(numbers.size());
  Bits4Matrix(form, "w", Box::whole({4, 128}), reads(made)).read_numbers(whole.data(), nullptr);
  for (const Box& box : {Box{{1, 64}, {2, 64}}, Box{{0, 0}, {4, 128}}, Box{{3, 0}, {1, 64}}}) {
    const int64_t rows = box.shape[0], k = box.shape[1];
    std::vector<std::byte> blocks(static_cast<size_t>(rows * format.row_bytes(k)));
    Bits4Matrix(form, "w", box, reads(made)).read_blocks(blocks.data(), nullptr);
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < rows; ++r) {
      format.dequantize(blocks.data() + r * format.row_bytes(k), nullptr, k, row.data());
      for (int64_t i = 0; i < k; ++i)
        EXPECT_EQ(row[static_cast<size_t>(i)],
                  whole[static_cast<size_t>((box.begin[0] + r) * 128 + box.begin[1] + i)]);
    }
  }
}

TEST(Bits4, DamagedStatesAreNamed) {
  const auto form = [](const char* key, const Json& value) {
    Json state = state_of({4, 64});
    state[key] = value;
    return Bits4Form::of(state, "the state");
  };
  expect_error(Code::unimplemented, "quant_type is int4", [&] { form("quant_type", "int4"); });
  for (const Json& shape : {Json{4}, Json{-4, 64}, Json{1LL << 40, 1LL << 40}, Json("x")})
    expect_error(Code::data_loss, "the state", [&] { form("shape", shape); });
  for (const Json& block : {Json(0), Json(63), Json(-64), Json(1LL << 40), Json("64")})
    expect_error(Code::data_loss, "the state", [&] { form("blocksize", block); });
  expect_error(Code::data_loss, "the state", [&] { form("nested_blocksize", 256); }); // no offset
  expect_error(Code::data_loss, "the state", [] { Bits4Form::of(Json(3), "the state"); });
}

TEST(Bits4, OtherLevelsAreRefused) {
  const Bits4Codes codes = bits4_codes(weight_format("nf4"), std::vector<float>(256, 1.0f), 64);
  expect_error(Code::unimplemented, "other levels than nf4", [&] {
    Bits4Matrix(Bits4Form::of(state_of({4, 64}), "w"), "w", Box::whole({4, 64}),
                reads(codes, floats(std::vector<float>(16, 0.5f))));
  });
}

// The state and the list of tensors are the same for the reader and the writer.
TEST(Bits4, AStateComesBack) {
  for (const bool has_codes : {false, true}) {
    const Bits4Form form{.format = &weight_format("fp4"),
                         .shape = {3, 50},
                         .has_codes = has_codes,
                         .offset = has_codes ? 0.25f : 0};
    const Bits4Form back = Bits4Form::of(form.to_json(), "w");
    EXPECT_EQ(back.to_json(), form.to_json());
    EXPECT_EQ(back.parts().size(), has_codes ? 5u : 3u);
    EXPECT_EQ(back.state_ending(), ".quant_state.bitsandbytes__fp4");
  }
}

// Chunks on several threads give the codes of one thread, and a cancel ends them.
TEST(Bits4, ThreadsChangeNothing) {
  std::vector<float> numbers(100001);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 997) - 400;
  const WeightFormat& format = weight_format("nf4");
  const Bits4Codes one = bits4_codes(format, numbers, 64);
  ThreadPool pool(3);
  const Bits4Codes three = bits4_codes(format, numbers, 64, {&pool});
  EXPECT_EQ(one.pairs, three.pairs);
  EXPECT_EQ(one.tops, three.tops);
  EXPECT_EQ(one.error, three.error);
  EXPECT_GT(one.error, 0.05);
  EXPECT_LT(one.error, 0.16);
  Task task;
  task.cancel();
  expect_error(Code::cancelled, "", [&] { bits4_codes(format, numbers, 64, {&pool, &task}); });
}

} // namespace
} // namespace dllm::ckpt
