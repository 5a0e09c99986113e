#include "text/data/dataset_spec.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "base/log.h"
#include "text/data/dataset.h"
#include "text/data/loader.h"
#include "unit/sanitized.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace dllm::text {
namespace {

Options options_of(const char* json) {
  Options options(dataset_schema());
  options.set_json(parse_json(json, "options"));
  return options;
}

// The rows of texts that a specification names, in order.
std::string rows(const std::string& spec) {
  const auto data = Dataset::open(spec, nullptr, options_of(R"({"rows": "line"})"), nullptr);
  std::string all;
  for (int64_t i = 0; i < data->size(); ++i) all += std::string(data->text(i)) + " ";
  return all;
}

std::string message_of(const std::string& spec) {
  try {
    rows(spec);
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

class DatasetSpec : public testing::Test {
protected:
  DatasetSpec() {
    a = scratch.write("a.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    b = scratch.write("b.txt", "x\ny\n");
  }
  Scratch scratch;
  std::string a, b;
};

TEST_F(DatasetSpec, Slices) {
  EXPECT_EQ(rows(a + "[:3]"), "0 1 2 ");
  EXPECT_EQ(rows(a + "[8:]"), "8 9 ");
  EXPECT_EQ(rows(a + "[90%:]"), "9 ");
  EXPECT_EQ(rows(a + "[-2:]"), "8 9 ");
  EXPECT_EQ(rows(a + "[20%:-50%]"), "2 3 4 ");
  EXPECT_EQ(rows(a + "[5:1000]"), "5 6 7 8 9 ");
}

TEST_F(DatasetSpec, MixturesAndTimes) {
  EXPECT_EQ(rows(b + "+" + a + "[:2]"), "x y 0 1 ");
  EXPECT_EQ(rows(b + "*2"), "x y x y ");
  EXPECT_EQ(rows(a + "*0.5"), "1 3 5 7 9 ");
  EXPECT_EQ(rows(a + "[:4]*1.5+" + b), "0 1 2 3 1 3 x y ");
  EXPECT_EQ(rows(scratch.path("*.txt") + "[9:]"), "9 x y ");
  EXPECT_EQ(rows(scratch.path("") + "*0.25"), "3 7 y ");
}

TEST_F(DatasetSpec, SplitsOfAFolder) {
  scratch.write("hub/data/train-00000-of-00002.txt", "a\nb\n");
  scratch.write("hub/data/train-00001-of-00002.txt", "c\nd\n");
  scratch.write("hub/data/training.txt", "other\n");
  scratch.write("hub/small/test/part.txt", "e\nf\n");
  const std::string hub = scratch.path("hub");
  EXPECT_EQ(rows(hub + "[train:3]"), "a b c ");
  EXPECT_EQ(rows(hub + "[name:small]"), "e f ");
  EXPECT_EQ(rows(hub + "[ name : small , test : 1 ]*2"), "e e ");
  EXPECT_EQ(rows(hub + "[test:1,train:1_0]+" + b), "e a b c d x y ");
  EXPECT_EQ(message_of(hub + "[dev:1]"), hub + " has no split dev");
  EXPECT_EQ(message_of(hub + "[train:all]"),
            "the rows of a split are all for train, expected a number from 1 on");
  EXPECT_EQ(message_of(a + "[train:1]"), a + " is not a folder");
}

TEST_F(DatasetSpec, NamesThatLookLikeASpecification) {
  EXPECT_EQ(rows(scratch.write("c+d[:1]*2", "whole\n")), "whole ");
}

TEST_F(DatasetSpec, ErrorsNameThePart) {
  EXPECT_EQ(message_of(b + "+nowhere[:2]"), "nowhere[:2]: there is no file or folder nowhere");
  EXPECT_EQ(message_of("nowhere"), "there is no file or folder nowhere");
  EXPECT_EQ(message_of(a + "*0"),
            a + "*0: its rows are repeated 0 times, expected more than 0 and at most 100");
  EXPECT_EQ(message_of(a + "[:x]"), a + "[:x]: x is not the end of a slice");
  EXPECT_EQ(message_of(a + "[3:3]"), a + "[3:3]: there are no rows from 3 to 3");
  EXPECT_EQ(message_of(a + "[20:]"), a + "[20:]: there are no rows from 20 on, it has 10");
  EXPECT_EQ(message_of(a + "+"), "a part of the data has no name");
}

TEST_F(DatasetSpec, ATokenFileMixesWithTexts) {
  const auto tokenizer = make_byte_tokenizer();
  const std::string tokens = scratch.path("b.tok");
  Dataset::open(b, tokenizer, options_of(R"({"rows": "line"})"), nullptr)
      ->save(tokens, false, nullptr);
  const auto data = Dataset::open(tokens + "*2+" + a + "[:1]", tokenizer,
                                  options_of(R"({"rows": "line"})"), nullptr);
  ASSERT_EQ(data->size(), 5);
  EXPECT_EQ(std::vector<int32_t>(data->row(2).ids.begin(), data->row(2).ids.end()),
            (std::vector<int32_t>{'x', 256}));
  EXPECT_EQ(data->row(4).ids[0], '0');
  auto other = make_byte_tokenizer();
  other->add_special_token("<|more|>");
  EXPECT_THROW(Dataset::open(tokens + "*2", other, options_of("{}"), nullptr), Error);
}

TEST_F(DatasetSpec, ATokenFileIsWrittenWhileTheDataIsRead) {
  const auto tokenizer = make_byte_tokenizer();
  const std::string lines = scratch.write(
      "rows.jsonl",
      "{\"text\": \"ab\"}\n{\"prompt\": \"c\", \"response\": \"d\"}\n{\"text\": \"e\"}\n");
  const std::string path = scratch.path("rows.tok");
  Options options = options_of("{}");
  const auto plain = Dataset::open(lines, tokenizer, options, nullptr);
  options.set_str("token_file", path);
  const auto data = Dataset::open(lines, tokenizer, options, nullptr);
  ASSERT_EQ(data->size(), plain->size());
  for (int64_t i = 0; i < data->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(data->row(i).ids, plain->row(i).ids));
    const TokenRow got = data->row(i), want = plain->row(i);
    for (size_t k = 0; k < want.ids.size(); ++k)
      EXPECT_EQ(got.keep[k], want.keep.empty() ? 0 : want.keep[k]);
  }
  EXPECT_EQ(data->bytes_per_token(), plain->bytes_per_token());
  EXPECT_TRUE(is_token_file(path));
  EXPECT_FALSE(file_exists(path + ".ids") || file_exists(path + ".keep"));
  EXPECT_THROW(Dataset::open(lines, tokenizer, options, nullptr), Error); // it is there already
  options.set_str("token_file", scratch.path("other.tok"));
  EXPECT_THROW(Dataset::open(lines, nullptr, options, nullptr), Error);
}

TEST_F(DatasetSpec, BadRowsAreLeftOutWhenAsked) {
  const std::string lines =
      scratch.write("rows.jsonl", "{\"text\": \"a\"}\n{oops\n{\"texts\": 1}\n{\"text\": \"b\"}\n");
  EXPECT_THROW(Dataset::open(lines, nullptr, options_of("{}"), nullptr), Error);
  log_config(LogLevel::warn, LogSink::queue);
  EXPECT_EQ(Dataset::open(lines, nullptr, options_of(R"({"bad_rows": "skip"})"), nullptr)->size(),
            2);
  const auto line = log_next();
  log_config(LogLevel::warn, LogSink::none);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->second.starts_with("2 rows were left out, the first: " + lines + " line 2"))
      << line->second;
}

// What a child adds to its largest memory while it makes a token file of `megabytes` of text.
int64_t growth(const Scratch& scratch, int64_t megabytes) {
  std::string line(99, 'x');
  line += "\n";
  std::string text;
  for (int64_t i = 0; i < megabytes * 10000; ++i) text += line;
  const std::string file = scratch.write("big.txt", text);
  text = {};
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::mallopt(M_MMAP_THRESHOLD,
              1 << 20); // freed blocks go back to the system, so that the peak is what was in use
    const auto peak = [] {
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      return int64_t{1024} * usage.ru_maxrss;
    };
    Options options = options_of(R"({"rows": "line"})");
    options.set_str("token_file", scratch.path("big" + std::to_string(megabytes) + ".tok"));
    const int64_t before = peak();
    Dataset::open(file, make_byte_tokenizer(), options, nullptr);
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

TEST_F(DatasetSpec, MemoryDoesNotGrowWithTheData) {
  if (test::kIsSanitized) GTEST_SKIP() << "the sanitizers need memory of their own";
  // 20 MB more of text are 80 MB of ids in memory; on the way to a file 200,000 rows of at most 32
  // bytes.
  const int64_t few = growth(scratch, 10), many = growth(scratch, 30);
  EXPECT_GE(few, 0);
  EXPECT_GE(many, 0);
  EXPECT_LT(many - few, int64_t{32} << 20);
}

} // namespace
} // namespace dllm::text
