#include "ckpt/safetensors/safetensors_writer.h"

#include "ckpt/safetensors/safetensors.h"
#include "unit/test_files.h"

#include <numeric>
#include <string_view>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::TempFolder;

Tensor counting(DType dtype, Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::from(shape, values).to(dtype);
}

NamedTensors some_tensors() {
  return {{"b.bf16", counting(DType::bf16, {3})},  {"a.f32", counting(DType::f32, {2, 3})},
          {"z.i64", counting(DType::i64, {1})},    {"m.u8", counting(DType::u8, {5})},
          {"empty", counting(DType::f32, {0, 4})}, {"scalar", counting(DType::f64, {})}};
}

TEST(SafetensorsWriter, RoundTripsEveryTypeAligned) {
  TempFolder folder;
  const NamedTensors tensors = some_tensors();
  write_safetensors(folder.path("model.safetensors"), tensors, {{"made by", "a \"test\"\n"}});
  const WeightFiles files(*open_source(folder.path()));
  EXPECT_EQ(files.metadata().at("made by"), "a \"test\"\n");
  EXPECT_EQ(files.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor back = files.tensor(name);
    EXPECT_EQ(back.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(back.shape(), tensor.shape()) << name;
    const auto text = [](const Tensor& t) {
      return std::string_view(reinterpret_cast<const char*>(t.bytes()),
                              static_cast<size_t>(t.byte_size()));
    };
    EXPECT_EQ(text(back), text(tensor)) << name;
    EXPECT_FALSE(back.writable()) << name << " should be a view of the mapped file";
  }
}

TEST(SafetensorsWriter, SameTensorsGiveSameBytes) {
  TempFolder folder;
  NamedTensors tensors = some_tensors();
  write_safetensors(folder.path("one"), tensors);
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(folder.path("two"), tensors);
  EXPECT_EQ(read_text(folder.path("one")), read_text(folder.path("two")));
}

TEST(SafetensorsWriter, ChecksWhatItIsGiven) {
  TempFolder folder;
  const std::string path = folder.path("x");
  {
    SafetensorsWriter writer(path, {{"b", DType::f32, {2}}, {"a", DType::f32, {1}}});
    EXPECT_EQ(writer.order()[0].name, "a");
    expect_error(Code::invalid_argument, "tensor a comes next, not b",
                 [&] { writer.write("b", counting(DType::f32, {2})); });
    expect_error(Code::invalid_argument, "announced as f32 (1), got f32 (2)",
                 [&] { writer.write("a", counting(DType::f32, {2})); });
    writer.write("a", counting(DType::f32, {1}));
    expect_error(Code::failed_precondition, "1 of 2 tensors are missing, the next is b",
                 [&] { writer.close(); });
    EXPECT_FALSE(file_exists(path));
  }
  EXPECT_TRUE(list_directory(folder.path()).empty()) << "the unfinished file should be gone";
  expect_error(Code::invalid_argument, "tensor a would be written twice", [&] {
    SafetensorsWriter writer(path, {{"a", DType::f32, {2}}, {"a", DType::f32, {1}}});
  });
  expect_error(Code::invalid_argument, "UTF-8", [&] {
    SafetensorsWriter writer(path, {{"\xFF", DType::f32, {2}}});
  });
}

TEST(SafetensorsWriter, TakesATensorInParts) {
  TempFolder folder;
  const Tensor a = counting(DType::f32, {5}), b = counting(DType::i32, {2, 3});
  write_safetensors(folder.path("whole"), {{"a", a}, {"b", b}});
  SafetensorsWriter writer(folder.path("parts"),
                           {{"a", DType::f32, {5}}, {"b", DType::i32, {2, 3}}});
  const auto bytes_of = [](const Tensor& tensor, size_t begin, size_t end) {
    return std::span(tensor.bytes() + begin, end - begin);
  };
  writer.write_part("a", bytes_of(a, 0, 7));
  expect_error(Code::invalid_argument, "tensor a comes next, not b",
               [&] { writer.write_part("b", bytes_of(b, 0, 4)); });
  expect_error(Code::invalid_argument, "tensor a has a part already",
               [&] { writer.write("a", a); });
  expect_error(Code::invalid_argument, "tensor a has 20 bytes, got 14 after 7",
               [&] { writer.write_part("a", bytes_of(a, 0, 14)); });
  writer.write_part("a", bytes_of(a, 7, 20));
  writer.write_part("b", bytes_of(b, 0, 24));
  writer.close();
  EXPECT_EQ(read_text(folder.path("parts")), read_text(folder.path("whole")));
}

TEST(WeightWriter, ShardsByBytesWithAnIndex) {
  TempFolder folder;
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 7; ++i) specs.push_back({fmt::format("layer.{}", i), DType::f32, {4}});
  specs.push_back({"large", DType::f32, {100}});
  WeightWriter writer(folder.path(), "model", specs, 40); // two small tensors per file
  for (const TensorSpec& spec : writer.order())
    writer.write(spec.name, counting(spec.dtype, spec.shape));
  writer.close();
  EXPECT_TRUE(file_exists(folder.path("model-00001-of-00005.safetensors")));
  EXPECT_TRUE(file_exists(folder.path("model.safetensors.index.json")));
  const WeightFiles files(*open_source(folder.path()));
  EXPECT_EQ(files.file_count(), 5u);
  EXPECT_EQ(files.names().size(), 8u);
  for (const TensorSpec& spec : specs)
    EXPECT_EQ(files.tensor(spec.name).as<float>().back(), spec.shape.count());
}

// Each of three processes writes its tensors; the second has none.
TEST(WeightWriter, OfSeveralProcessesFillOneFolder) {
  TempFolder folder;
  const std::vector<TensorSpec> specs = {{"a", DType::f32, {4}, 2},
                                         {"b", DType::f32, {8}, 0},
                                         {"c", DType::f32, {4}, 2},
                                         {"d", DType::f32, {2}, 0}};
  std::vector<std::vector<std::string>> files;
  for (const int64_t process : {2, 1, 0}) {
    WeightWriter writer(folder.path(), "model", specs, 16 + 32, {}, process);
    EXPECT_EQ(writer.order().size(), process == 1 ? 0u : 2u);
    for (const TensorSpec& spec : writer.order())
      writer.write(spec.name, counting(spec.dtype, spec.shape));
    writer.close();
    files.push_back(writer.files());
  }
  EXPECT_EQ(files[0], std::vector<std::string>{"model-00002-of-00002.safetensors"});
  EXPECT_TRUE(files[1].empty());
  EXPECT_EQ(files[2], (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                                "model.safetensors.index.json"}));
  const WeightFiles read(*open_source(folder.path()));
  EXPECT_EQ(read.names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  for (const TensorSpec& spec : specs)
    EXPECT_EQ(read.tensor(spec.name).as<float>().back(), spec.shape.count());
}

TEST(WeightWriter, OneFileWithoutLimitAndNoTensorMissing) {
  TempFolder folder;
  WeightWriter writer(folder.path(), "model", {{"a", DType::f32, {4}}, {"b", DType::f32, {4}}}, 0);
  writer.write("a", counting(DType::f32, {4}));
  expect_error(Code::failed_precondition, "the next is b", [&] { writer.close(); });
  writer.write("b", counting(DType::f32, {4}));
  writer.close();
  EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(WeightFiles(*open_source(folder.path())).metadata().at("format"), "pt");
}

} // namespace
} // namespace dllm::ckpt
