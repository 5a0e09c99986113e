#include "ckpt/safetensors/safetensors.h"
#include "unit/ckpt/safetensors_bytes.h"
#include "unit/test_files.h"

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::own_bytes;
using test::safetensors_bytes;

SafetensorsFile open(const std::string& header, const std::string& data) {
  return SafetensorsFile(own_bytes(safetensors_bytes(header, data)), "a.safetensors");
}

std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}

TEST(SafetensorsReader, ReadsTensorsAndMetadata) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("flag":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]},"none":{"dtype":"F16","shape":[0],"data_offsets":[10,10]}})";
  const SafetensorsFile file = open(header, floats({1.5f, -2.0f}) + std::string("\x01\x00", 2));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const Tensor w = file.tensor("w");
  EXPECT_EQ(w.shape(), (Shape{2, 1}));
  EXPECT_EQ(w.as<float>()[1], -2.0f);
  EXPECT_EQ(file.info("flag").type, "BOOL");
  EXPECT_EQ(file.tensor("flag").as<uint8_t>()[0], 1);
  EXPECT_EQ(file.tensor("none").count(), 0);
}

TEST(SafetensorsReader, ViewsAlignedBytesAndCopiesOthers) {
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.append((16 - (8 + header.size()) % 16) % 16, ' ');
  for (size_t shift : {size_t{0}, size_t{4}, size_t{1}, size_t{2}}) {
    const Bytes bytes = own_bytes(safetensors_bytes(header, floats({3, 4})), shift);
    const Tensor w = SafetensorsFile(bytes, "a").tensor("w");
    EXPECT_EQ(w.as<float>()[0], 3.0f);
    EXPECT_EQ(w.as<float>()[1], 4.0f);
    const bool inside = w.bytes() >= bytes.data() && w.bytes() < bytes.data() + bytes.size();
    EXPECT_EQ(inside, shift % 4 == 0) << shift;
  }
}

TEST(SafetensorsReader, TensorOutlivesTheFile) {
  Tensor w;
  {
    const SafetensorsFile file =
        open(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", floats({7}));
    w = file.tensor("w");
  }
  EXPECT_EQ(w.as<float>()[0], 7.0f);
}

TEST(SafetensorsReader, RefusesTypesOnlyWhenAskedFor) {
  const SafetensorsFile file = open(
      R"({"q":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3]},"x":{"dtype":"ODD","shape":[9],"data_offsets":[3,4]}})",
      "abcd");
  expect_error(Code::unimplemented, "tensor q has the element type F8_E5M2",
               [&] { file.tensor("q"); });
  expect_error(Code::unimplemented, "tensor x has the element type ODD", [&] { file.tensor("x"); });
}

TEST(SafetensorsReader, NamesTheNearestTensor) {
  const SafetensorsFile file =
      open(R"({"model.norm.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "");
  const Error e = test::error_of([&] { file.tensor("model.norm.weigth"); });
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_NE(e.hint().find("model.norm.weight"), std::string::npos);
}

struct Bad {
  const char* name;
  const char* header;
  size_t data;
  const char* part; // of the error text
};

class SafetensorsBad : public ::testing::TestWithParam<Bad> {};

TEST_P(SafetensorsBad, IsRefusedWithNumbers) {
  const Bad& bad = GetParam();
  expect_error(Code::data_loss, bad.part, [&] { open(bad.header, std::string(bad.data, 'x')); });
}

INSTANTIATE_TEST_SUITE_P(
    Headers, SafetensorsBad,
    ::testing::Values(
        Bad{"short_data", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
            "tensor w ends at byte 8 of the data, found 4 bytes"},
        Bad{"long_data", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9,
            "fill 8 bytes of data, found 9"},
        Bad{"shape", R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
            "expected 12 bytes, found 8"},
        Bad{"overlap",
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
            6, "tensor b begins at byte 2 of the data, expected 4 (it overlaps another)"},
        Bad{"gap",
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})",
            6, "there is a gap"},
        Bad{"backwards", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4,
            "ends at byte 0 before it begins"},
        Bad{"negative", R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4,
            "negative number -4"},
        Bad{"overflow",
            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
            "overflows"},
        Bad{"huge", R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
            4, "too large"},
        Bad{"twice",
            R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
            0, "names a twice"},
        Bad{"field_twice", R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
            0, "names dtype twice"},
        Bad{"no_type", R"({"a":{"shape":[0],"data_offsets":[0,0]}})", 0, "tensor a has no dtype"},
        Bad{"no_offsets", R"({"a":{"dtype":"U8","shape":[0]}})", 0, "tensor a has no data_offsets"},
        Bad{"three_offsets", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0,
            "3 numbers, expected 2"},
        Bad{"float", R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1,
            "a number with a fraction"},
        Bad{"deep", R"({"a":{"b":{"c":{}}}})", 0,
            "the format does not allow an object at this place"},
        Bad{"axes",
            R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
            1, "more than 16 numbers"},
        Bad{"list", "[]", 0, "is not a JSON object"}, Bad{"empty", "", 0, "is not a JSON object"},
        Bad{"cut", R"({"a":{"dtype":)", 0, "not valid JSON near byte"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsReader, ChecksTheHeaderLengthBeforeUsingIt) {
  const auto with_length = [](uint64_t length, const std::string& rest) {
    return SafetensorsFile(own_bytes(std::string(reinterpret_cast<const char*>(&length), 8) + rest),
                           "h");
  };
  expect_error(Code::data_loss, "found 3 bytes", [] { SafetensorsFile(own_bytes("abc"), "h"); });
  expect_error(Code::data_loss, "wants 50 bytes, found 2", [&] { with_length(50, "{}"); });
  expect_error(Code::data_loss, "over the format's limit", [&] { with_length(UINT64_MAX, "{}"); });
  EXPECT_EQ(with_length(2, "{}").tensors().size(), 0u);
}

TEST(SafetensorsReader, ReadsGoldenModel) {
  const std::string folder = test::golden_path("models/torch-qwen3-bf16-tiny");
  DLLM_NEEDS_FILE(folder);
  const WeightFiles weights(*open_source(folder));
  ASSERT_TRUE(weights.has("model.embed_tokens.weight"));
  EXPECT_EQ(weights.tensor("model.embed_tokens.weight").dtype(), DType::bf16);
}

} // namespace
} // namespace dllm::ckpt
