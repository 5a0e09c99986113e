#include "text/data/dataset.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "../tokenizer/golden.h"
#include "base/error.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

namespace dllm::text {
namespace {

Options with(const char* json) {
  Options options(dataset_schema());
  options.set_json(parse_json(json, "options"));
  return options;
}

std::string decoded(const Dataset& data, int64_t row) {
  return make_byte_tokenizer()->decode(data.row(row).ids, {});
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.text();
  }
  return "no error";
}

TEST(Dataset, FortunesAreSeparatedByPercentLines) {
  Scratch scratch;
  scratch.write("wise", "one\ntwo\n%\n\n%\n100 %\n%\nlast\n");
  scratch.write("wise.dat", "index");
  std::filesystem::create_symlink(scratch.path("wise"), scratch.path("wise.u8"));
  const auto data = Dataset::open(scratch.path(), nullptr, Options(dataset_schema()), nullptr);
  ASSERT_TRUE(data->is_text());
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->text(0), "one\ntwo\n");
  EXPECT_EQ(data->text(1), "100 %\n");
  EXPECT_EQ(data->text(2), "last\n");
}

TEST(Dataset, LinksOutOfAFolderAreItsFiles) {
  Scratch scratch, other; // as the snapshot and the blobs of a hub's cache
  scratch.write("a", "first\n");
  other.write("blob", "second\n");
  std::filesystem::create_symlink(other.path("blob"), scratch.path("b"));
  std::filesystem::create_symlink(scratch.path("a"), scratch.path("a.again"));
  std::filesystem::create_symlink(other.path(), scratch.path("folder"));
  std::filesystem::create_symlink(scratch.path(), scratch.path("loop"));
  std::filesystem::create_symlink(other.path("none"), scratch.path("dangling"));
  const auto data = Dataset::open(scratch.path(), nullptr, Options(dataset_schema()), nullptr);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->text(0), "first\n");
  EXPECT_EQ(data->text(1), "second\n");
}

TEST(Dataset, LongTextKeepsEveryByteInParts) {
  Scratch scratch;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i) + (i % 7 == 0 ? "\n\n" : "\n");
  const auto data = Dataset::open(scratch.write("a.txt", text), make_byte_tokenizer(),
                                  Options(dataset_schema()), nullptr);
  std::string back;
  ASSERT_GT(data->size(), 5);
  for (int64_t i = 0; i < data->size(); ++i) {
    EXPECT_EQ(data->row(i).starts, i == 0);
    back += decoded(*data, i);
  }
  EXPECT_EQ(back, text + "<|endoftext|>");
}

TEST(Dataset, RowsOfTextFiles) {
  Scratch scratch;
  const std::string file = scratch.write("a.txt", "a\nb\n\n \nc\r\nd");
  const auto lines = Dataset::open(file, nullptr, with(R"({"rows": "line"})"), nullptr);
  ASSERT_EQ(lines->size(), 4);
  EXPECT_EQ(lines->text(2), "c");
  const auto paragraphs = Dataset::open(file, nullptr, with(R"({"rows": "paragraph"})"), nullptr);
  ASSERT_EQ(paragraphs->size(), 2);
  EXPECT_EQ(paragraphs->text(0), "a\nb");
  EXPECT_EQ(paragraphs->text(1), "c\nd"); // lines of CR and LF
}

TEST(Dataset, PromptsAreKeptAsTheyAre) {
  Scratch scratch;
  const std::string file =
      scratch.write("a.jsonl", "{\"text\": \"abc\"}\n\n{\"prompt\": \"Q?\", \"response\": "
                               "\"A\"}\n{\"ids\": [1, 2], \"keep\": [1, 0]}\n");
  const auto data = Dataset::open(file, make_byte_tokenizer(), Options(dataset_schema()), nullptr);
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(decoded(*data, 1), "Q?A<|endoftext|>");
  EXPECT_EQ(std::vector<uint8_t>(data->row(0).keep.begin(), data->row(0).keep.end()),
            std::vector<uint8_t>(4, 0));
  EXPECT_EQ(std::vector<uint8_t>(data->row(1).keep.begin(), data->row(1).keep.end()),
            (std::vector<uint8_t>{1, 1, 0, 0}));
  EXPECT_EQ(std::vector<uint8_t>(data->row(2).keep.begin(), data->row(2).keep.end()),
            (std::vector<uint8_t>{1, 0, 0}));
}

TEST(Dataset, TextIsNeverReadAsSpecialTokens) {
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  data.add(R"({"text": "<|mask|>"})");
  EXPECT_EQ(data.row(0).ids.size(), 9u);
  Dataset parsed(make_byte_tokenizer(), with(R"({"parse_special": true})"));
  parsed.add(R"({"text": "<|mask|>"})");
  EXPECT_EQ(parsed.row(0).ids.size(), 2u);
}

TEST(Dataset, BadLinesAreNamed) {
  Scratch scratch;
  const auto tokenizer = make_byte_tokenizer();
  const auto open = [&](const std::string& content) {
    const std::string file = scratch.write("bad.jsonl", content);
    return message_of([&] { Dataset::open(file, tokenizer, Options(dataset_schema()), nullptr); });
  };
  EXPECT_NE(open("{\"text\": \"a\"}\n{\"text\": }\n").find("bad.jsonl line 2 is not valid JSON"),
            std::string::npos);
  EXPECT_NE(open("[1]\n").find("bad.jsonl line 1: expected an object, found array"),
            std::string::npos);
  EXPECT_NE(open("\n{\"prompt\": \"a\"}\n").find("line 2: \"response\" is missing"),
            std::string::npos);
  EXPECT_NE(open("{\"text\": 3}\n").find("\"text\" must be a string, found number"),
            std::string::npos);
  EXPECT_NE(open("{\"x\": 3}\n").find("expected \"text\""), std::string::npos);
  EXPECT_NE(open("\n{\"ids\": [258]}\n")
                .find("bad.jsonl line 2: token 258 is outside the vocabulary of 258"),
            std::string::npos);
  EXPECT_NE(open("{\"ids\": [1], \"keep\": []}\n").find("1 ids but 0 keep"), std::string::npos);
  EXPECT_NE(open("").find("holds no rows"), std::string::npos);
  scratch.write("mixed.jsonl", "{\"text\": \"a\"}\n{\"ids\": [1, 2]}\n");
  EXPECT_NE(message_of([&] {
              Dataset::open(scratch.path("mixed.jsonl"), nullptr, Options(dataset_schema()),
                            nullptr);
            }).find("mixed.jsonl line 2: the row has ids"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              Dataset::open(scratch.path("none"), nullptr, Options(dataset_schema()), nullptr);
            }).find("no file or folder"),
            std::string::npos);
}

TEST(Dataset, AddTakesAllOrNothing) {
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  EXPECT_THROW(data.add(R"([{"text": "a"}, {"ids": [999]}])"), Error);
  EXPECT_EQ(data.size(), 0);
  data.add(R"([{"text": "a"}, {"text": "b"}])");
  EXPECT_EQ(data.size(), 2);
}

TEST(Dataset, CountsTheBytesOfLearnedTokens) {
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  EXPECT_EQ(data.bytes_per_token(), 0);
  data.add(R"([{"text": "abc"}, {"prompt": "de", "response": "fg"}])");
  // Of what is learned: a token per byte, and an eos after each text. The prompt is given.
  EXPECT_EQ(data.bytes_per_token(), 5.0 / 7);
  data.add(R"({"ids": [65, 66, 67], "keep": [1, 0, 0]})"); // two letters are learned, and an eos
  EXPECT_EQ(data.bytes_per_token(), 7.0 / 10);
}

// The bytes of a conversation are those of its answers: the template's own tokens have no text.
TEST(Dataset, CountsTheBytesOfConversations) {
  Options options(dataset_schema());
  options.set_str("template", "chatml");
  const auto tokenizer = make_byte_tokenizer();
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) tokenizer->add_special_token(token);
  Dataset data(tokenizer, options);
  data.add(R"({"messages": [{"role": "user", "content": "a long question"},
                            {"role": "assistant", "content": "yes"}]})");
  std::vector<int32_t> learned;
  const TokenRow row = data.row(0);
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if (row.keep.empty() || row.keep[i] == 0) learned.push_back(row.ids[i]);
  }
  const auto bytes = tokenizer->decode(learned, {.skip_special = true}).size();
  ASSERT_GT(learned.size(), 3u);
  ASSERT_LT(learned.size(), row.ids.size());
  EXPECT_EQ(data.bytes_per_token(),
            static_cast<double>(bytes) / static_cast<double>(learned.size()));
}

TEST(Dataset, TokenFileComesBackEqual) {
  Scratch scratch;
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  data.add(R"([{"text": "hello"}, {"prompt": "a", "response": "bc"}, {"text": ""}])");
  const std::string path = scratch.path("rows.tok");
  data.save(path, false, nullptr);
  const auto back = Dataset::open(path, nullptr, Options(dataset_schema()), nullptr);
  ASSERT_EQ(back->size(), data.size());
  EXPECT_EQ(back->special().eos, 256);
  EXPECT_EQ(back->vocabulary_size(), 258);
  for (int64_t i = 0; i < data.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(back->row(i).ids, data.row(i).ids));
    EXPECT_TRUE(std::ranges::equal(back->row(i).keep, data.row(i).keep));
    EXPECT_EQ(back->row(i).starts, data.row(i).starts);
  }
  EXPECT_EQ(message_of([&] { back->add(R"({"ids": [1]})"); }),
            "rows cannot be added to a token file");
}

TEST(Dataset, EveryBrokenByteOfATokenFileIsSeen) {
  Scratch scratch;
  Dataset data(make_byte_tokenizer(), Options(dataset_schema()));
  data.add(R"([{"text": "hello"}, {"prompt": "a", "response": "bc"}])");
  data.save(scratch.path("rows.tok"), false, nullptr);
  const std::string good = read_text(scratch.path("rows.tok"));
  const auto padding =
      [&](size_t at) { // not covered by the hash: zeros up to the next multiple of 8
        return (at >= 80 + 24 + 2 && at < 80 + 24 + 8) ||
               (at >= 80 + 32 + 10 && at < 80 + 32 + 16) || at >= 80 + 48 + 20;
      };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    const std::string path = scratch.write("bad.tok", bad);
    Options options = with(R"({"format": "tokens"})");
    if (padding(i)) continue;
    EXPECT_THROW(Dataset::open(path, nullptr, options, nullptr), Error) << "byte " << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string path = scratch.write("bad.tok", good.substr(0, size));
    EXPECT_THROW(Dataset::open(path, nullptr, with(R"({"format": "tokens"})"), nullptr), Error)
        << size;
  }
}

TEST(Dataset, OpeningIsCancelledBetweenAndInsideOfRows) {
  Scratch scratch;
  std::string lines;
  for (int i = 0; i < 2000; ++i) lines += "line " + std::to_string(i) + "\n";
  const std::string many = scratch.write("many.txt", lines);
  const std::string one = scratch.write("one.txt", std::string(1 << 20, 'x'));
  for (const std::string& path : {many, one}) {
    const auto open = [&](Task* task) {
      Dataset::open(path, make_byte_tokenizer(), with(R"({"rows": "line"})"), task);
    };
    const int64_t checks = test::count_checks(open);
    EXPECT_GT(checks, 30) << path;
    for (const int64_t at : test::some_of(checks)) EXPECT_LE(test::cancel_at(at, open), 0);
  }
}

TEST(Dataset, RefusesWhatIsNoDocumentAndAddsNothing) {
  Dataset data(nullptr, Options(dataset_schema()));
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "row 0: the array is empty, expected a document"},
      {"7", "row 0"},
      {"{\"text\": 7}", "row 0: \"text\" must be a string, found number"},
      {"{}", "row 0: expected \"text\""},
      {"{\"text\": \"a\"", "row 0 is not valid JSON"},
      {"[{\"text\": \"a\"}, {\"prompt\": \"b\"}]", "row 0[1]: \"response\" is missing"}};
  for (const auto& [json, message] : cases) {
    try {
      data.add(json);
      ADD_FAILURE() << json << " is accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << json;
      EXPECT_NE(error.text().find(message), std::string::npos) << error.text();
    }
  }
  EXPECT_EQ(data.size(), 0);
  data.add(R"([{"text": "a"}, {"prompt": "b", "response": "c"}])");
  EXPECT_EQ(data.size(), 2);
}

} // namespace
} // namespace dllm::text
