// Which files of a folder are the model, and models in several files.

#include "ckpt/gguf/gguf_parts.h"

#include "unit/ckpt/gguf_builder.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <optional>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::GgufBuilder;

constexpr uint32_t kU16 = 2, kI32 = 5, kF32 = 0;

struct Split {
  uint16_t number, count;
  int32_t tensors;
};

// One tensor of four numbers: `value` and three zeros.
std::string gguf(const std::string& architecture, const std::string& tensor, float value,
                 std::optional<Split> split = {}, const std::string& type = "") {
  GgufBuilder file;
  file.header(1, 1 + (split ? 3 : 0) + (type.empty() ? 0 : 1));
  file.text_value("general.architecture", architecture);
  if (!type.empty()) file.text_value("general.type", type);
  if (split) {
    file.scalar("split.no", kU16, split->number).scalar("split.count", kU16, split->count);
    file.scalar("split.tensors.count", kI32, split->tensors);
  }
  file.tensor(tensor, {4}, kF32, 0).align();
  for (const float number : {value, 0.0f, 0.0f, 0.0f}) file.put(number);
  return file.bytes;
}

struct GgufFolder {
  test::TempFolder folder;
  void add(const std::string& name, const std::string& bytes) const {
    write_file_atomic(folder.path(name), bytes);
  }
  std::unique_ptr<Source> source(const std::string& name = "") const {
    return open_model_source(name.empty() ? folder.path() : folder.path(name));
  }
};

std::shared_ptr<const GgufFile> open_found(const Source& source) {
  return open_gguf(source, find_gguf(source));
}

TEST(GgufParts, AreOneModelWhicheverIsGiven) {
  const GgufFolder folder;
  folder.add("x-00001-of-00003.gguf", gguf("llama", "a", 1, Split{0, 3, 3}));
  folder.add("x-00002-of-00003.gguf", gguf("other", "b", 2, Split{1, 3, 3}));
  folder.add("x-00003-of-00003.gguf", gguf("other", "c", 3, Split{2, 3, 3}));
  for (const char* given : {"", "x-00001-of-00003.gguf", "x-00002-of-00003.gguf"}) {
    SCOPED_TRACE(given);
    const auto file = open_found(*folder.source(given));
    EXPECT_EQ(file->text("general.architecture"), "llama");
    EXPECT_FALSE(file->has("split.count"));
    ASSERT_EQ(file->tensors().size(), 3u);
    float expected = 1;
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_EQ(file->tensor(name).as<float>()[0], expected);
      float read = 0, row[4];
      file->dequantize(name, row, 0, 1);
      EXPECT_EQ(row[0], expected);
      file->read_stored(name, reinterpret_cast<std::byte*>(row), 0, 1);
      EXPECT_EQ(row[0], expected);
      file->read_stored(name, reinterpret_cast<std::byte*>(&read), Box{{0, 0}, {1, 1}});
      EXPECT_EQ(read, expected);
      ++expected;
    }
  }
}

TEST(GgufParts, AMissingOrAnotherPartIsNamed) {
  const GgufFolder folder;
  folder.add("x-00002-of-00002.gguf", gguf("llama", "b", 2, Split{1, 2, 2}));
  expect_error(Code::not_found, "x-00001-of-00002.gguf, part 1 of 2",
               [&] { open_found(*folder.source("x-00002-of-00002.gguf")); });
  folder.add("x-00001-of-00002.gguf", gguf("llama", "b", 1, Split{0, 2, 2}));
  expect_error(Code::data_loss, "the tensor b is also in an earlier part",
               [&] { open_found(*folder.source()); });
  folder.add("x-00001-of-00002.gguf", gguf("llama", "a", 1, Split{1, 2, 2}));
  expect_error(Code::data_loss, "part 1 says that it is part 2",
               [&] { open_found(*folder.source()); });
  folder.add("x-00001-of-00002.gguf", gguf("llama", "a", 1, Split{0, 2, 5}));
  expect_error(Code::data_loss, "2 tensors, expected 5", [&] { open_found(*folder.source()); });
  const GgufFolder renamed;
  renamed.add("first.gguf", gguf("llama", "a", 1, Split{0, 2, 2}));
  expect_error(Code::failed_precondition, "first.gguf is part 1 of 2",
               [&] { open_found(*renamed.source()); });
  const GgufFolder alone; // names that only look like parts
  alone.add("x-00001-of-00001.gguf", gguf("llama", "a", 1, Split{0, 1, 1}));
  EXPECT_TRUE(open_found(*alone.source())->has_tensor("a"));
}

TEST(GgufParts, WhatIsNoModelIsLeftOut) {
  const std::pair<std::string, std::string> others[] = {
      {"clip", ""}, {"clip", "mmproj"}, {"llama", "adapter"}, {"llama", "imatrix"}};
  for (const auto& [architecture, type] : others) {
    const GgufFolder folder;
    folder.add("a-first.gguf", gguf(architecture, "v", 1, {}, type));
    folder.add("model.gguf", gguf("llama", "a", 1, {}, type.empty() ? "" : "model"));
    const GgufParts parts = find_gguf(*folder.source());
    EXPECT_EQ(parts.files, std::vector<std::string>{"model.gguf"}) << architecture << type;
    ASSERT_EQ(parts.left_out.size(), 1u);
    EXPECT_EQ(parts.left_out[0].find("a-first.gguf ("), 0u) << parts.left_out[0];
    EXPECT_TRUE(find_gguf(*folder.source("model.gguf")).left_out.empty());
  }
}

TEST(GgufParts, SeveralModelsAreListedAndNoneIsTaken) {
  const GgufFolder folder;
  folder.add("a.gguf", gguf("llama", "a", 1));
  folder.add("b.gguf", gguf("llama", "a", 2));
  folder.add("mmproj.gguf", gguf("clip", "v", 2));
  const Error error = test::error_of([&] { find_gguf(*folder.source()); });
  EXPECT_EQ(error.code(), Code::failed_precondition);
  EXPECT_NE(error.text().find("2 .gguf files that could be the model: a.gguf, b.gguf"),
            std::string::npos)
      << error.text();
  EXPECT_EQ(open_found(*folder.source("b.gguf"))->tensor("a").as<float>()[0], 2);
  const GgufFolder none;
  none.add("a.gguf", gguf("clip", "a", 1));
  none.add("b.gguf", gguf("clip", "b", 1));
  expect_error(Code::failed_precondition, "0 .gguf files that could be the model: a.gguf, b.gguf",
               [&] { find_gguf(*none.source()); });
}

} // namespace
} // namespace dllm::ckpt
