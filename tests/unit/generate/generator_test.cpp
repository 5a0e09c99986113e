#include "generate/generator.h"

#include "base/error.h"
#include "base/task.h"
#include "decode/request/policy.h"
#include "generate/holes.h"
#include "text/automaton/byte_automaton.h"
#include "texts.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::generate {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<user>' if m.role == 'user' else '<bot>' }}{{ m.content }}<end>"
    "{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}";

Generator make(const Json& values = Json::object(), const Json& file = Json::object()) {
  return Generator(small_model(file), letters(kTemplate), settings(values));
}

std::string text_of(Generator& generator, const Json& values,
                    TextPart part = TextPart::completion) {
  const int64_t number = generator.add(request(values));
  generator.run();
  const std::string text = generator.text(number, part);
  generator.remove(number);
  return text;
}

const Json kDrawn = {{"prompt", "the old man"}, {"length", 24}, {"temperature", 1.0}, {"seed", 5}};

Json with(Json values, const Json& more) {
  values.update(more);
  return values;
}

TEST(Generator, WritesWhatADecoderWrites) {
  const auto model = small_model();
  const auto tokenizer = letters();
  Options options(decode::decoder_schema("low_confidence"));
  options.set_json({{"gen_length", 24}, {"temperature", 1.0}});
  decode::Decoder decoder(model, options);
  decoder.start(tokenizer->encode("the old man"), 5);
  decoder.run();

  Generator generator(model, tokenizer, settings());
  const int64_t number = generator.add(request(with(kDrawn, {{"stop_ids", {29}}})));
  generator.run();
  EXPECT_EQ(generator.describe(number).at("ids"), Json(decoder.request(0).ids));
}

// One request alone, with others, by steps, and with a callback.
TEST(Generator, SameTextInEveryWay) {
  Generator alone = make();
  const std::string wanted = text_of(alone, kDrawn);
  ASSERT_FALSE(wanted.empty());

  Generator many = make();
  std::vector<int64_t> numbers;
  for (const Json& more : {Json({{"seed", 1}}), Json(), Json({{"policy", "random"}, {"steps", 4}}),
                           Json({{"stop", {"a", "e"}}})})
    numbers.push_back(many.add(request(more.is_null() ? kDrawn : with(kDrawn, more))));
  while (many.step() > 0) {
  }
  EXPECT_EQ(many.text(numbers[1], TextPart::completion), wanted);

  Generator watched = make();
  const int64_t number = watched.add(request(kDrawn));
  std::string pieces;
  int64_t answers = 0;
  EXPECT_TRUE(watched.run([&](const Event& event) {
    if (event.kind() == EventKind::text) pieces += std::get<std::string>(*event.find("text"));
    if (event.kind() == EventKind::answer) {
      EXPECT_EQ(std::get<std::string>(*event.find("completion")), wanted);
      ++answers;
    }
    return Answer::go_on;
  }));
  EXPECT_EQ(pieces, wanted);
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(watched.text(number, TextPart::completion), wanted);
  EXPECT_EQ(watched.text(number, TextPart::whole), "the old man" + wanted);
}

// Each policy that decodes this model: the pieces are the completion, and the canvas can be read.
// A caller that steps, and one that watches a run, both get all of a text.
TEST(Generator, EventsTakeNoTextFromACaller) {
  for (const char* policy : {"autoregressive", "low_confidence"}) {
    const Json values = with(kDrawn, {{"policy", policy}});
    Generator generator = make();
    const std::string wanted = text_of(generator, values);
    const int64_t number = generator.add(request(values));
    std::string stepped, watched;
    for (int i = 0; i < 5; ++i) {
      generator.step();
      stepped += generator.text(number, TextPart::next);
    }
    generator.run([&](const Event& event) {
      if (event.kind() == EventKind::text) watched += std::get<std::string>(*event.find("text"));
      return Answer::go_on;
    });
    stepped += generator.text(number, TextPart::next);
    EXPECT_EQ(stepped, wanted) << policy;
    EXPECT_EQ(watched, wanted) << policy;
    EXPECT_EQ(generator.text(number, TextPart::next), "");
  }
}

TEST(Generator, EveryPolicy) {
  int tried = 0;
  for (const std::string& policy : decode::policy_names()) {
    Generator generator = make();
    int64_t number = 0;
    std::string pieces;
    try {
      number = generator.add(request(
          {{"prompt", "a man"}, {"length", 16}, {"policy", policy}, {"seed", 3}, {"steps", 8}}));
    } catch (const Error& error) {
      EXPECT_FALSE(error.text().empty()) << policy; // the policy needs another model
      continue;
    }
    generator.run([&](const Event& event) {
      if (event.kind() != EventKind::text) return Answer::go_on;
      pieces += std::get<std::string>(*event.find("text"));
      EXPECT_NO_THROW(find_holes(std::get<std::string>(*event.find("canvas")))) << policy;
      return Answer::go_on;
    });
    const Json about = generator.describe(number);
    if (about.at("finish") == "failed") continue; // the policy needs another model
    EXPECT_EQ(pieces, about.at("completion")) << policy;
    EXPECT_NE(about.at("finish"), "open") << policy;
    ++tried;
  }
  EXPECT_GT(tried, 12);
}

// No open positions: an empty answer under policies of fixed canvases. editflow inserts.
TEST(Generator, LengthZeroIsAllowed) {
  Generator generator = make({{"policy", "low_confidence"}});
  EXPECT_EQ(text_of(generator, {{"prompt", "the old"}, {"length", 0}}), "");
  EXPECT_EQ(text_of(generator, {{"prompt", "the old"}, {"length", 0}}, TextPart::whole), "the old");
}

TEST(Generator, StopTextEndsARequestEarly) {
  Generator generator = make();
  const Json ordered = with(kDrawn, {{"policy", "autoregressive"}, {"stop_ids", {31}}});
  const std::string whole = text_of(generator, ordered);
  ASSERT_GT(whole.size(), 12u);
  const std::string stop = whole.substr(6, 2);
  const int64_t number = generator.add(request(with(ordered, {{"stop", {stop}}})));
  generator.run();
  const Json about = generator.describe(number);
  EXPECT_EQ(about.at("completion"), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(about.at("finish"), "stop_text");
  EXPECT_GT(about.at("open").get<int64_t>(), 0) << "later positions are not decoded";
  EXPECT_EQ(about.at("completion_tokens"), whole.find(stop)) << "a token is a letter";
}

// The rules of text/answer/text_ends.h besides the stop texts.
TEST(Generator, StopPatternEndsARequestEarly) {
  Generator generator = make();
  const Json ordered = with(kDrawn, {{"policy", "autoregressive"}, {"stop_ids", {31}}});
  const std::string whole = text_of(generator, ordered);
  ASSERT_GT(whole.size(), 12u);
  const std::string stop = whole.substr(6, 2);
  const std::string pattern = text::escaped_pattern(stop.substr(0, 1)) + "+" +
                              text::escaped_pattern(stop.substr(1)) + "|\\n{3}";
  const int64_t texts = generator.add(request(with(ordered, {{"stop", {stop}}})));
  const int64_t number = generator.add(request(with(ordered, {{"stop_pattern", pattern}})));
  std::string pieces;
  generator.run([&](const Event& event) {
    if (event.kind() == EventKind::text && std::get<int64_t>(*event.find("request")) == number)
      pieces += std::get<std::string>(*event.find("text"));
    return Answer::go_on;
  });
  const Json about = generator.describe(number);
  EXPECT_EQ(about.at("completion"), generator.describe(texts).at("completion"));
  EXPECT_EQ(about.at("completion"), pieces);
  EXPECT_EQ(about.at("finish"), "stop_text");
  EXPECT_GT(about.at("open").get<int64_t>(), 0) << "later positions are not decoded";
}

TEST(Generator, RulesOfTheEndAreRefusedWhereTheyDoNotCount) {
  Generator generator = make();
  const auto refusal = [&](const Json& settings) {
    try {
      generator.add(request(settings));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      return error.text();
    }
    return std::string();
  };
  EXPECT_EQ(refusal({{"infill", "a <mask:4>"}, {"stop_pattern", "b"}}),
            "option stop_pattern does not count for an infill");
  EXPECT_EQ(
      refusal({{"prompt", "a"}, {"stop_pattern", "b"}, {"choices", {"b"}}}),
      "option stop_pattern cuts the text that regex, choices, json_schema or grammar ask for");
  EXPECT_EQ(refusal({{"prompt", "a"}, {"stop", {"a", ""}}}), "stop[1] is empty");
}

TEST(Generator, AFailureEndsItsRequestAlone) {
  Json all = Json::array();
  for (int id = 0; id < 32; ++id) all.push_back(std::to_string(id));
  Generator generator = make();
  const std::string wanted = text_of(generator, kDrawn);
  const int64_t good = generator.add(request(kDrawn));
  const int64_t bad = generator.add(request(with(kDrawn, {{"suppress", all}})));
  int failed = 0;
  generator.run([&](const Event& event) {
    failed += event.kind() == EventKind::answer && event.find("error") != nullptr;
    return Answer::go_on;
  });
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(generator.text(good, TextPart::completion), wanted);
  EXPECT_EQ(generator.describe(bad).at("finish"), "failed");
  EXPECT_EQ(generator.describe(bad).at("error").at("code"), "failed_precondition");
  EXPECT_THROW(generator.text(bad, TextPart::completion), Error);
  generator.remove(good);
  generator.remove(bad);
  const int64_t again = generator.add(request(with(kDrawn, {{"suppress", all}})));
  EXPECT_NO_THROW(generator.run()) << "alone too";
  EXPECT_EQ(generator.describe(again).at("finish"), "failed");
}

TEST(Generator, FillsHoles) {
  Generator generator = make();
  const int64_t number =
      generator.add(request({{"infill", "the <mask:3> man <mask> went"}, {"temperature", 1.0}}));
  generator.run();
  const Json about = generator.describe(number);
  const auto text = about.at("text").get<std::string>();
  EXPECT_EQ(about.at("holes").size(), 2u);
  EXPECT_EQ(text.substr(0, 4), "the ");
  EXPECT_EQ(text.substr(text.size() - 5), " went");
  EXPECT_EQ(about.at("completion_tokens"), 4);
  EXPECT_EQ(about.at("finish"), "full");
  EXPECT_THROW(generator.add(request({{"infill", "no hole"}})), Error);
  EXPECT_THROW(generator.add(request({{"infill", "<mask>"}, {"prompt", "a"}})), Error);
}

TEST(Generator, ContinuesMessages) {
  Generator generator = make();
  const Json messages = {{{"role", "user"}, {"content", "hello"}}};
  const int64_t number = generator.add(request({{"messages", messages}, {"length", 8}}));
  generator.run();
  const Json about = generator.describe(number);
  EXPECT_EQ(about.at("prompt_tokens"), 8) << "<user>hello<end><bot>";
  EXPECT_EQ(about.at("end_tokens").at(0), kEnd);
  Generator plain(small_model(), letters(), settings());
  EXPECT_THROW(plain.add(request({{"messages", messages}})), Error) << "no chat template";
}

// The end of a turn is read from the messages of the request, which a template may rely on.
TEST(Generator, RendersNoOtherMessages) {
  const Json user = {{"role", "user"}, {"content", "hello"}, {"tone", "calm"}},
             system = {{"role", "system"}, {"content", "be kind"}};
  const auto ends_of = [](const std::string& chat_template, const Json& messages) {
    Generator generator(small_model(), letters(chat_template), settings());
    return generator.describe(generator.add(request({{"messages", messages}, {"length", 8}})))
        .at("end_tokens");
  };
  const std::string strict =
      "{% if messages[0].role != 'system' %}{{ raise_exception('no system') }}{% endif %}";
  EXPECT_EQ(ends_of(strict + kTemplate, {system, user}).at(0), kEnd);
  EXPECT_EQ(ends_of(std::string("{{ messages[1].tone }}") + kTemplate, {system, user}).at(0), kEnd);
  EXPECT_NO_THROW(ends_of("{{ messages[1].content }}", {system, user})) << "it writes no answer";
  EXPECT_THROW(ends_of(strict + kTemplate, Json::array({user})), Error);
}

TEST(Generator, TakesTheFileOfSettings) {
  Generator generator = make(Json::object(), {{"gen_length", 5}, {"temperature", 1.0}});
  const int64_t number = generator.add(request({{"prompt", "a"}}));
  EXPECT_EQ(generator.describe(number).at("open"), 5);
  EXPECT_EQ(generator.describe(number).at("from_file").at("taken").at("temperature"), 1.0);
  Generator without = make({{"defaults", false}}, {{"gen_length", 5}});
  EXPECT_EQ(without.describe(without.add(request({{"prompt", "a"}}))).at("open"), 64);
}

TEST(Generator, StopsAndContinues) {
  Generator generator = make();
  const std::string wanted = text_of(generator, kDrawn);
  const int64_t number = generator.add(request(kDrawn));
  int events = 0;
  EXPECT_FALSE(generator.run([&](const Event&) {
    EXPECT_THROW(generator.add(request(kDrawn)), Error) << "inside the callback";
    EXPECT_THROW(generator.remove(number), Error);
    EXPECT_THROW(generator.step(), Error);
    EXPECT_NO_THROW(generator.text(number, TextPart::completion));
    return ++events < 3 ? Answer::go_on : Answer::stop;
  }));
  EXPECT_EQ(events, 3);
  EXPECT_EQ(generator.open_count(), 1);
  EXPECT_THROW(generator.run([](const Event&) { return Answer::fail; }), Error);
  Task task;
  task.cancel();
  EXPECT_THROW(generator.run(nullptr, &task), Error);
  EXPECT_THROW(generator.step(&task), Error);
  EXPECT_TRUE(generator.run());
  EXPECT_EQ(generator.text(number, TextPart::completion), wanted);
}

// After a stop the callback is not called again, and a later run sends what was left.
TEST(Generator, AStopIsTheLastCall) {
  Generator generator = make();
  for (int seed = 0; seed < 3; ++seed)
    generator.add(request(with(kDrawn, {{"seed", seed}, {"stop", {"qqqq"}}})));
  int calls = 0, answers = 0;
  EXPECT_FALSE(generator.run([&](const Event&) {
    ++calls;
    return Answer::stop;
  }));
  EXPECT_EQ(calls, 1);
  while (generator.step() > 0) {
  }
  EXPECT_TRUE(generator.run([&](const Event& event) {
    answers += event.kind() == EventKind::answer;
    return Answer::go_on;
  }));
  EXPECT_EQ(answers, 3);
}

TEST(Generator, RefusesByName) {
  Generator generator = make();
  EXPECT_THROW(generator.add(request({{"infill", "a<mask>"}, {"stop", {"e"}}})), Error);
  EXPECT_THROW(generator.add(request({{"infill", "a<mask>"}, {"stop_ids", {"3"}}})), Error);
  EXPECT_THROW(generator.step(), Error) << "no request";
  EXPECT_THROW(generator.text(0, TextPart::completion), Error);
  EXPECT_THROW(generator.remove(0), Error);
  EXPECT_THROW(generator.add(request({{"prompt", "a"}, {"length", 4000}})), Error);
  EXPECT_THROW(generator.add(request({{"prompt", "a"}, {"stop_ids", {"99"}}})), Error);
  EXPECT_EQ(generator.describe().at("requests"), 0);
}

// Returns the description of a request that ran to its end.
Json description_of(const char* policy, Json values) {
  Generator generator(small_model(), letters(), settings({{"policy", policy}}));
  values.update({{"prompt", "the old"}, {"length", 8}, {"suppress_mask", true}});
  const int64_t number = generator.add(generator.reader()->read(request(values), nullptr));
  generator.run();
  return generator.describe(number);
}

TEST(Generator, ABiasIsAddedToTheLogitsOfATokenOfThisRequest) {
  for (const char* policy : {"low_confidence", "autoregressive", "random"}) {
    const Json plain = description_of(policy, {{"temperature", 0.0}});
    const Json none = description_of(policy, {{"temperature", 0.0}, {"logit_bias", {"3=0"}}});
    EXPECT_EQ(plain.at("ids"), none.at("ids")) << policy;
    const Json biased =
        description_of(policy, {{"temperature", 1.0}, {"logit_bias", {"3=-5", "3=60"}}});
    for (size_t i = 0; i < biased.at("ids").size(); ++i) {
      if (biased.at("states")[i] == static_cast<int>(decode::State::fixed)) continue;
      EXPECT_EQ(biased.at("ids")[i], 3) << policy << biased.dump();
    }
  }
  for (const char* wrong : {"3", "3=", "3=101", "3=x", "x=1", "999=1", "3=nan"}) {
    test::expect_error(Code::invalid_argument, "logit_bias", [&] {
      description_of("random", {{"logit_bias", {wrong}}});
    });
  }
}

TEST(Generator, LikelyTokensAreThoseOfTheLastWriting) {
  for (const char* policy : {"low_confidence", "autoregressive", "spd", "uniform"}) {
    const Json plain = description_of(policy, {{"temperature", 0.0}});
    EXPECT_FALSE(plain.contains("top"));
    const Json kept = description_of(policy, {{"temperature", 0.0}, {"top_logprobs", 5}});
    EXPECT_EQ(kept.at("ids"), plain.at("ids")) << policy << ": they change nothing";
    int written = 0;
    for (size_t i = 0; i < kept.at("ids").size(); ++i) {
      const Json top = kept.at("top")[i];
      if (kept.at("states")[i] == static_cast<int>(decode::State::fixed)) {
        EXPECT_TRUE(top.is_null());
      }
      if (top.is_null()) continue;
      ++written;
      ASSERT_EQ(top.size(), 5U);
      EXPECT_EQ(top[0][0], kept.at("ids")[i]) << policy << " draws the likeliest token";
      EXPECT_EQ(top[0][1], kept.at("confidence")[i]);
      for (size_t k = 1; k < top.size(); ++k) EXPECT_LE(top[k][1], top[k - 1][1]);
    }
    EXPECT_GT(written, 4) << policy << kept.dump();
  }
}

} // namespace
} // namespace dllm::generate
