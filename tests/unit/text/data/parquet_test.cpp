// Parquet: the files of tests/data/make_parquet.py have the rows of the JSON lines next to them;
// files that are damaged, or made by hand to be hostile, end with an error that names the place.
#include "../scratch.h"
#include "base/error.h"
#include "base/json.h"
#include "parquet_file.h"
#include "text/data/dataset.h"
#include "text/parquet/codecs.h"
#include "text/readers/readers.h"
#include "unit/cancel.h"
#include "unit/sanitized.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace dllm::text {
namespace {

std::string data_path(const std::string& name) {
  return std::string(DLLM_SOURCE_DIR) + "/tests/data/parquet/" + name;
}

std::vector<Record> parquet_rows(const std::string& path, const char* json = "{}",
                                 Task* task = nullptr,
                                 const std::function<void(const Error&)>& reject = {}) {
  Options options(dataset_schema());
  options.set_json(parse_json(json, "options"));
  std::vector<Record> rows;
  read_records(path, {options, record_readers(), task, reject},
               [&](Record&& row) { rows.push_back(std::move(row)); });
  return rows;
}

void expect_parquet_failure(Code code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error, expected " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.text();
    EXPECT_NE((e.text() + " " + e.hint()).find(part), std::string::npos) << e.text() << "\n"
                                                                         << e.hint();
  }
}

TEST(Parquet, HasTheRowsOfTheSameJsonLines) {
  for (const std::string name : {"text", "answer", "messages"}) {
    const std::vector<Record> wanted = parquet_rows(data_path(name + ".jsonl"));
    for (const std::string variant :
         {"plain", "snappy", "gzip-v2", "zstd", "delta_length_byte_array", "delta_byte_array"}) {
      if (variant == "zstd" && !parquet::has_zstd()) continue;
      SCOPED_TRACE(name + " " + variant);
      const std::vector<Record> rows = parquet_rows(data_path(name + "-" + variant + ".parquet"));
      ASSERT_EQ(rows.size(), wanted.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].kind, wanted[i].kind) << i;
        EXPECT_EQ(rows[i].prompt, wanted[i].prompt) << i;
        EXPECT_EQ(rows[i].starts && rows[i].ends, true) << i;
        if (rows[i].kind == Record::Kind::chat)
          EXPECT_EQ(parse_json(rows[i].text, "row"), parse_json(wanted[i].text, "row")) << i;
        else
          EXPECT_EQ(rows[i].text, wanted[i].text) << i;
      }
    }
  }
}

TEST(Parquet, ABuildWithoutZstdNamesThePackage) {
  if (parquet::has_zstd()) GTEST_SKIP() << "this build reads zstd";
  expect_parquet_failure(Code::unimplemented, "libzstd-dev",
                         [] { parquet_rows(data_path("text-zstd.parquet")); });
}

TEST(Parquet, ColumnsAreChosenByKeysAndListedWhenMissing) {
  const std::string answer = data_path("answer-plain.parquet"),
                    text = data_path("text-snappy.parquet");
  EXPECT_EQ(parquet_rows(answer, R"({"text_key": "response"})")[3].text, "6");
  EXPECT_EQ(parquet_rows(answer, R"({"prompt_key": "response", "response_key": "prompt"})")[3].text,
            "3 + 3 = ");
  expect_parquet_failure(Code::data_loss, "the columns are id, text",
                         [&] { parquet_rows(text, R"({"text_key": "body"})"); });
  expect_parquet_failure(Code::data_loss, "\"answer\" is missing next to \"prompt\"",
                         [&] { parquet_rows(answer, R"({"response_key": "answer"})"); });
  expect_parquet_failure(Code::unimplemented, "column id holds no texts",
                         [&] { parquet_rows(text, R"({"text_key": "id"})"); });
  expect_parquet_failure(Code::unimplemented, "column messages.list.element.role holds no texts",
                         [] {
                           parquet_rows(data_path("messages-plain.parquet"),
                                        R"({"text_key": "messages.list.element.role"})");
                         });
}

TEST(Parquet, ARowWithoutItsTextIsNamedOrLeftOut) {
  const std::string path = data_path("answer-plain.parquet");
  expect_parquet_failure(Code::data_loss, "answer-plain.parquet row 1: \"note\" is missing",
                         [&] { parquet_rows(path, R"({"text_key": "note"})"); });
  int64_t rejected = 0;
  const auto rows =
      parquet_rows(path, R"({"text_key": "note"})", nullptr, [&](const Error&) { ++rejected; });
  EXPECT_EQ(rows.size(), 0u);
  EXPECT_EQ(rejected, 30);
}

TEST(Parquet, IsRecognizedByNameAndMagicAndReadWithItsFolder) {
  Scratch scratch;
  const std::string bytes = read_text(data_path("text-snappy.parquet"));
  scratch.write("d/a.parquet", bytes);
  scratch.write("d/b", bytes);
  scratch.write("d/c.jsonl", read_text(data_path("text.jsonl")));
  EXPECT_EQ(parquet_rows(scratch.path("d")).size(), 120u);
  const std::string empty = scratch.write("e.parquet", "");
  expect_parquet_failure(Code::data_loss, "does not end as a Parquet file",
                         [&] { parquet_rows(empty); });
}

// Every cut, and every byte changed in some ways: rows, or an error that names the file.
TEST(Parquet, DamageIsAnErrorThatNamesTheFile) {
  Scratch scratch;
  for (const std::string name :
       {"messages-gzip-v2", "answer-delta_byte_array", "messages-snappy"}) {
    const std::string good = read_text(data_path(name + ".parquet"));
    const auto open = [&](const std::string& bytes) {
      try {
        parquet_rows(scratch.write("x.parquet", bytes));
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == Code::data_loss || e.code() == Code::unimplemented ||
                    e.code() == Code::resource_exhausted || e.code() == Code::not_found)
            << e.text();
        EXPECT_NE(e.text().find("x.parquet"), std::string::npos) << e.text();
        return false;
      }
      return true;
    };
    for (size_t size = 0; size < good.size(); ++size)
      EXPECT_FALSE(open(good.substr(0, size))) << size;
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int bits : {0x01, 0x90}) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ bits);
        open(bad);
      }
    }
  }
}

// Column `text` of hand-made pages.
std::vector<Record> rows_of(const test::ParquetColumn& column, int64_t rows) {
  Scratch scratch;
  return parquet_rows(scratch.write("x.parquet", test::parquet_file(column, rows)));
}

TEST(Parquet, ReadsPagesMadeByHand) {
  test::ParquetColumn column;
  column.pages = test::parquet_page(test::plain_text("a") + test::plain_text("b"), 2, 0, 2) +
                 test::parquet_page(std::string("\x01\x06\x01", 3), 3, 8) + // three times entry 1
                 test::parquet_page(test::plain_text("c"), 1);
  column.values = 4;
  const auto rows = rows_of(column, 4);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[2].text, "b");
  EXPECT_EQ(rows[3].text, "c");
  expect_parquet_failure(Code::data_loss, "column text, row group 1: fewer values than rows",
                         [&] { rows_of(column, 5); });
  expect_parquet_failure(Code::data_loss, "more values than rows", [&] { rows_of(column, 3); });
}

TEST(Parquet, RefusesWhatItDoesNotRead) {
  const std::string page = test::parquet_page(test::plain_text("a"), 1);
  const auto with = [&](auto change) {
    test::ParquetColumn column{page, 1};
    change(column);
    rows_of(column, 1);
  };
  using Column = test::ParquetColumn;
  expect_parquet_failure(Code::unimplemented, "compressed by brotli",
                         [&] { with([](Column& c) { c.codec = 4; }); });
  expect_parquet_failure(Code::unimplemented, "number 77",
                         [&] { with([](Column& c) { c.codec = 77; }); });
  expect_parquet_failure(Code::unimplemented, "holds no texts",
                         [&] { with([](Column& c) { c.physical = 7; }); });
  expect_parquet_failure(Code::data_loss, "data end at byte",
                         [&] { with([](Column& c) { c.size = int64_t{1} << 60; }); });
  expect_parquet_failure(Code::data_loss, "from byte 1",
                         [&] { with([](Column& c) { c.offset = 1; }); });
  expect_parquet_failure(Code::data_loss, "2 of 3 values have no page",
                         [&] { with([](Column& c) { c.values = 3; }); });
  expect_parquet_failure(Code::unimplemented, "a page is in encoding 9", [&] {
    with([](Column& c) { c.pages = test::parquet_page(test::plain_text("a"), 1, 9); });
  });
  expect_parquet_failure(Code::data_loss, "is not UTF-8", [&] {
    with([](Column& c) { c.pages = test::parquet_page(test::plain_text("a\xFF"), 1); });
  });
  Scratch scratch;
  const std::string secret = scratch.write("x.parquet", test::parquet_file({page, 1}, 1, "PARE"));
  expect_parquet_failure(Code::unimplemented, "encrypted", [&] { parquet_rows(secret); });
}

// Sizes that a page claims cost nothing before its bytes are there.
TEST(Parquet, ClaimedSizesTakeNoMemory) {
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return int64_t{1024} * usage.ru_maxrss;
  };
  const int64_t before = peak();
  test::ParquetColumn column;
  column.values = 1;
  for (const int64_t codec : {parquet::kSnappy, parquet::kGzip}) {
    column.codec = codec;
    column.pages = test::parquet_page("abcd", 1, 0, 0, int64_t{256} << 20);
    expect_parquet_failure(Code::data_loss, "data of a page are damaged",
                           [&] { rows_of(column, 1); });
    column.pages = test::parquet_page("abcd", 1, 0, 0, (int64_t{256} << 20) + 1);
    expect_parquet_failure(Code::resource_exhausted, "data_page_size", [&] { rows_of(column, 1); });
  }
  column.codec = parquet::kUncompressed;
  column.pages = test::parquet_page("abcd", int64_t{1} << 30, 0, 2);
  expect_parquet_failure(Code::resource_exhausted, "data_page_size", [&] { rows_of(column, 1); });
  column.pages = test::parquet_page("abcd", 1 << 20, 0, 2);
  expect_parquet_failure(Code::data_loss, "its dictionary is cut", [&] { rows_of(column, 1); });
  if (!test::kIsSanitized) {
    EXPECT_LT(peak() - before, 16 << 20);
  }
}

TEST(Parquet, StopsAtEveryCheckOfTheTask) {
  const auto open = [&](Task* task) {
    parquet_rows(data_path("messages-snappy.parquet"), "{}", task);
  };
  const int64_t checks = test::count_checks(open);
  EXPECT_GT(checks, 8);
  for (const int64_t at : test::some_of(checks)) EXPECT_LE(test::cancel_at(at, open), 0);
}

TEST(Snappy, RefusesCopiesFromBeforeTheText) {
  const auto made = [](std::string_view bytes, size_t size) {
    std::string to(size, '?');
    return parquet::decompress_snappy(bytes, to.data(), size, nullptr) ? to : "refused";
  };
  EXPECT_EQ(made(std::string_view("\x02\x04xy", 4), 2), "xy");
  EXPECT_EQ(made(std::string_view("\x08\x04xy\x09\x02", 6), 8), "xyxyxyxy"); // 6 bytes, from 2 back
  EXPECT_EQ(made(std::string_view("\x08\x04xy\x09\x03", 6), 8), "refused");  // from 3 back
  EXPECT_EQ(made(std::string_view("\x08\x04xy\x09\x00", 6), 8), "refused");
  EXPECT_EQ(made(std::string_view("\x07\x04xy\x09\x02", 6), 7), "refused"); // more than 7
  EXPECT_EQ(made(std::string_view("\x03\x04xy", 4), 3), "refused");
  EXPECT_EQ(made(std::string_view("\x02\x04x", 3), 2), "refused");
  EXPECT_EQ(made("", 0), "refused");
}

} // namespace
} // namespace dllm::text
