// The table of record formats, and content that is compressed.
#include "text/readers/readers.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "../tokenizer/golden.h"
#include "base/error.h"
#include "gzip.h"
#include "text/data/dataset.h"
#include "unit/cancel.h"
#include "unit/sanitized.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dllm::text {
namespace {

Options dataset_options(const char* json, const Schema& schema = dataset_schema()) {
  Options options(schema);
  options.set_json(parse_json(json, "options"));
  return options;
}

std::shared_ptr<Dataset> open_texts(const std::string& path, const char* json = "{}",
                                    Task* task = nullptr) {
  return Dataset::open(path, nullptr, dataset_options(json), task);
}

std::vector<std::string> texts_of(const Dataset& data) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < data.size(); ++i) texts.emplace_back(data.text(i));
  return texts;
}

std::vector<std::string> texts_of(const std::string& path, const char* json = "{}") {
  return texts_of(*open_texts(path, json));
}

void expect_failure(Code code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error, expected " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.text();
    EXPECT_NE((e.text() + " " + e.hint()).find(part), std::string::npos) << e.text() << "\n"
                                                                         << e.hint();
  }
}

// A format of a test: one file and one line in a table. The column named by its option is the text
// of a row.
void read_columns(const ReadJob& job, const RecordSink& sink) {
  TextWindow text(open_bytes(job.file, job.task), kMaxRecord);
  const auto column = job.options.i64("column");
  while (const auto raw = text.next_line()) {
    std::string_view line = without_end(*raw);
    for (int64_t i = 0; i < column; ++i) {
      const size_t tab = line.find('\t');
      if (tab == std::string_view::npos)
        fail(Code::data_loss, "{} line {}: expected {} columns, found {}", text.path(), text.line(),
             column + 1, i + 1);
      line.remove_prefix(tab + 1);
    }
    give_text(line.substr(0, line.find('\t')), sink);
  }
}

const ReaderTable& table_with_columns() {
  static const ReaderTable table = [] {
    std::vector<Reader> readers = record_readers().all();
    readers.insert(
        readers.begin(),
        {.name = "columns",
         .endings = {".tsv"},
         .recognizes = [](const FileHead& f) { return f.head.starts_with("#columns\t"); },
         .options = {option_i64("column", 0, 0, 99, "the column to read")},
         .read = read_columns});
    return ReaderTable(std::move(readers));
  }();
  return table;
}

TEST(ReaderTable, TakesAFormatWithItsOptionsEndingsAndMagic) {
  static const Schema schema = make_dataset_schema(table_with_columns());
  Scratch scratch;
  const auto open = [&](const std::string& path, const char* json) {
    return texts_of(*Dataset::open(path, nullptr, dataset_options(json, schema), nullptr,
                                   table_with_columns()));
  };
  using Texts = std::vector<std::string>;
  const std::string tsv = scratch.write("d/a.tsv", "a\tb\nc\td\n");
  EXPECT_EQ(open(tsv, "{}"), (Texts{"a", "c"}));
  EXPECT_EQ(open(tsv, R"({"column": 1})"), (Texts{"b", "d"}));
  EXPECT_EQ(open(tsv, R"({"format": "text", "rows": "line"})"), (Texts{"a\tb", "c\td"}));
  const std::string other = scratch.write("d/b", "#columns\tx\ny\tz\n");
  EXPECT_EQ(open(other, R"({"column": 1})"), (Texts{"x", "z"}));
  scratch.write("d/c.tsv.gz", test::gzip("e\tf\n"));
  EXPECT_EQ(open(scratch.path("d"), R"({"column": 1})"), (Texts{"b", "d", "x", "z", "f"}));
  expect_failure(Code::data_loss, "a.tsv line 1: expected 3 columns, found 2",
                 [&] { open(tsv, R"({"column": 2})"); });
  // The library's own table does not have it.
  EXPECT_EQ(texts_of(tsv, R"({"format": "text", "rows": "line"})"), (Texts{"a\tb", "c\td"}));
  expect_failure(Code::invalid_argument, "tokens",
                 [&] { open_texts(tsv, R"({"format": "columns"})"); });
}

TEST(ReaderTable, NamesItsFormatsWhereverTheyAreListed) {
  const std::vector<std::string> names = record_readers().names();
  EXPECT_EQ(names, (std::vector<std::string>{"tokens", "parquet", "jsonl", "json", "csv",
                                             "fortunes", "text"}));
  const OptionSpec& option = dataset_schema().find("format");
  EXPECT_EQ(option.choices.size(), names.size() + 1);
  for (const std::string& name : names)
    EXPECT_NE(std::find(option.choices.begin(), option.choices.end(), name), option.choices.end())
        << name;
  expect_failure(Code::not_found, "the names are tokens, parquet, jsonl, json, csv, fortunes, text",
                 [] { record_readers().find("spreadsheet"); });
  Scratch scratch;
  const auto file = std::make_shared<const InputFile>(scratch.write("a.txt", "text"));
  const ReaderTable lines_alone({record_readers().find("jsonl")});
  expect_failure(Code::invalid_argument, "format: jsonl",
                 [&] { lines_alone.detect(file, nullptr); });
}

TEST(ReaderTable, DetectsByNameIndexAndMagic) {
  Scratch scratch;
  const auto detected = [&](const std::string& name, std::string_view content) {
    return record_readers()
        .detect(std::make_shared<const InputFile>(scratch.write(name, content)), nullptr)
        .name;
  };
  scratch.write("wise.dat", "index");
  EXPECT_EQ(detected("a.txt", "text"), "text");
  EXPECT_EQ(detected("empty", ""), "text");
  EXPECT_EQ(detected("a.jsonl", "text"), "jsonl");
  EXPECT_EQ(detected("a.ndjson", ""), "jsonl");
  EXPECT_EQ(detected("a.json", "{}"), "json");
  EXPECT_EQ(detected("array", " [ {\"text\": 1}]"), "json");
  EXPECT_EQ(detected("brackets", "[{an aside}]"), "text");
  for (const std::string& text :
       std::vector<std::string>{"{\"text\": \"a\"}\n{\"text\": \"b\"}\n",
                                "\xEF\xBB\xBF{ \"text\": \"a\"}", "{\"a key of many words\": 1}"}) {
    for (const char* name : {"lines", "lines.txt"})
      EXPECT_EQ(detected(name, text), "jsonl") << name;
    EXPECT_EQ(detected("lines.txt.gz", test::gzip_repeated(text, 1)), "jsonl") << text;
  }
  EXPECT_EQ(detected("braces.txt", "{an aside}\n"), "text");
  EXPECT_EQ(detected("brace.txt", "{"), "text");
  EXPECT_EQ(detected("book.ipynb", "{\"cells\": []}"), "text");
  EXPECT_EQ(detected("a.csv", "text"), "csv");
  EXPECT_EQ(detected("a.tsv", "text"), "csv");
  EXPECT_EQ(detected("a.CSV", "text"), "csv");
  EXPECT_EQ(detected("a.JSONL", "text"), "jsonl");
  EXPECT_EQ(detected("a.jsonlines", "text"), "jsonl");
  EXPECT_EQ(detected("A.PARQUET", ""), "parquet");
  EXPECT_EQ(detected("a.CSV.GZ", test::gzip("text")), "csv");
  EXPECT_EQ(detected("wise", "a\n%\n"), "fortunes");
  EXPECT_EQ(detected("rows", "dllmtok1 and more"), "tokens");
  EXPECT_EQ(detected("a.parquet", ""), "parquet");
  EXPECT_EQ(detected("b", "PAR1 and more"), "parquet");
  for (const char* name : {"a.jsonl.gz", "b.jsonl"})
    EXPECT_EQ(detected(name, test::gzip("{}")), "jsonl") << name;
  EXPECT_EQ(detected("wise.gz", test::gzip("a\n%\n")), "fortunes");
  EXPECT_EQ(detected("a.txt.gz", test::gzip("text")), "text");
}

TEST(ReaderTable, ATokenFileIsOpenedAlone) {
  Scratch scratch;
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  data.add(R"({"text": "hello"})");
  make_directories(scratch.path("d"));
  data.save(scratch.path("d/rows.tok"), false, nullptr);
  expect_failure(Code::invalid_argument, "rows.tok is of format tokens", [&] {
    Dataset::open(scratch.path("d"), make_byte_tokenizer(), Options(dataset_schema()), nullptr);
  });
  const std::string packed =
      scratch.write("rows.tok.gz", test::gzip(read_text(scratch.path("d/rows.tok"))));
  expect_failure(Code::invalid_argument, "gunzip", [&] { open_texts(packed); });
}

TEST(Gzip, GivesTheRowsOfTheTextItHolds) {
  Scratch scratch;
  std::string text, rows;
  for (int i = 0; i < 60000; ++i) { // several windows
    text += "line " + std::to_string(i * 7919 % 10007) + (i % 11 == 0 ? "\n\n" : "\n");
    rows += R"({"text": "row )" + std::to_string(i) + "\"}\n";
  }
  for (const char* json :
       {"{}", R"({"rows": "line"})", R"({"rows": "paragraph"})", R"({"format": "fortunes"})"}) {
    EXPECT_EQ(texts_of(scratch.write("a.txt.gz", test::gzip(text)), json),
              texts_of(scratch.write("a.txt", text), json));
  }
  EXPECT_EQ(texts_of(scratch.write("b", test::gzip(text))),
            texts_of(scratch.path("a.txt"))); // whatever its name
  EXPECT_EQ(texts_of(scratch.write("a.jsonl.gz", test::gzip(rows))),
            texts_of(scratch.write("a.jsonl", rows)));
  EXPECT_EQ(texts_of(scratch.write("b.jsonl", test::gzip(rows))).size(), 60000u);
  // With a tokenizer a row ends where the text ends, not before the checksum.
  const auto whole = Dataset::open(scratch.path("a.txt"), make_byte_tokenizer(),
                                   Options(dataset_schema()), nullptr);
  const auto packed = Dataset::open(scratch.path("a.txt.gz"), make_byte_tokenizer(),
                                    Options(dataset_schema()), nullptr);
  EXPECT_EQ(packed->tokens(), whole->tokens());
}

TEST(Gzip, ReadsMembersInARowAndZerosBehindThem) {
  Scratch scratch;
  const std::string members = test::gzip("one\ntw") + test::gzip("") + test::gzip("o\nthree");
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(scratch.write("a.gz", members), R"({"rows": "line"})"),
            (Texts{"one", "two", "three"}));
  EXPECT_EQ(
      texts_of(scratch.write("a.gz", members + std::string(100000, '\0')), R"({"rows": "line"})")
          .size(),
      3u);
  const std::string at = std::to_string(members.size());
  for (const std::string& tail :
       {std::string("x"), std::string("\0x", 2), std::string("\0\x1F\x8B", 3)}) {
    const std::string path = scratch.write("a.gz", members + tail);
    expect_failure(Code::data_loss, "a.gz: the bytes after the gzip data, from byte " + at,
                   [&] { open_texts(path); });
  }
  const std::string cut = scratch.write("a.gz", members + "\x1F\x8B");
  expect_failure(Code::data_loss, "inside gzip data that begins at byte " + at,
                 [&] { open_texts(cut); });
}

TEST(Gzip, EveryCutAndEveryBrokenByteIsNamed) {
  Scratch scratch;
  const std::string good =
      test::gzip("{\"text\": \"some words of a row\"}\n{\"text\": \"and others\"}\n");
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string path = scratch.write("a.jsonl.gz", good.substr(0, size));
    expect_failure(Code::data_loss, "a.jsonl.gz ends at byte " + std::to_string(size),
                   [&] { open_texts(path); });
  }
  const std::vector<std::string> rows = texts_of(scratch.write("a.jsonl.gz", good));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    const std::string path = scratch.write("a.jsonl.gz", bad);
    if (i >= 4 && i < 10) { // time, level and system of the header mean nothing to the content
      EXPECT_EQ(texts_of(path), rows) << i;
      continue;
    }
    expect_failure(Code::data_loss, "a.jsonl.gz", [&] { open_texts(path); });
  }
  const std::string text = scratch.write("a.gz", "no gzip data");
  expect_failure(Code::data_loss, "a.gz: damaged gzip data near byte 2: incorrect header check",
                 [&] { open_texts(text); });
}

// Memory that a child needs to open `path`; it ends as `ends` wants it.
int64_t peak_of_opening(const std::string& path, const char* json, Code ends) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto peak = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return int64_t{1024} * usage.ru_maxrss;
    };
    const int64_t before = peak();
    Code code = Code::ok;
    try {
      read_records(path, {dataset_options(json), record_readers()}, [](Record) {});
    } catch (const Error& e) {
      code = e.code();
    }
    const int64_t grown = code == ends ? peak() - before : -1;
    ::_exit(::write(pipe_ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  int64_t grown = -1;
  const bool got = ::read(pipe_ends[0], &grown, sizeof grown) == sizeof grown;
  ::waitpid(child, nullptr, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  return got ? grown : -1;
}

TEST(Gzip, ABombMeetsTheLimitsOfRowsInBoundedMemory) {
  if (test::kIsSanitized) GTEST_SKIP() << "the sanitizers need memory of their own";
  Scratch scratch;
  constexpr size_t kSize = size_t{32} << 20;
  const std::string one = scratch.write("one.jsonl.gz", test::gzip_repeated("x", 8 * kSize));
  const std::string blank = scratch.write("blank.jsonl.gz", test::gzip_repeated("\n", kSize));
  const std::string lines = scratch.write("lines.gz", test::gzip_repeated("ab\n", kSize / 3));
  EXPECT_LT(file_size(one), 1 << 20);
  const int64_t long_line = peak_of_opening(one, "{}", Code::resource_exhausted);
  EXPECT_GE(long_line, 0);
  EXPECT_LT(long_line, kMaxRecord + (kMaxRecord / 2));
  for (const auto& [path, json] :
       {std::pair(blank, "{}"), std::pair(lines, R"({"rows": "line"})"), std::pair(lines, "{}")}) {
    const int64_t peak = peak_of_opening(path, json, Code::ok);
    EXPECT_GE(peak, 0) << path;
    EXPECT_LT(peak, 8 << 20) << path;
  }
}

TEST(Gzip, StopsBetweenPiecesThatHoldNoRow) {
  Scratch scratch;
  const std::string blank =
      scratch.write("blank.jsonl.gz", test::gzip_repeated("\n", size_t{2} << 20));
  std::string members;
  for (int i = 0; i < 3000; ++i) members += test::gzip("");
  const std::string empty =
      scratch.write("empty.jsonl.gz", members + test::gzip("{\"text\": \"a\"}\n"));
  const auto read = [](const std::string& path, Task* task) {
    read_records(path, {Options(dataset_schema()), record_readers(), task}, [](Record) {});
  };
  for (const std::string& path : {blank, empty}) {
    const auto open = [&](Task* task) { read(path, task); };
    const int64_t checks = test::count_checks(open);
    EXPECT_GT(checks, 60) << path;
    for (const int64_t at : test::some_of(checks)) EXPECT_LE(test::cancel_at(at, open), 0) << path;
  }
}

TEST(TextWindow, GivesTheSameLinesWhateverTheirLength) {
  Scratch scratch;
  std::string text;
  std::vector<size_t> lengths;
  for (int i = 0; i < 40; ++i) {
    lengths.push_back(size_t{1} << (i % 22)); // up to 2 MiB, over several windows
    text += std::string(lengths.back(), static_cast<char>('a' + i % 26)) + "\n";
  }
  for (const std::string& path :
       {scratch.write("a", text), scratch.write("a.gz", test::gzip(text))}) {
    TextWindow window(open_bytes(std::make_shared<const InputFile>(path), nullptr),
                      int64_t{2} << 20);
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto line = window.next_line();
      ASSERT_TRUE(line.has_value());
      EXPECT_TRUE(without_end(*line) == std::string(lengths[i], static_cast<char>('a' + i % 26)))
          << i;
    }
    EXPECT_FALSE(window.next_line().has_value());
  }
}

} // namespace
} // namespace dllm::text
