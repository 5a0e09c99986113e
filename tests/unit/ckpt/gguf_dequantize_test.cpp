// Block formats against PyPI gguf (tests/data/README.md) and the real SmolLM2 file against its
// golden slices.

#include "ckpt/gguf/gguf.h"
#include "ckpt/safetensors/safetensors.h"
#include "unit/ckpt/gguf_builder.h"
#include "unit/ckpt/safetensors_bytes.h"
#include "unit/test_files.h"

#include <cctype>
#include <cmath>

namespace dllm::ckpt {
namespace {

uint32_t type_number(const std::string& name) {
  for (uint32_t type = 0; type < 64; ++type) {
    const GgmlTypeInfo* info = ggml_type_info(type);
    if (info != nullptr && name == info->name) return type;
  }
  ADD_FAILURE() << name;
  return 0;
}

class GgufBlocks : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufBlocks, EqualReferenceBitForBit) {
  const std::string type = GetParam();
  const SafetensorsFile vectors(map_file(test::data_path("gguf_quants.safetensors")),
                                "gguf_quants.safetensors");
  const Tensor packed = vectors.tensor(type + ".packed"), wanted = vectors.tensor(type + ".values");
  const int64_t rows = wanted.shape()[0], cols = wanted.shape()[1];

  test::GgufBuilder b;
  b.header(1, 0)
      .tensor("t", {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)}, type_number(type), 0)
      .align();
  b.bytes.append(reinterpret_cast<const char*>(packed.bytes()),
                 static_cast<size_t>(packed.byte_size()));
  const GgufFile file(test::own_bytes(b.bytes, 1), "t.gguf"); // an odd address on purpose

  const Tensor all = file.tensor("t").to(DType::f32);
  EXPECT_EQ(std::memcmp(all.bytes(), wanted.bytes(), static_cast<size_t>(wanted.byte_size())), 0);
  for (int64_t row = 0; row < rows; ++row) { // a row alone is the same
    std::vector<float> one(static_cast<size_t>(cols));
    file.dequantize("t", one, row, row + 1);
    EXPECT_EQ(std::memcmp(one.data(), wanted.row(row).bytes(), one.size() * sizeof(float)), 0)
        << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GgufBlocks,
                         ::testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                           "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"));

// Random bytes, denormal scales among them.
TEST(GgufBlockGoldens, DecodeExactly) {
  const std::string path = test::golden_path("families/gguf_blocks/arrays.safetensors");
  DLLM_NEEDS_FILE(path);
  const SafetensorsFile arrays(map_file(path), "arrays.safetensors");
  int types = 0;
  for (const auto& [key, info] : arrays.tensors()) {
    if (!key.ends_with(".bytes")) continue;
    std::string name = key.substr(0, key.size() - 6);
    const Tensor bytes = arrays.tensor(key), wanted = arrays.tensor(name + ".values");
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const uint32_t type = type_number(name);
    ASSERT_TRUE(ggml_type_info(type)->readable) << name;
    Tensor values(DType::f32, wanted.shape());
    dequantize_blocks(type, bytes.bytes(), values.mutable_as<float>().data(), wanted.count());
    for (int64_t i = 0; i < wanted.count(); ++i)
      ASSERT_EQ(values.as<float>()[static_cast<size_t>(i)],
                wanted.as<float>()[static_cast<size_t>(i)])
          << name << ' ' << i;
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(GgufFormats, TypesAndWeightFormatsHaveTheSameBlocks) {
  int found = 0;
  for (uint32_t type = 0; type < 64; ++type) {
    const WeightFormat* format = ggml_weight_format(type);
    if (format == nullptr) continue;
    ++found;
    EXPECT_EQ(ggml_type_info(type)->block, format->block) << format->name;
    EXPECT_EQ(ggml_type_info(type)->bytes, format->block_bytes) << format->name;
    EXPECT_EQ(ggml_type_of(*format), type);
  }
  EXPECT_EQ(found, 13);
}

TEST(GgufSmolLM2, DequantizedSlicesEqualGolden) {
  const std::string path = test::asset_path("smollm2.gguf");
  const std::string golden = test::golden_path("torch/smollm2/arrays.safetensors");
  DLLM_NEEDS_FILE(path);
  DLLM_NEEDS_FILE(golden);
  const GgufFile file(map_file(path), "smollm2.gguf");
  const SafetensorsFile arrays(map_file(golden), "arrays.safetensors");
  int compared = 0;
  for (const auto& [name, info] : arrays.tensors()) {
    constexpr std::string_view kPrefix = "dequant.", kSuffix = ".rows0_2_cols0_64";
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const std::string tensor =
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    const auto wanted_tensor = arrays.tensor(name);
    const auto wanted = wanted_tensor.as<float>();
    const int64_t row = file.tensor_info(tensor).shape.dim(-1);
    std::vector<float> rows(static_cast<size_t>(2 * row));
    file.dequantize(tensor, rows, 0, 2);
    for (size_t i = 0; i < 128; ++i) {
      EXPECT_NEAR(rows[i / 64 * static_cast<size_t>(row) + i % 64], wanted[i], 1e-6)
          << tensor << " " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

TEST(GgufSmolLM2, MetadataAndVocabulary) {
  const std::string path = test::asset_path("smollm2.gguf");
  DLLM_NEEDS_FILE(path);
  const GgufFile file(map_file(path), "smollm2.gguf");
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 30);
  EXPECT_EQ(file.number("llama.rope.freq_base"), 100000.0);
  EXPECT_EQ(file.tensor_info("token_embd.weight").shape, (Shape{49152, 576}));
  const GgufVocabulary vocabulary = read_gguf_vocabulary(file);
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "smollm");
  EXPECT_EQ(vocabulary.tokens.size(), 49152u);
  EXPECT_EQ(vocabulary.merges.size(), 48900u);
  EXPECT_TRUE(vocabulary.eos.has_value());
}

} // namespace
} // namespace dllm::ckpt
