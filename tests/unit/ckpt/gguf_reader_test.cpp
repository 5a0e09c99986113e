#include "ckpt/gguf/gguf.h"
#include "unit/ckpt/gguf_builder.h"
#include "unit/ckpt/safetensors_bytes.h"
#include "unit/test_files.h"

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::GgufBuilder;

GgufFile open(const GgufBuilder& built) {
  return GgufFile(test::own_bytes(built.bytes), "a.gguf");
}

GgufBuilder all_types(uint32_t version) {
  GgufBuilder b;
  b.header(1, 15, version);
  b.scalar<uint8_t>("u8", 0, 200).scalar<int8_t>("i8", 1, -3).scalar<uint16_t>("u16", 2, 60000);
  b.scalar<int16_t>("i16", 3, -300)
      .scalar<uint32_t>("u32", 4, 4000000000u)
      .scalar<int32_t>("i32", 5, -70000);
  b.scalar<float>("f32", 6, 0.5f).scalar<uint8_t>("yes", 7, 1).text_value("word", "caf\xC3\xA9");
  b.scalar<uint64_t>("u64", 10, UINT64_MAX)
      .scalar<int64_t>("i64", 11, -5000000000)
      .scalar<double>("f64", 12, 1e300);
  b.list("ids", 5, 2).put<int32_t>(-1).put<int32_t>(7);
  b.list("words", 8, 2).text("a").text("");
  b.list("nested", 9, 2)
      .put<uint32_t>(0)
      .put<uint64_t>(1)
      .put<uint8_t>(4)
      .put<uint32_t>(8)
      .put<uint64_t>(0);
  b.tensor("t", {2, 3}, 0, 0).align();
  for (int i = 0; i < 6; ++i) b.put<float>(static_cast<float>(i));
  return b;
}

TEST(GgufReader, ReadsEveryValueType) {
  for (const uint32_t version : {2u, 3u}) {
    const GgufFile file = open(all_types(version));
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.integer("u8"), 200);
    EXPECT_EQ(file.integer("i8"), -3);
    EXPECT_EQ(file.integer("u16"), 60000);
    EXPECT_EQ(file.integer("i16"), -300);
    EXPECT_EQ(file.integer("u32"), 4000000000);
    EXPECT_EQ(file.integer("i32"), -70000);
    EXPECT_EQ(file.integer("i64"), -5000000000);
    EXPECT_EQ(file.number("f32"), 0.5);
    EXPECT_EQ(file.number("f64"), 1e300);
    EXPECT_EQ(file.number("i32"), -70000.0);
    EXPECT_TRUE(file.boolean("yes"));
    EXPECT_EQ(file.text("word"), "caf\xC3\xA9");
    EXPECT_EQ(file.integers("ids"), (std::vector<int64_t>{-1, 7}));
    EXPECT_EQ(file.numbers("ids"), (std::vector<double>{-1, 7}));
    EXPECT_EQ(file.texts("words"), (std::vector<std::string>{"a", ""}));
    EXPECT_EQ(file.value("nested").count, 2);
    expect_error(Code::data_loss, "key u64 is not an integer", [&] { file.integer("u64"); });
    expect_error(Code::data_loss, "key word is not an integer", [&] { file.integer("word"); });
    expect_error(Code::data_loss, "key ids is a list, expected an integer",
                 [&] { file.integer("ids"); });
    expect_error(Code::data_loss, "key ids is not a list of texts", [&] { file.texts("ids"); });
    const Error e = test::error_of([&] { file.text("wort"); });
    EXPECT_EQ(e.code(), Code::not_found);
    EXPECT_EQ(e.hint(), "did you mean word?");
  }
}

TEST(GgufReader, ReversesTheOrderOfDimensions) {
  const GgufFile file = open(all_types(3));
  EXPECT_EQ(file.tensor_info("t").shape, (Shape{3, 2})); // 3 rows of 2
  const Tensor t = file.tensor("t");
  EXPECT_EQ(t.as<float>()[5], 5.0f);
  std::vector<float> row(2);
  file.dequantize("t", row, 1, 2);
  EXPECT_EQ(row, (std::vector<float>{2, 3}));
  expect_error(Code::out_of_range, "rows 2 to 4 are not in tensor t of 3 rows",
               [&] { file.dequantize("t", row, 2, 4); });
  expect_error(Code::invalid_argument, "4 numbers of tensor t do not fit into an array of 2",
               [&] { file.dequantize("t", row, 0, 2); });
}

TEST(GgufReader, RefusesWrongFiles) {
  expect_error(Code::data_loss, "begins with the letters GGUF",
               [] { GgufFile(test::own_bytes("GGML1234"), "x"); });
  expect_error(Code::unimplemented, "version 1", [] { open(GgufBuilder().header(0, 0, 1)); });
  expect_error(Code::unimplemented, "version 50331648",
               [] { open(GgufBuilder().header(0, 0, 3u << 24)); });
  expect_error(Code::data_loss, "18446744073709551615 tensors",
               [] { open(GgufBuilder().header(UINT64_MAX, 0)); });
  expect_error(Code::data_loss, "4000000000 keys",
               [] { open(GgufBuilder().header(0, 4000000000)); });
  expect_error(Code::data_loss, "announces 1152921504606846976 elements",
               [] { open(GgufBuilder().header(0, 1).list("k", 5, uint64_t{1} << 60)); });
  expect_error(Code::data_loss, "wants 18446744073709551615 bytes", [] {
    open(GgufBuilder().header(0, 1).text("key").put<uint32_t>(8).put(UINT64_MAX));
  });
  expect_error(Code::data_loss, "value type 13",
               [] { open(GgufBuilder().header(0, 1).scalar<uint64_t>("k", 13, 0)); });
  expect_error(Code::data_loss, "key k occurs twice", [] {
    open(GgufBuilder().header(0, 2).scalar<uint8_t>("k", 0, 1).scalar<uint8_t>("k", 0, 1));
  });
  GgufBuilder deep;
  deep.header(0, 1).list("k", 9, 1);
  for (int i = 0; i < 8; ++i) deep.put<uint32_t>(9).put<uint64_t>(1);
  deep.align(256);
  expect_error(Code::data_loss, "nests lists deeper than 4", [&] { open(deep); });
  expect_error(Code::data_loss, "general.alignment is 3", [] {
    open(GgufBuilder().header(0, 1).scalar<uint32_t>("general.alignment", 4, 3));
  });
}

TEST(GgufReader, RefusesWrongTensors) {
  const auto with = [](auto... tensors) {
    GgufBuilder b;
    b.header(sizeof...(tensors), 0);
    (tensors(b), ...);
    b.align().bytes.append(64, 'x');
    return open(b);
  };
  const auto tensor = [](const char* name, std::initializer_list<uint64_t> dims, uint32_t type,
                         uint64_t offset) {
    return [=, list = std::vector<uint64_t>(dims)](GgufBuilder& b) {
      b.text(name).template put<uint32_t>(static_cast<uint32_t>(list.size()));
      for (const uint64_t extent : list) b.put(extent);
      b.put(type).put(offset);
    };
  };
  EXPECT_EQ(with(tensor("t", {16}, 0, 0)).tensors().size(), 1u);
  expect_error(Code::data_loss, "tensor t is F32 (17), expected 68 bytes, found 64",
               [&] { with(tensor("t", {17}, 0, 0)); });
  expect_error(Code::data_loss, "tensor t is F32 (16), expected 64 bytes, found 32",
               [&] { with(tensor("t", {16}, 0, 32)); });
  expect_error(Code::data_loss, "expected a multiple of 32", [&] { with(tensor("t", {1}, 0, 4)); });
  expect_error(Code::data_loss, "rows of 31 numbers, Q8_0 wants a multiple of 32",
               [&] { with(tensor("t", {31}, 8, 0)); });
  expect_error(Code::data_loss, "overflows", [&] {
    with(tensor("t", {1ull << 40, 1ull << 40}, 0, 0));
  });
  expect_error(Code::data_loss, "has the extent", [&] { with(tensor("t", {UINT64_MAX}, 0, 0)); });
  expect_error(Code::data_loss, "has 4000000000 axes", [&] {
    with([](GgufBuilder& b) { b.text("t").put<uint32_t>(4000000000u).put<uint64_t>(0); });
  });
  expect_error(Code::data_loss, "begins at byte 18446744073709551584 of the data",
               [&] { with(tensor("t", {1}, 0, UINT64_MAX - 31)); });
  expect_error(Code::data_loss, "tensor t occurs twice",
               [&] { with(tensor("t", {1}, 0, 0), tensor("t", {1}, 0, 32)); });
  expect_error(Code::data_loss, "inside tensor a",
               [&] { with(tensor("a", {16}, 0, 0), tensor("b", {1}, 0, 32)); });
  expect_error(Code::data_loss, "has the extent 0", [&] { with(tensor("t", {4, 0}, 0, 0)); });
  // Found by fuzzing: an unknown type must not let a caller size a buffer by a made-up shape.
  expect_error(Code::data_loss, "tensor t has the shape (1099511627776), the file",
               [&] { with(tensor("t", {1ull << 40}, 77, 0)); });
  const GgufFile odd = with(tensor("odd", {16}, 25, 0), tensor("new", {9}, 77, 32));
  EXPECT_EQ(odd.tensor_info("odd").type_name, "I16");
  expect_error(Code::unimplemented, "tensor odd is stored as I16", [&] { odd.tensor("odd"); });
  expect_error(Code::unimplemented, "tensor new is stored as type 77", [&] { odd.tensor("new"); });
}

TEST(GgufReader, CutAnywhereIsAnErrorNotACrash) {
  const std::string whole = all_types(3).bytes;
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part = test::own_bytes(whole.substr(0, size));
    EXPECT_THROW(GgufFile(part, "cut"), Error) << size;
  }
}

TEST(GgufVocabulary, ReadsAndChecks) {
  GgufBuilder b;
  b.header(0, 6)
      .text_value("tokenizer.ggml.model", "gpt2")
      .text_value("tokenizer.ggml.pre", "smollm");
  b.list("tokenizer.ggml.tokens", 8, 2).text("a").text("b").list("tokenizer.ggml.token_type", 5, 2);
  b.put<int32_t>(1).put<int32_t>(3).scalar<uint32_t>("tokenizer.ggml.eos_token_id", 4, 1);
  b.scalar<uint8_t>("tokenizer.ggml.add_bos_token", 7, 0);
  const GgufVocabulary vocabulary = read_gguf_vocabulary(open(b));
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(vocabulary.types, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(vocabulary.eos, 1);
  EXPECT_FALSE(vocabulary.bos.has_value());
  EXPECT_EQ(vocabulary.add_bos, false);
  GgufBuilder bad;
  bad.header(0, 3)
      .text_value("tokenizer.ggml.model", "gpt2")
      .list("tokenizer.ggml.tokens", 8, 1)
      .text("a");
  bad.scalar<uint32_t>("tokenizer.ggml.bos_token_id", 4, 9);
  expect_error(Code::data_loss, "is 9, the vocabulary has 1 tokens",
               [&] { read_gguf_vocabulary(open(bad)); });
}

// The window of the reader is 256 KB: lists and names cross it.
TEST(GgufReader, ReadsAFileAsItReadsMemory) {
  const test::TempFolder folder;
  const std::string path = folder.path("a.gguf");
  GgufBuilder b;
  constexpr int kWords = 50000;
  b.header(1, 2);
  b.list("words", 8, kWords);
  for (int i = 0; i < kWords; ++i) b.text("word " + std::to_string(i));
  b.text_value("long", std::string(700000, 'x'));
  b.tensor("t", {512, 1024}, 0, 0).align();
  for (int i = 0; i < 512 * 1024; ++i) b.put<float>(static_cast<float>(i));
  write_file_atomic(path, b.bytes);
  const GgufFile file(open_content(path), "a.gguf");
  const std::vector<std::string> words = file.texts("words");
  ASSERT_EQ(words.size(), static_cast<size_t>(kWords));
  for (int i = 0; i < kWords; ++i)
    ASSERT_EQ(words[static_cast<size_t>(i)], "word " + std::to_string(i));
  EXPECT_EQ(file.text("long"), std::string(700000, 'x'));
  const Tensor whole = file.tensor("t");
  std::vector<float> rows(3 * 512);
  file.dequantize("t", rows, 1021, 1024);
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], static_cast<float>(1021 * 512 + i));
  EXPECT_EQ(whole.as<float>()[512 * 1024 - 1], 512.0f * 1024 - 1);
  ASSERT_EQ(::truncate(path.c_str(), 1 << 20), 0);
  expect_error(Code::data_loss, path + " changed while it was in use", [&] { file.tensor("t"); });
  expect_error(Code::data_loss, "changed", [&] { file.dequantize("t", rows, 1021, 1024); });
}

} // namespace
} // namespace dllm::ckpt
