#include "base/options.h"

#include "base/error.h"
#include "unit/test_files.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace dllm {
namespace {

using test::error_of;
using test::expect_error;

const Schema& schema() {
  static const Schema instance("decoder",
                               {option_bool("greedy", false, "Take the most likely token."),
                                option_i64("steps", 64, 1, 1000, "Denoising steps."),
                                option_i64("seed", 0, INT64_MIN, INT64_MAX, "Seed."),
                                option_f64("temperature", 1.0, 0, 10, "Softness."),
                                option_f64("optimizer.lr", 1e-3, 0, 1, "Rate."),
                                option_str("label", "none", "Any text."),
                                option_choice("policy", "random", {"random", "margin"}, "Which."),
                                option_list("stop", {"</s>"}, "Stop texts.")});
  return instance;
}

TEST(Options, DefaultsAndSetters) {
  Options options(schema());
  EXPECT_EQ(options.i64("steps"), 64);
  EXPECT_FALSE(options.is_set("steps"));
  options.set_i64("steps", 10);
  options.set_i64("greedy", 1);
  options.set_i64("temperature", 2);
  options.set_str("policy", "margin");
  EXPECT_TRUE(options.is_set("steps"));
  EXPECT_EQ(options.i64("steps"), 10);
  EXPECT_TRUE(options.boolean("greedy"));
  EXPECT_EQ(options.f64("temperature"), 2.0);
  EXPECT_EQ(options.str("policy"), "margin");
  EXPECT_EQ(options.list("stop"), std::vector<std::string>{"</s>"});
  Options copy = options;
  copy.set_i64("steps", 20);
  EXPECT_EQ(options.i64("steps"), 10);
}

TEST(Options, UnknownKeyNamesTheNearest) {
  Options options(schema());
  const Error e = error_of([&] { options.set_i64("stpes", 1); });
  EXPECT_EQ(e.code(), Code::not_found);
  EXPECT_EQ(e.text(), "there is no option named \"stpes\" of kind decoder");
  EXPECT_EQ(e.hint(), "did you mean steps?");
  EXPECT_NE(error_of([&] { options.i64("zzzzzzzzz"); }).hint().find("the names are greedy, steps"),
            std::string::npos);
}

TEST(Options, EveryValueThatIsSetIsTakenOver) {
  Options given(schema());
  given.set_i64("steps", 7);
  given.set_f64("temperature", 1);
  given.set_str("policy", "margin");
  given.set_text("greedy", "true");
  given.set_text("stop", "a,b");
  Options own(schema());
  own.take_set(given);
  EXPECT_EQ(own.to_json(), given.to_json());
  own.set_i64("steps", 8);
  own.take_set(Options(schema())); // without a value that is set
  EXPECT_EQ(own.i64("steps"), 8);
}

TEST(Options, AValueThatTheOtherSchemaLacksOrRefusesIsAnError) {
  static const Schema narrow(
      "narrow", {option_i64("steps", 3, 1, 5, "s"), option_str("greedy", "", "another type")});
  Options given(schema());
  given.set_i64("steps", 4);
  Options own(narrow);
  own.take_set(given);
  EXPECT_EQ(own.i64("steps"), 4);
  const Options before = own;
  given.set_i64("steps", 6);
  expect_error(Code::invalid_argument, "out of bounds", [&] { own.take_set(given); });
  given.set_i64("steps", 5);
  given.set_f64("temperature", 1); // a third shared option that `narrow` was not given
  expect_error(Code::not_found, "no option named \"temperature\" of kind narrow",
               [&] { own.take_set(given); });
  Options typed(schema());
  typed.set_i64("greedy", 1);
  expect_error(Code::invalid_argument, "takes a text", [&] { own.take_set(typed); });
  EXPECT_EQ(own.to_json(), before.to_json());
}

TEST(Options, BadValuesAreRefusedAndChangeNothing) {
  Options options(schema());
  options.set_i64("steps", 5);
  const Error bounds = error_of([&] { options.set_i64("steps", 1001); });
  EXPECT_EQ(bounds.text(), "option steps = 1001 is out of bounds");
  EXPECT_EQ(bounds.hint(), "steps takes 1 to 1000");
  expect_error(Code::invalid_argument, "out of bounds", [&] { options.set_i64("steps", 0); });
  expect_error(Code::invalid_argument,
               "option steps takes a whole number, not a number with a fraction",
               [&] { options.set_f64("steps", 1.0); });
  expect_error(Code::invalid_argument, "option steps takes a whole number, not a text",
               [&] { options.set_str("steps", "1"); });
  expect_error(Code::invalid_argument, "option greedy takes true or false, not 2",
               [&] { options.set_i64("greedy", 2); });
  expect_error(Code::invalid_argument, "must not be NaN",
               [&] { options.set_f64("temperature", std::nan("")); });
  expect_error(Code::invalid_argument, "out of bounds",
               [&] { options.set_f64("temperature", INFINITY); });
  const Error choice = error_of([&] { options.set_str("policy", "margins"); });
  EXPECT_EQ(choice.text(), "option policy has no choice \"margins\"");
  EXPECT_EQ(choice.hint(), "policy is one of: random, margin");
  EXPECT_EQ(options.i64("steps"), 5);
}

TEST(Options, ElementsOfAListAreChecked) {
  const Schema lists("lists", {option_list("stop", {}, "Texts."), option_ids("ids", "Token ids."),
                               option_list("layers", {}, "Ranges.", ListOf::texts_and_numbers)});
  Options options(lists);
  options.set_json(parse_json(R"({"stop":["a",""],"ids":[0,"7"],"layers":[0,"2-3"]})", "x"));
  EXPECT_EQ(options.list("stop"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(options.list("ids"), (std::vector<std::string>{"0", "7"}));
  EXPECT_EQ(options.list("layers"), (std::vector<std::string>{"0", "2-3"}));
  const Json before = options.to_json();
  const std::pair<const char*, const char*> alone[] = {{R"({"stop":"a"})", "write [\"a\"]"},
                                                       {R"({"stop":1})", "write [\"1\"]"},
                                                       {R"({"layers":1})", "write [1]"},
                                                       {R"({"ids":7})", "write [7]"}};
  for (const auto& [text, hint] : alone) {
    const auto json = parse_json(text, "x");
    EXPECT_EQ(error_of([&] { options.set_json(json); }).hint(), hint) << text;
  }
  for (const char* text : {R"({"stop":{}})", R"({"stop":{"a":1}})"}) {
    const auto json = parse_json(text, "x");
    EXPECT_EQ(error_of([&] { options.set_json(json); }).text(),
              "option stop takes a list of texts, not an object");
  }
  for (const char* text : {R"({"foo":{}})", R"({"foo":{"stop":[]}})"}) {
    const auto json = parse_json(text, "x");
    EXPECT_EQ(error_of([&] { options.set_json(json); }).code(), Code::not_found) << text;
  }
  const std::pair<const char*, const char*> bad[] = {
      {R"({"stop":["a",13]})", "option stop[1] is 13, not a text"},
      {R"({"stop":[null]})", "option stop[0] is null, not a text"},
      {R"({"stop":[["a"]]})", "option stop[0] is [\"a\"], not a text"},
      {R"({"stop":[{"a":1}]})", "option stop[0] is {\"a\":1}, not a text"},
      {R"({"ids":[1,-1]})", "option ids[1] is -1, not a token id"},
      {R"({"ids":[1.5]})", "option ids[0] is 1.5, not a token id"},
      {R"({"ids":[true]})", "option ids[0] is true, not a token id"},
      {R"({"ids":[99999999999999999999]})", "option ids[0] is 1e+20, not a token id"},
      {R"({"layers":[false]})", "option layers[0] is false, not a text"}};
  for (const auto& [text, message] : bad) {
    const auto json = parse_json(text, "x");
    const Error error = error_of([&] { options.set_json(json); });
    EXPECT_EQ(error.code(), Code::invalid_argument) << text;
    EXPECT_EQ(error.what(), std::string(message));
    EXPECT_NE(error.hint(), "") << text;
    EXPECT_EQ(options.to_json(), before) << text;
  }
}

TEST(Options, JsonIsAllOrNothing) {
  Options options(schema());
  options.set_json(parse_json(
      R"({"steps":7,"optimizer":{"lr":0.5},"stop":["a","1"],"greedy":true,"temperature":3})", "x"));
  EXPECT_EQ(options.i64("steps"), 7);
  EXPECT_EQ(options.f64("optimizer.lr"), 0.5);
  EXPECT_EQ(options.list("stop"), (std::vector<std::string>{"a", "1"}));
  EXPECT_EQ(options.f64("temperature"), 3.0);
  const Json before = options.to_json();
  for (const char* bad : {R"({"steps":8,"nothing":1})", R"({"steps":8,"optimizer":{"rate":1}})",
                          R"({"steps":8,"policy":"x"})", R"({"greedy":false,"steps":1.5})",
                          R"({"steps":"8"})", R"({"steps":null})", R"([1])", "7"}) {
    EXPECT_THROW(options.set_json(parse_json(bad, "x")), Error) << bad;
    EXPECT_EQ(options.to_json(), before) << bad;
  }
}

TEST(Options, IntegersKeepAll64Bits) {
  Options options(schema());
  options.set_json(parse_json(R"({"seed":9223372036854775807})", "x"));
  EXPECT_EQ(options.i64("seed"), INT64_MAX);
  options.set_json(parse_json(R"({"seed":-9223372036854775808})", "x"));
  EXPECT_EQ(options.i64("seed"), INT64_MIN);
  expect_error(Code::invalid_argument, "seed",
               [&] { options.set_json(parse_json(R"({"seed":9223372036854775808})", "x")); });
  expect_error(Code::invalid_argument, "seed",
               [&] { options.set_json(parse_json(R"({"seed":18446744073709551615})", "x")); });
  EXPECT_EQ(options.i64("seed"), INT64_MIN);
  options.set_text("seed", "9223372036854775807");
  EXPECT_EQ(options.i64("seed"), INT64_MAX);
  expect_error(Code::invalid_argument, "seed",
               [&] { options.set_text("seed", "9223372036854775808"); });
}

TEST(Options, TextOfACommandLine) {
  Options options(schema());
  options.set_text("steps", "1e2");
  EXPECT_EQ(options.i64("steps"), 100);
  options.set_text("temperature", "0.25");
  EXPECT_EQ(options.f64("temperature"), 0.25);
  options.set_text("greedy", "on");
  EXPECT_TRUE(options.boolean("greedy"));
  options.set_text("stop", "a,b,");
  EXPECT_EQ(options.list("stop"), (std::vector<std::string>{"a", "b", ""}));
  options.set_text("stop", "");
  EXPECT_TRUE(options.list("stop").empty());
  for (const auto& [key, text] :
       std::vector<std::pair<std::string, std::string>>{{"steps", "1.5"},
                                                        {"steps", "x"},
                                                        {"steps", "5x"},
                                                        {"steps", ""},
                                                        {"greedy", "maybe"},
                                                        {"temperature", "nan"}}) {
    EXPECT_THROW(options.set_text(key, text), Error) << key << "=" << text;
  }
}

TEST(Options, SchemaDescribesItself) {
  const Json described = schema().to_json();
  EXPECT_EQ(described["kind"], "decoder");
  ASSERT_EQ(described["keys"].size(), 8u);
  EXPECT_EQ(described["keys"][1]["name"], "steps");
  EXPECT_EQ(described["keys"][1]["type"], "i64");
  EXPECT_EQ(described["keys"][1]["max"], 1000);
  EXPECT_EQ(described["keys"][6]["choices"][1], "margin");
  EXPECT_EQ(described["keys"][7]["default"][0], "</s>");
}

} // namespace
} // namespace dllm
