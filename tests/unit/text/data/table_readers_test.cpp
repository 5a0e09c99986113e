// Files of CSV and of JSON arrays: what is read, and what is refused by its place.
#include "../scratch.h"
#include "base/error.h"
#include "base/log.h"
#include "gzip.h"
#include "text/data/dataset.h"
#include "text/readers/readers.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::text {
namespace {

using Texts = std::vector<std::string>;

// Returns "prompt|text" of each row, or the text alone; an error as its text and hint.
Texts rows_of(const std::string& path, const Json& values = Json::object(),
              Texts* rejected = nullptr) {
  Options options(dataset_schema());
  options.set_json(values);
  ReadSettings settings{options, record_readers()};
  if (rejected != nullptr)
    settings.reject = [&](const Error& error) { rejected->push_back(error.text()); };
  Texts rows;
  try {
    read_records(path, settings, [&](const Record& row) {
      rows.push_back(row.kind == Record::Kind::text ? row.text : row.prompt + "|" + row.text);
    });
  } catch (const Error& error) {
    rows.push_back(error.text() + " / " + error.hint());
  }
  return rows;
}

// Reads the file again and again, and cancels each time at another check of the task.
void expect_cancelled(const std::string& path) {
  const auto read = [&](Task* task) {
    Options options(dataset_schema());
    read_records(path, {options, record_readers(), task}, [](Record&&) {});
  };
  for (const int64_t check : test::some_of(test::count_checks(read))) test::cancel_at(check, read);
}

void expect_error(const Texts& rows, const std::string& part) {
  ASSERT_FALSE(rows.empty()) << part;
  EXPECT_NE(rows.back().find(part), std::string::npos) << rows.back();
}

TEST(Csv, ReadsWhatRfc4180Allows) {
  Scratch scratch;
  const std::pair<const char*, Texts> tables[] = {
      {"text\na\nb\n", {"a", "b"}},
      {"text\r\na\r\nb", {"a", "b"}},
      {"text\ra\rb\r", {"a", "b"}},
      {"\xEF\xBB\xBFtext\na\n", {"a"}},
      {"id,text\n1,\"a, b\"\n2,\"c \"\"d\"\"\"\n", {"a, b", "c \"d\""}},
      {"text,id\n\"a\r\nb\n\nc\",1\n", {"a\r\nb\n\nc"}},
      {"text;id\na,b;1\n", {"a,b"}},
      {"id\ttext\n1\ta,b;c\n", {"a,b;c"}},
      {"prompt,response\nq,a\n\n\"\",\"\"\n", {"q|a", "|"}},
      {"\"prompt\",\"response\"\nq\"r,a\"b\n", {"q\"r|a\"b"}},
      {"text\n", {}},
      {"", {}}};
  for (const auto& [table, rows] : tables) {
    EXPECT_EQ(rows_of(scratch.write("a.csv", table)), rows) << table;
    EXPECT_EQ(rows_of(scratch.write("a.csv.gz", test::gzip(table))), rows) << table;
    EXPECT_EQ(rows_of(scratch.write("b", table), {{"format", "csv"}}), rows) << table;
  }
  EXPECT_EQ(rows_of(scratch.write("a.tsv", "text\tb\na,b\t\n\"c\td\"\t2\n")),
            (Texts{"a,b", "c\td"}));
}

// A quote that opens in one window of the file and closes in another.
TEST(Csv, FieldsMayBeLongerThanAWindow) {
  Scratch scratch;
  std::string field, quoted;
  for (int i = 0; i < 700000; ++i) {
    field += i % 7 == 0 ? "\"\n" : "ab";
    quoted += i % 7 == 0 ? "\"\"\n" : "ab";
  }
  const std::string file =
      scratch.write("a.csv", "text,id\n\"" + quoted + "\",1\nx,2\n\"" + quoted + "\",3\n");
  EXPECT_EQ(rows_of(file), (Texts{field, "x", field}));
  expect_cancelled(file);
}

TEST(Csv, NamesThePlaceOfAFault) {
  Scratch scratch;
  const std::pair<const char*, const char*> tables[] = {
      {"id,text\n1,a\n2\n", "a.csv line 3: the row has 1 fields, the table has 2 columns"},
      {"id,text\n1,\"a\nb\"\n2,c,d\n", "a.csv line 4: the row has 3 fields"},
      {"text\n\"a\"b\n", "a.csv line 2: text follows the end quote of field 1"},
      {"text\na\n\"b\n\nc", "a.csv line 3: a quote of this row has no end"},
      {"text\n\xE9t\xE9\n", "a.csv line 2: field 1 is not UTF-8"},
      {"id,body\n1,a\n", "the columns are id, body"},
      {"prompt,chosen,rejected\na,b,c\n", "no objective learns from pairs"},
      {"\xFF\xFEt\0", "is UTF-16, not UTF-8"}};
  for (const auto& [table, part] : tables)
    expect_error(rows_of(scratch.write("a.csv", table)), part);
  Texts rejected;
  EXPECT_EQ(rows_of(scratch.write("a.csv", "text,id\na,1\nb\n\"c\"d,2\n\xE9,3\ne,4\n"),
                    Json::object(), &rejected),
            (Texts{"a", "e"}));
  EXPECT_EQ(rejected.size(), 3u);
}

TEST(JsonFile, ReadsArraysAndObjects) {
  Scratch scratch;
  const std::pair<const char*, Texts> files[] = {
      {R"([{"text": "a"}, {"text": "b"}])", {"a", "b"}},
      {" [ {\"text\" : \"a]\\\"}\"}\n,\n{\"text\": \"\\\\\"} ] \n", {"a]\"}", "\\"}},
      {"\xEF\xBB\xBF[{\"text\": \"a\", \"n\": {\"b\": [1, [2]]}}]", {"a"}},
      {"{\"text\": \"a\"}\n{\n \"text\": \"b\"\n}\n", {"a", "b"}},
      {R"({"text": "a"})", {"a"}},
      {R"([{"prompt": "q", "response": "a"}])", {"q|a"}},
      {"[]", {}},
      {" [ ] ", {}},
      {"", {}}};
  for (const auto& [file, rows] : files) {
    EXPECT_EQ(rows_of(scratch.write("a.json", file)), rows) << file;
    EXPECT_EQ(rows_of(scratch.write("a.json.gz", test::gzip(file))), rows) << file;
    EXPECT_EQ(rows_of(scratch.write("b", file), {{"format", "json"}}), rows) << file;
  }
}

TEST(JsonFile, OneObjectAtATimeIsInMemory) {
  Scratch scratch;
  std::string long_text;
  for (int i = 0; i < 300000; ++i) long_text += "[\\\"{";
  std::string file = "[";
  for (int i = 0; i < 4; ++i)
    file += std::string(i == 0 ? "" : ", ") + R"({"text": ")" + long_text + R"("})";
  const std::string path = scratch.write("a.json", file + "]");
  const Texts rows = rows_of(path);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].size(), 900000u);
  expect_cancelled(path);
}

TEST(JsonFile, NamesThePlaceOfAFault) {
  Scratch scratch;
  const std::pair<const char*, const char*> files[] = {
      {R"([{"text": "a"}, ])", "expected an object after row 1, found ]"},
      {R"([{"text": "a"} {"text": "b"}])", "expected a comma or ] after row 1"},
      {R"([{"text": "a"},)", "expected an object after row 1, found the end of the file"},
      {R"([{"text": "a"})", "expected a comma or ] after row 1, found the end of the file"},
      {R"([{"text": "a"}, {"text": "b)", "a.json row 2: the file ends inside of it"},
      {R"([{"text": "a\)", "a.json row 1: the file ends inside of it"},
      {R"([{"text": "a"}] x)", "expected the end of the file after row 1"},
      {R"(["text"])", "expected an object after row 0, found \""},
      {R"([{"text": 1}])", "a.json row 1: \"text\" must be a string, found number"},
      {R"([{"text": "a", }])", "a.json row 1 is not valid JSON near byte"},
      {"[{\"text\": \"\xFF\"}]", "a.json row 1 is not UTF-8 at byte"},
      {"\xFFnull", "expected an object after row 0, found byte 0xff"}};
  for (const auto& [file, part] : files) {
    SCOPED_TRACE(file);
    expect_error(rows_of(scratch.write("a.json", file)), part);
  }
  Texts rejected;
  EXPECT_EQ(rows_of(scratch.write("a.json", R"([{"text": "a"}, {"text": 1}, {"text": "b"}])"),
                    Json::object(), &rejected),
            (Texts{"a", "b"}));
  EXPECT_EQ(rejected,
            (Texts{scratch.path("a.json") + " row 2: \"text\" must be a string, found number"}));
}

TEST(TextFile, OtherContentIsRefusedInFoldersToo) {
  Scratch scratch;
  scratch.write("d/a.txt", "plain text");
  const std::string program = std::string("\x7F"
                                          "ELF\x02\x01\x01",
                                          7) +
                              std::string(40, '\0');
  scratch.write("d/b.bin", program);
  expect_error(rows_of(scratch.path("d")), "b.bin is not text");
  expect_error(rows_of(scratch.path("d/b.bin")), "--dataset.format text");
  Texts rejected;
  EXPECT_EQ(rows_of(scratch.path("d"), Json::object(), &rejected), (Texts{"plain text"}));
  EXPECT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rows_of(scratch.path("d/b.bin"), {{"format", "text"}}), (Texts{program}));
  std::string noise;
  for (int i = 0; i < 4096; ++i) noise += static_cast<char>(1 + (i * 37) % 255);
  expect_error(rows_of(scratch.write("noise", noise)), "noise is not text");
  // Accents of Latin-1 are few: they are read, with a warning.
  EXPECT_EQ(rows_of(scratch.write("latin", "voil\xE0 un texte")), (Texts{"voil\xE0 un texte"}));
  expect_error(rows_of(scratch.write("latin.jsonl", "{\"text\": \"voil\xE0\"}\n")),
               "is not UTF-8 at byte 15");
  expect_error(rows_of(scratch.write("latin.json", "[{\"text\": \"voil\xE0\"}]")), "iconv");
  expect_error(rows_of(scratch.write("twice.tsv", "text\tn\ttext\na\t1\tb\n")),
               "columns 1 and 3 are both named \"text\"");
  for (const char* name : {"u.txt", "u.jsonl", "u.json", "u.csv"})
    expect_error(rows_of(scratch.write(name, std::string_view("\xFE\xFF\0a", 4))), "is UTF-16");
}

// Opens rows as texts, and returns what was logged, or the error.
std::string said_of(const std::string& path, const Json& values) {
  Options options(dataset_schema());
  options.set_json(values);
  std::string said;
  log_hook(LogLevel::warn, [&](LogLevel, const std::string& line) { said += line + "\n"; });
  try {
    Dataset::open(path, nullptr, options, nullptr);
  } catch (const Error& error) {
    said = error.text();
  }
  log_hook(LogLevel::error, nullptr);
  return said;
}

TEST(Folders, LeaveOutTheIndexOfFortunesAlone) {
  Scratch scratch;
  scratch.write("d/more.dat", "data");
  scratch.write("d/wise", "one\n%\ntwo\n");
  scratch.write("d/wise.dat", "index");
  EXPECT_EQ(rows_of(scratch.path("d")), (Texts{"data", "one\n", "two\n"}));
}

TEST(RowNames, AMemberThatNoRowHasIsAnError) {
  Scratch scratch;
  const std::string rows =
      scratch.write("a.jsonl", "{\"body\": \"b\"}\n{\"prompt\": \"p\", \"response\": \"r\"}\n");
  const std::string table = scratch.write("a.csv", "id,prompt,completion\n1,p,c\n");
  EXPECT_EQ(said_of(rows, {{"text_key", "body"}}),
            "1 of 2 rows lack \"body\" and were read by the usual names\n");
  EXPECT_EQ(said_of(table, Json::object()), "");
  EXPECT_EQ(said_of(table, {{"text_key", "text"}}), ""); // the usual name
  const std::string nope = "no row was read by the member \"nope\" that is named";
  EXPECT_EQ(said_of(table, {{"text_key", "nope"}}), nope);
  EXPECT_EQ(said_of(rows, {{"text_key", "body"}, {"instruction_key", "nope"}}), nope);
  EXPECT_EQ(said_of(table, {{"text_key", "nope"}, {"prompt_key", "prompt"}}), nope);
  EXPECT_EQ(said_of(scratch.write("plain", "some text"), {{"text_key", "nope"}}), "");
}

TEST(Encodings, RowsThatAreNotUtf8AreCounted) {
  Scratch scratch;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += i % 20 == 9 ? "le caf\xE9 est ferm\xE9 aujourd'hui\n" : "le chat dort dans le jardin\n";
  const std::string path = scratch.write("latin", text);
  const std::string said = said_of(path, {{"rows", "line"}});
  EXPECT_NE(said.find("3 of 50 rows have bytes that are not UTF-8, the first is row 10"),
            std::string::npos)
      << said;
  EXPECT_NE(said_of(path, Json::object()).find("1 of 1 rows"), std::string::npos);
  EXPECT_EQ(said_of(path, {{"rows", "line"}, {"format", "text"}}), "");
}

} // namespace
} // namespace dllm::text
