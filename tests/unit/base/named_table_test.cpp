#include "base/named_table.h"

#include "base/options.h"
#include "base/word_list.h"
#include "decode/request/policy.h"
#include "graph/op.h"
#include "noise/objective.h"
#include "noise/schedules/schedule.h"
#include "tensor/weight_format.h"
#include "text/readers/readers.h"
#include "train/optimizer.h"
#include "train/trainer.h"
#include "unit/test_files.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <map>

namespace dllm {
namespace {

TEST(NamedTable, NearestFindsSlipsAndNothingElse) {
  const std::vector<std::string> names{"temperature", "top_k", "top_p", "steps"};
  EXPECT_EQ(nearest("temprature", names), "temperature");
  EXPECT_EQ(nearest("stesp", names), "steps");
  EXPECT_EQ(nearest("abdc", {"abc_", "abcd"}), "abcd"); // a swap is one change
  EXPECT_EQ(nearest("topp", names), "top_p");
  EXPECT_EQ(nearest("learning_rate", names), "");
  EXPECT_EQ(nearest("", {}), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), names), "");
}

struct Row {
  const char* name;
  int number;
};
constexpr std::array kRows{Row{"one", 1}, Row{"three", 3}};

TEST(NamedTable, FindsRowsOfValuesPointersAndPairs) {
  EXPECT_EQ(need_named(kRows, "three", &Row::name, {"row"}).number, 3);
  EXPECT_EQ(find_named(kRows, "two", &Row::name), nullptr);
  const std::array<const Row*, 2> pointers{&kRows[0], &kRows[1]};
  EXPECT_EQ(need_named(pointers, "one", &Row::name, {"row"}), &kRows[0]);
  const std::map<std::string, int> pairs{{"one", 1}, {"two", 2}};
  EXPECT_EQ(need_named(pairs, "two", kEntryName, {"pair"}).second, 2);
  EXPECT_EQ(names_of(pairs, kEntryName), (std::vector<std::string>{"one", "two"}));
}

TEST(NamedTable, TheErrorNamesKindNamePlaceAndNearest) {
  const Lookup lookup{"row", "in the table", "rows are numbers", Code::unimplemented};
  const Error near = test::error_of([&] { need_named(kRows, "thre", &Row::name, lookup); });
  EXPECT_EQ(near.code(), Code::unimplemented);
  EXPECT_EQ(near.text(), "there is no row named \"thre\" in the table");
  EXPECT_EQ(near.hint(), "did you mean three? rows are numbers");
  const Error far = test::error_of([&] { need_named(kRows, "seventeen", &Row::name, lookup); });
  EXPECT_EQ(far.hint(), "the names are one, three; rows are numbers");
}

TEST(NamedTable, ALongListOfNamesIsLeftOut) {
  const std::vector<std::string> many(400, "abcdef");
  const Error e = test::error_of([&] { fail_unnamed({"tensor"}, "zzzzzz", many); });
  EXPECT_EQ(e.hint(), "");
  EXPECT_EQ(test::error_of([] { fail_unnamed({"tensor"}, "q", {}); }).hint(), "");
}

// The tables of the library that a user names rows of.
struct Table {
  std::string kind, where;
  std::vector<std::string> names;
  std::function<void(const std::string&)> find;
};

std::vector<Table> tables() {
  std::vector<Table> all;
  all.push_back({"schedule", "", noise::schedule_names(),
                 [](const std::string& name) { noise::make_schedule(name); }});
  all.push_back({"objective", "", noise::objective_names(),
                 [](const std::string& name) { noise::objective_schema(name); }});
  all.push_back({"policy", "", decode::policy_names(),
                 [](const std::string& name) { decode::decoder_schema(name); }});
  all.push_back({"optimizer", "", train::optimizer_names(),
                 [](const std::string& name) { train::find_optimizer(name); }});
  all.push_back({"weight format", "", names_of(weight_formats(), &WeightFormat::name),
                 [](const std::string& name) { weight_format(name); }});
  all.push_back({"arithmetic", "", {"f32", "bf16", "int8"}, [](const std::string& name) {
                   arithmetic_named(name);
                 }});
  all.push_back({"element type", "", {"f32", "bf16", "i64", "u8"}, [](const std::string& name) {
                   dtype_from_name(name);
                 }});
  all.push_back({"format of records", "", text::record_readers().names(),
                 [](const std::string& name) { text::record_readers().find(name); }});
  all.push_back({"operation", "", names_of(graph::all_ops(), &graph::OpDef::name),
                 [](const std::string& name) { graph::find_op(name); }});
  const Schema& trainer = train::trainer_schema();
  all.push_back({"option", " of kind trainer", names_of(trainer.specs(), &OptionSpec::key),
                 [&trainer](const std::string& name) { trainer.find(name); }});
  return all;
}

TEST(WordList, IsAPartOfASentence) {
  EXPECT_EQ(word_list({}, "or"), "");
  EXPECT_EQ(word_list({"a"}, "or"), "a");
  EXPECT_EQ(word_list({"a", "b"}, "or"), "a or b");
  EXPECT_EQ(word_list({"a", "b", "c"}, "and"), "a, b and c");
}

TEST(NamedTable, EveryTableNamesTheNearestInTheSameSentence) {
  for (const Table& table : tables()) {
    ASSERT_GE(table.names.size(), 3u) << table.kind;
    for (const std::string& name : table.names) {
      const Error e = test::error_of([&] { table.find(name + "~"); });
      EXPECT_EQ(e.code(), Code::not_found) << table.kind;
      EXPECT_EQ(e.text(),
                fmt::format("there is no {} named \"{}~\"{}", table.kind, name, table.where));
      EXPECT_EQ(e.hint(), "did you mean " + name + "?");
      EXPECT_NO_THROW(table.find(name)) << table.kind << " " << name;
    }
  }
}

} // namespace
} // namespace dllm
