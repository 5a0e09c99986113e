// Files behind an open dataset: what they are, and that they change.
#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "../tokenizer/golden.h"
#include "base/error.h"
#include "text/data/loader.h"
#include "unit/sanitized.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dllm::text {
namespace {

Options options_of(const Schema& schema, const char* json) {
  Options options(schema);
  options.set_json(parse_json(json, "options"));
  return options;
}

std::shared_ptr<Dataset> open_rows(const std::string& path, const char* json = "{}") {
  return Dataset::open(path, make_byte_tokenizer(), options_of(dataset_schema(), json), nullptr);
}

Loader load_rows(std::shared_ptr<const Dataset> data) {
  return Loader(std::move(data),
                options_of(loader_schema(), R"({"batch": 2, "length": 8, "epochs": 0})"));
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::ok, "no error");
}

void expect_error(Code code, const std::string& part, const std::function<void()>& call) {
  const Error e = error_of(call);
  EXPECT_EQ(e.code(), code) << e.text();
  EXPECT_NE(e.text().find(part), std::string::npos) << e.text();
}

// As an editor or `>` does it: the same file, other bytes.
void write_over(const std::string& path, std::string_view content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC);
  ASSERT_EQ(::write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  const timespec times[2] = {{1, 0}, {1, 0}}; // clocks of files are coarse
  ::futimens(fd, times);
  ::close(fd);
}

std::string token_file(const Scratch& scratch, const std::string& name) {
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  for (int i = 0; i < 4000; ++i) data.add(R"({"text": "some words in a row"})");
  const std::string path = scratch.path(name);
  data.save(path, false, nullptr);
  return path;
}

TEST(ChangedFiles, ABatchAfterAChangeNamesTheFile) {
  Scratch scratch;
  const std::string text = "some words\nof a text\n", rows = "{\"text\": \"some words\"}\n";
  for (const auto& [name, content] : {std::pair("a.txt", text), std::pair("a.jsonl", rows)}) {
    const std::string path = scratch.write(name, content);
    Loader loader = load_rows(open_rows(path));
    loader.next();
    const int64_t before = loader.position();
    write_over(path, content);
    expect_error(Code::data_loss, path + " changed while it was in use", [&] { loader.next(); });
    EXPECT_EQ(loader.position(), before);
    scratch.write(name, content + content); // replaced by another file
    expect_error(Code::data_loss, path + " changed", [&] { loader.next(); });
    remove_all(path); // the rows are in memory
    EXPECT_NO_THROW(loader.next());
  }
}

TEST(ChangedFiles, OneOfManyIsFoundWithinAFewBatches) {
  Scratch scratch;
  for (int i = 0; i < 200; ++i) scratch.write("d/" + std::to_string(i), "some words in a text\n");
  Loader loader = load_rows(open_rows(scratch.path("d")));
  loader.next();
  write_over(scratch.path("d/77"), "other");
  expect_error(Code::data_loss, "d/77 changed", [&] {
    for (int i = 0; i < 13; ++i) loader.next();
  });
}

TEST(ChangedFiles, ATokenFileThatShrinksIsAnErrorNotASignal) {
  Scratch scratch;
  const std::string path = token_file(scratch, "rows.tok");
  const auto data = open_rows(path);
  Loader loader = load_rows(data);
  loader.next();
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  expect_error(Code::data_loss, path + " changed while it was in use", [&] { loader.next(); });
  expect_error(Code::data_loss, path + " changed", [&] { data->row(3999); });
  expect_error(Code::data_loss, path + " changed", [&] {
    load_rows(data); // a split looks at every row
    Loader split(data, options_of(loader_schema(), R"({"split": "train"})"));
  });
}

TEST(ChangedFiles, ATokenFileGivesTheBatchesOfItsRowsInMemory) {
  Scratch scratch;
  const auto tokenizer = make_byte_tokenizer();
  const auto data = std::make_shared<Dataset>(tokenizer, Options(dataset_schema()));
  for (int i = 0; i < 300; ++i) {
    data->add(
        R"({"prompt": ")" + std::string(static_cast<size_t>(i % 7), 'p') + R"(", "response": ")" +
        std::string(static_cast<size_t>(i * i % 41), static_cast<char>('a' + i % 26)) + "\"}");
  }
  data->save(scratch.path("rows.tok"), false, nullptr);
  const std::shared_ptr<const Dataset> back = open_rows(scratch.path("rows.tok"));
  for (const char* json :
       {R"({"length": 16})", R"({"length": 200, "split": "train", "split_fraction": 0.3})",
        R"({"length": 16, "pack": false, "truncate": "left"})",
        R"({"length": 16, "pack": false, "truncate": "drop", "split": "held_out"})"}) {
    Loader a(data, options_of(loader_schema(), json)), b(back, options_of(loader_schema(), json));
    ASSERT_EQ(a.sequences(), b.sequences()) << json;
    while (auto batch = a.try_next()) {
      const auto same = b.try_next();
      ASSERT_TRUE(same.has_value());
      for (const char* name : {"ids", "keep", "segments"}) {
        const Tensor &x = batch->at(name), &y = same->at(name);
        ASSERT_EQ(std::memcmp(x.bytes(), y.bytes(), static_cast<size_t>(x.byte_size())), 0)
            << json << name;
      }
    }
  }
}

TEST(ChangedFiles, PipesAndDevicesAreRefused) {
  Scratch scratch;
  const std::string pipe = scratch.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* json : {"{}", R"({"format": "tokens"})", R"({"format": "jsonl"})"}) {
    const Error e = error_of([&] { open_rows(pipe, json); });
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_EQ(e.text(), pipe + " is not a regular file: it is a pipe");
    EXPECT_NE(e.hint().find("write its content to a file first"), std::string::npos);
  }
  expect_error(Code::invalid_argument, "it is a device", [&] { open_rows("/dev/zero"); });
}

TEST(ChangedFiles, ASavedDatasetReplacesTokenFilesAlone) {
  Scratch scratch;
  const std::string path = token_file(scratch, "rows.tok"), other = scratch.write("thesis", "mine");
  const auto data = open_rows(path);
  expect_error(Code::already_exists, "is there already", [&] { data->save(path, false, nullptr); });
  expect_error(Code::already_exists, "it is not a token file",
               [&] { data->save(other, true, nullptr); });
  EXPECT_EQ(read_text(other), "mine");
  data->save(path, true, nullptr);
  EXPECT_EQ(open_rows(path)->tokens(), data->tokens());
}

TEST(LongLines, AreRefusedWithTheirNumber) {
  Scratch scratch;
  const std::string path = scratch.write("a.jsonl", "{\"text\": \"a\"}\n");
  ASSERT_EQ(::truncate(path.c_str(), int64_t{80} << 20), 0); // a second line of zeros, without end
  expect_error(Code::resource_exhausted, "a.jsonl line 2 has more than 67108864 bytes",
               [&] { open_rows(path); });
  expect_error(Code::resource_exhausted, "line 2 has more than",
               [&] { open_rows(path, R"({"format": "text", "rows": "line"})"); });
}

TEST(LongLines, TheWindowLosesNoByte) {
  Scratch scratch;
  std::string text;
  std::vector<std::string> lines;
  // Lines around and above the window of 1 MB.
  for (const size_t size : {1048574u, 1u, 1048575u, 1048576u, 3u, 3000001u, 700000u, 700000u}) {
    lines.emplace_back(size, static_cast<char>('a' + lines.size()));
    text += lines.back() + (lines.size() % 2 == 0 ? "\r\n" : "\n");
  }
  const std::string path = scratch.write("a.txt", text);
  const auto rows =
      Dataset::open(path, nullptr, options_of(dataset_schema(), R"({"rows": "line"})"), nullptr);
  ASSERT_EQ(rows->size(), static_cast<int64_t>(lines.size()));
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_TRUE(rows->text(static_cast<int64_t>(i)) == lines[i]) << i;
  const auto parts = Dataset::open(path, nullptr, Options(dataset_schema()), nullptr);
  std::string back;
  for (int64_t i = 0; i < parts->size(); ++i) back += parts->text(i);
  EXPECT_TRUE(back == text);
}

// Peak of the memory in which a child reads `path`, in bytes.
int64_t peak_of_reading(const std::string& path) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto peak = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return int64_t{1024} * usage.ru_maxrss;
    };
    const int64_t before = peak();
    read_records(path, {options_of(dataset_schema(), R"({"format": "jsonl"})"), record_readers()},
                 [](Record) {});
    const int64_t grown = peak() - before;
    ::_exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  int64_t grown = -1;
  const bool received = ::read(ends[0], &grown, sizeof grown) == sizeof grown;
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  return received ? grown : -1;
}

TEST(LongLines, CostAtMostThreeTimesTheirSize) {
  if (test::kIsSanitized) GTEST_SKIP() << "the sanitizers need memory of their own";
  Scratch scratch;
  constexpr size_t kSize = size_t{48} << 20;
  std::string ids = R"({"ids": [)";
  while (ids.size() < kSize) ids += "7,12,";
  ids += "1]}\n";
  std::string text = R"({"text": ")" + std::string(kSize, 'x') + "\"}\n";
  std::string nested = R"({"other": [)";
  while (nested.size() < kSize) nested += "[],";
  nested += "[]], \"text\": \"a\"}\n";
  for (std::string* line : {&ids, &text, &nested}) {
    const std::string path = scratch.write("a.jsonl", *line);
    const auto size = static_cast<int64_t>(line->size());
    *line = {}; // what is freed here the child could use unseen
    const int64_t peak = peak_of_reading(path);
    ASSERT_GE(peak, 0);
    EXPECT_LT(peak, 3 * size + (8 << 20)) << static_cast<double>(peak) / static_cast<double>(size);
  }
}

} // namespace
} // namespace dllm::text
