// Rows of JSON without a tree: what is taken and what is refused is what a whole parser takes and
// refuses.
#include "text/readers/readers.h"

#include "base/error.h"
#include "base/random.h"
#include "text/json_reader.h"

#include <gtest/gtest.h>

namespace dllm::text {
namespace {

std::string error_of(const std::string& json) {
  try {
    parse_record(json, "a.jsonl line 3", RecordKeys());
  } catch (const Error& e) {
    return e.text();
  }
  return "";
}

TEST(Record, TakesTheMembersItNeeds) {
  const Record text = parse_record(
      R"( {"id": 3, "meta": {"a": [1, {"text": "no"}, null]}, "text": "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude42"} )",
      "x", RecordKeys());
  EXPECT_EQ(text.text, "a\"\\/\b\f\n\r\t\u00e9\U0001F642");
  const Record ids =
      parse_record(R"({"ids": [ 1 , 2,2147483647 ], "keep": [0,1,1]})", "x", RecordKeys());
  EXPECT_EQ(ids.ids, (std::vector<int32_t>{1, 2, 2147483647}));
  EXPECT_EQ(ids.keep, (std::vector<uint8_t>{0, 1, 1}));
  const std::string chat = R"({"messages": [{"role": "user", "content": "hi"}], "a": 1})";
  EXPECT_EQ(parse_record(" " + chat + " ", "x", RecordKeys()).text,
            R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(parse_record(R"({"text": "a", "text": "b"})", "x", RecordKeys()).text, "b");
}

// A column of a table that has rows of several kinds is null in the others.
TEST(Record, NullIsNothing) {
  using Kind = Record::Kind;
  const std::string chat = R"("messages": [{"role": "user", "content": "q"}])";
  const std::pair<std::string, Kind> rows[] = {
      {R"({"prompt": "q", "response": null, )" + chat + "}", Kind::chat},
      {R"({"text": null, )" + chat + "}", Kind::chat},
      {R"({"ids": null, "keep": null, )" + chat + "}", Kind::chat},
      {R"({"prompt": [1], )" + chat + "}", Kind::chat},
      {R"({"messages": null, "prompt": "q", "response": "a"})", Kind::answer},
      {R"({"text": null, "prompt": "q", "response": "a"})", Kind::answer},
      {R"({"text": null, "prompt": null, "response": null, "ids": [1]})", Kind::ids},
      {R"({"text": null, "ids": [1], "messages": null})", Kind::ids},
      {R"({"text": "t", "prompt": null, "response": null, "messages": null})", Kind::text}};
  for (const auto& [row, kind] : rows)
    EXPECT_EQ(parse_record(row, "x", RecordKeys()).kind, kind) << row;
  EXPECT_EQ(error_of(R"({"text": null, "messages": null})"), "a.jsonl line 3: \"text\" is missing");
  EXPECT_EQ(error_of(R"({"prompt": "q", "response": null, "messages": null})"),
            "a.jsonl line 3: \"response\" is missing");
}

// Strings are scanned eight bytes at a time: every byte counts, wherever it lies in such a word.
TEST(Record, StringsEndWhereTheyEnd) {
  for (size_t size = 0; size <= 20; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string plain(size, 'x');
      for (const char c : {'!', '#', ' ', '[', ']', '\x7F'}) {
        plain[at] = c;
        EXPECT_EQ(parse_record("{\"text\": \"" + plain + "\"}", "x", RecordKeys()).text, plain);
      }
      const std::string escaped = plain.substr(0, at) + "\\\"" + plain.substr(at);
      const std::string text = plain.substr(0, at) + "\"" + plain.substr(at);
      EXPECT_EQ(parse_record("{\"text\": \"" + escaped + "\"}", "x", RecordKeys()).text, text);
      const std::string wide = plain.substr(0, at) + "\u00e9\u4e2d" + plain.substr(at);
      EXPECT_EQ(parse_record("{\"text\": \"" + wide + "\"}", "x", RecordKeys()).text, wide);
      for (const char c : {'\x00', '\x01', '\x1F', '\n', '\t'}) {
        std::string bad = plain;
        bad[at] = c;
        const std::string where = "is not valid JSON near byte " + std::to_string(11 + at);
        EXPECT_NE(error_of("{\"text\": \"" + bad + "\"}").find(where), std::string::npos)
            << at << " of " << size;
      }
      std::string broken = plain;
      broken[at] = '\xFF';
      const std::string where = "is not UTF-8 at byte " + std::to_string(11 + at);
      EXPECT_NE(error_of("{\"text\": \"" + broken + "\"}").find(where), std::string::npos)
          << at << " of " << size;
    }
  }
}

TEST(Record, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"text": null})", "\"text\" is missing"},
      {R"({"text": [1]})", "\"text\" must be a string, found array"},
      {R"({"text": true})", "\"text\" must be a string, found boolean"},
      {R"({"prompt": "a"})", "\"response\" is missing"},
      {R"({"ids": 3})", "\"ids\" must be an array, found number"},
      {R"({"ids": [1, -1]})", "ids[1] is not a token number"},
      {R"({"ids": [2147483648]})", "ids[0] is not a token number"},
      {R"({"ids": [1e99]})", "ids[0] is not a token number"},
      {R"({"ids": [1.5]})", "ids[0] is not a token number"},
      {R"({"ids": [[1]]})", "ids[0] is not a token number"},
      {R"({"ids": [1], "keep": [2]})", "keep[0] is neither 0 nor 1"},
      {R"({"ids": [1], "keep": {}})", "\"keep\" must be an array, found object"},
      {R"("text")", "expected an object, found string"},
      {"{}", "expected \"text\""},
      {R"({"text": "a"} x)", "is not valid JSON near byte 15"},
      {"", "is not valid JSON near byte 1"}};
  for (const auto& [json, part] : cases) {
    EXPECT_NE(error_of(json).find("a.jsonl line 3"), std::string::npos) << json;
    EXPECT_NE(error_of(json).find(part), std::string::npos) << json << ": " << error_of(json);
  }
  EXPECT_NE(error_of(R"({"a": )" + std::string(64, '[') + std::string(64, ']') + "}")
                .find("nested deeper than 64"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"text": "", "a": )" + std::string(63, '[') + std::string(63, ']') + "}"),
            "");
}

// Bytes of lines, exchanged, dropped, doubled: both parsers agree on each.
TEST(Record, AgreesWithAWholeParserOnBrokenLines) {
  const std::string seeds[] = {
      R"({"text": "caf\u00e9 \ud83d\ude42 \n", "n": [-0.5e+3, 0, 12, true, false, null, {}], "o": {"p": []}})",
      "{\"text\": \"\xC3\xA9\xF0\x9F\x99\x82\", \"x\": \"\\\\\"}",
      R"({"ids": [1, 2, 30], "keep": [0, 1, 1]})", R"({"prompt": "a", "response": "b", "z": 1.0})"};
  constexpr char kBytes[] = {'"', '\\', '{', '}', '[', ']', ',',  ':',    '0',
                             '-', '.',  'e', 'u', 't', ' ', '\n', '\x80', '\xC3'};
  const Key key = make_key(11);
  uint64_t draw = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(random_bits_at(key, draw++)) % n; };
  int good = 0, bad = 0;
  for (int round = 0; round < 40000; ++round) {
    std::string line = seeds[below(std::size(seeds))];
    for (size_t i = 1 + below(3); i > 0; --i) {
      const size_t at = below(line.size());
      switch (below(3)) {
      case 0: line[at] = kBytes[below(std::size(kBytes))]; break;
      case 1: line.erase(at, 1); break;
      default: line.insert(at, 1, line[below(line.size())]);
      }
    }
    const bool valid = TreeJson::accept(line);
    const std::string error = error_of(line);
    const bool refused = error.find("is not valid JSON") != std::string::npos ||
                         error.find("is not UTF-8") != std::string::npos;
    // A number too large for a double is refused by the tree alone: it stands where no row reads
    // it.
    ASSERT_EQ(valid, !refused) << line << "\n" << error;
    (valid ? good : bad) += 1;
    if (!error.empty()) continue;
    const TreeJson tree = parse_tree(line, "tree");
    const Record record = parse_record(line, "x", RecordKeys());
    if (tree.contains("text")) {
      ASSERT_EQ(record.text, tree["text"].get<std::string>()) << line;
    } else if (record.kind == Record::Kind::ids) {
      ASSERT_EQ(record.ids, tree["ids"].get<std::vector<int32_t>>()) << line;
    }
  }
  EXPECT_GT(good, 2000);
  EXPECT_GT(bad, 2000);
}

} // namespace
} // namespace dllm::text
