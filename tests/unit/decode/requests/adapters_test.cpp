// Requests of one decoder with adapters of their own. Each gets the tokens and the probabilities of
// the model with these adapters alone, bit for bit.

#include "base/error.h"
#include "base/files.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_list.h"
#include "model/adapters/adapter_save.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "unit/decode/passes/far_engine.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace dllm::decode {
namespace {

using test::expect_error;

// Adds an adapter that changes results. Equal names have equal numbers in every model.
void add_trained(model::Model& model, const std::string& name, int64_t rank,
                 std::vector<std::string> targets,
                 const model::AdapterKind& kind = model::find_adapter_kind("lora")) {
  model::AdapterOptions options;
  options.name = name;
  options.targets = model::AdapterTargets(targets);
  options.settings.rank = rank;
  options.settings.alpha = 2 * static_cast<double>(rank);
  options.settings.kind = kind.name;
  options.seed = model::name_number(name) >> 12;
  model::add_adapter(model, options);
  for (const std::string& tensor : model.params().names(model::adapter_part(name))) {
    const bool is_moved = std::ranges::any_of(kind.tensors, [&](const model::AdapterTensor& one) {
      return (one.has_factor || one.has_scale) && tensor.ends_with(one.ending);
    });
    if (!is_moved) continue;
    Tensor values = model.params().read(tensor).clone();
    const Key key = stream_key(1, Stream::init, model::name_number(tensor), 0);
    size_t at = 0;
    for (float& value : values.mutable_as<float>())
      value += 0.3f * (uniform_from_bits(random_bits_at(key, at++)) - 0.5f);
    model.params().write(tensor, values);
  }
}

void add_named(model::Model& model, const std::string& name) {
  if (name == "math" || name == "code") add_trained(model, name, 4, {"q", "v", "down"});
  if (name == "deep") add_trained(model, name, 8, {"model.layers.1.*_proj"});
  for (const model::AdapterKind* kind : model::adapter_kinds()) {
    if (name == kind->name) add_trained(model, name, 2, {"o", "gate", "down"}, *kind);
  }
}

std::shared_ptr<model::Model> model_with(const std::vector<std::string>& names, int64_t threads = 1,
                                         const Json& config = tiny_config()) {
  const auto model = tiny_model(threads, config);
  for (const std::string& name : names) add_named(*model, name);
  return model;
}

// Adapters of LoRA by their own names, and one of each kind by the name of the kind.
const std::vector<std::string> kAll = [] {
  std::vector<std::string> all = {"math", "code", "deep"};
  for (const model::AdapterKind* kind : model::adapter_kinds()) all.emplace_back(kind->name);
  return all;
}();
const std::vector<int32_t> kGiven = {3, 1, 4, 1, 5};

Json settings(const std::string& policy, const std::string& cache) {
  return {{"policy", policy},  {"cache", cache}, {"gen_length", 12},
          {"block_length", 4}, {"steps", 6},     {"temperature", 0.7}};
}

int64_t add_with(Decoder& decoder, const Json& adapters, int64_t seed = 5) {
  Json values = {{"seed", seed}};
  if (!adapters.is_null()) values["adapters"] = adapters;
  return decoder.add(kGiven, {}, slot_options(values));
}

Answer alone(const std::shared_ptr<model::Model>& model, const Json& values, int64_t seed = 5) {
  const auto decoder = make_decoder(model, values);
  add_with(*decoder, Json(), seed);
  decoder->run();
  return answer_of(*decoder);
}

Json causal_config() {
  Json config = tiny_config();
  config["dllm"] = {{"attention", "block_causal"}, {"block_length", 4}};
  return config;
}

struct Mode {
  const char *policy, *cache;
  bool is_causal = false;
};

class DecodeAdapterModes : public testing::TestWithParam<Mode> {};

TEST_P(DecodeAdapterModes, RowsOfADecoderHaveTheirOwn) {
  const Json config = GetParam().is_causal ? causal_config() : tiny_config();
  const Json values = settings(GetParam().policy, GetParam().cache);
  std::vector<Answer> expected = {alone(model_with({}, 1, config), values)};
  for (const std::string& name : kAll)
    expected.push_back(alone(model_with({name}, 1, config), values));
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_NE(expected[i], expected[0]) << kAll[i - 1];
  for (const int64_t threads : {1, 3}) {
    const auto decoder = make_decoder(model_with(kAll, threads, config), values);
    add_with(*decoder, {"none"});
    for (const std::string& name : kAll) add_with(*decoder, {name});
    for (const std::string& name : kAll) add_with(*decoder, {name + ":1"});
    decoder->run();
    const int64_t count = std::ssize(kAll);
    for (int64_t slot = 0; slot < 2 * count + 1; ++slot) {
      const auto at = static_cast<size_t>(slot > count ? slot - count : slot);
      EXPECT_EQ(answer_of(*decoder, slot), expected[at]) << "slot " << slot;
    }
  }
}

TEST_P(DecodeAdapterModes, ASumHasTheScalesOfItsWords) {
  const Json config = GetParam().is_causal ? causal_config() : tiny_config();
  const Json values = settings(GetParam().policy, GetParam().cache);
  const auto summed = model_with({"math", "dora"}, 1, config);
  model::set_adapter_scale(*summed, "math", 0.7);
  model::set_adapter_scale(*summed, "dora", 0.3);
  const auto decoder = make_decoder(model_with(kAll, 1, config), values);
  add_with(*decoder, {"math:0.7", "dora:0.3"});
  add_with(*decoder, {"math:0", "code:0"});
  add_with(*decoder, Json()); // all of them
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), alone(summed, values));
  EXPECT_EQ(answer_of(*decoder, 1), alone(model_with({}, 1, config), values));
  EXPECT_EQ(answer_of(*decoder, 2), alone(model_with(kAll, 1, config), values));
}

INSTANTIATE_TEST_SUITE_P(Modes, DecodeAdapterModes,
                         testing::Values(Mode{"low_confidence", "none"},
                                         Mode{"low_confidence", "prefix"},
                                         Mode{"low_confidence", "dual"},
                                         Mode{"low_confidence", "exact", true}, Mode{"spd", "auto"},
                                         Mode{"autoregressive", "auto"}),
                         [](const auto& info) {
                           return std::string(info.param.policy) + "_" + info.param.cache +
                                  (info.param.is_causal ? "_causal" : "");
                         });

// Requests of the base and of adapters of LoRA share every pass. Ranks and targets may differ.
TEST(DecodeAdapters, RowsOfOnePassMayDiffer) {
  const auto launches = [](const std::vector<Json>& all, const std::vector<std::string>& names) {
    const auto decoder = make_decoder(model_with(names), settings("autoregressive", "auto"));
    for (const Json& adapters : all) add_with(*decoder, adapters);
    decoder->run();
    return decoder->metric(-1, "launches");
  };
  const std::vector<std::string> lora = {"math", "code", "deep", "lora"};
  const double one = launches({{"none"}}, {});
  EXPECT_EQ(launches({{"none"}, {"math"}, {"code"}, {"deep"}, {"lora"}, {"math"}}, lora), one);
  // One adapter is what requests without a list read. Sums, weights and other kinds stay apart.
  EXPECT_EQ(launches({Json(), {"none"}}, {"math"}), one);
  EXPECT_EQ(launches({{"math"}, {"math:0.5"}}, lora), 2 * one);
  EXPECT_EQ(launches({{"math"}, {"math", "code"}}, lora), 2 * one);
  EXPECT_EQ(launches({{"math"}, {"code"}, {"dora"}, {"ia3"}}, kAll), 3 * one);
}

// The rows of both halves of a guided pass have the adapter of their request.
TEST(DecodeAdapters, GuidedRowsMayDiffer) {
  Json values = settings("low_confidence", "none");
  values["guidance"] = 1.5;
  const auto decoder = make_decoder(model_with({"math", "code"}), values);
  for (const char* adapter : {"math", "none", "code"}) add_with(*decoder, {adapter});
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), alone(model_with({"math"}), values));
  EXPECT_EQ(answer_of(*decoder, 1), alone(model_with({}), values));
  EXPECT_EQ(answer_of(*decoder, 2), alone(model_with({"code"}), values));
}

// A cached beginning belongs to the adapters that computed it.
TEST(DecodeAdapters, PrefixesAreKeptApart) {
  const auto model = model_with({"math", "code"}, 1, causal_config());
  const Json values = settings("low_confidence", "exact");
  const auto decoder = make_decoder(model, values);
  const auto reused = [&](const Json& adapters) {
    const double before = decoder->metric(-1, "reused");
    const int64_t slot = add_with(*decoder, adapters);
    decoder->run();
    decoder->remove(slot);
    return decoder->metric(-1, "reused") - before;
  };
  // Together they take a row each, which later requests find.
  const std::vector<Json> all = {{"math"}, {"code"}, {"none"}, {"math:0.5"}, {"code:2"}};
  for (const Json& adapters : all) add_with(*decoder, adapters);
  decoder->run();
  EXPECT_EQ(decoder->metric(-1, "reused"), 0);
  for (int64_t slot = 0; slot < 5; ++slot) decoder->remove(slot);
  EXPECT_EQ(reused({"code:0.5"}), 0);
  EXPECT_GT(reused({"math"}), 0);
  EXPECT_GT(reused({"code"}), 0);
  // Other numbers are another adapter, and the others keep what they have.
  model::set_adapter_scale(*model, "math", 2);
  EXPECT_EQ(reused({"math"}), 0);
  EXPECT_GT(reused({"code"}), 0);
  model::remove_adapter(*model, "code");
  add_trained(*model, "code", 2, {"k"});
  EXPECT_EQ(reused({"code"}), 0);
  EXPECT_GT(reused({"none"}), 0);
}

TEST(DecodeAdapters, ErrorsNameTheWord) {
  const auto decoder = make_decoder(model_with({"math"}), settings("low_confidence", "none"));
  const auto fails = [&](const Json& words, Code code, const char* text) {
    expect_error(code, text, [&] { add_with(*decoder, words); });
  };
  fails({"maths"}, Code::not_found, "maths");
  fails({"math:x"}, Code::invalid_argument, "math:x");
  fails({"math:inf"}, Code::invalid_argument, "math:inf");
  fails({"math", "math:2"}, Code::invalid_argument, "math is there twice");
  fails({"math", "none"}, Code::invalid_argument, "none");
  fails({":2"}, Code::invalid_argument, ":2");
  EXPECT_EQ(decoder->describe()["slots"].size(), 0u);
}

// An adapter that is removed under a request fails that request alone.
TEST(DecodeAdapters, ARemovedAdapterFailsItsRequest) {
  const auto model = model_with({"math", "code"});
  const auto decoder = make_decoder(model, settings("low_confidence", "none"));
  add_with(*decoder, {"math"});
  add_with(*decoder, {"code"});
  decoder->step();
  model::remove_adapter(*model, "math");
  expect_error(Code::not_found, "no part adapter:math", [&] { decoder->run(); });
  EXPECT_EQ(decoder->request(0).finish, Finish::failed);
  EXPECT_EQ(answer_of(*decoder, 1),
            alone(model_with({"code"}), settings("low_confidence", "none")));
}

// Folders of adapters in a temporary folder.
class AdapterFolders : public testing::Test {
protected:
  std::string folder(const std::string& name) const { return folder_.path(name); }
  void save(const std::string& name, int64_t rank = 4) {
    const auto model = tiny_model();
    add_trained(*model, name, rank, {"q", "v", "down"});
    model::save_adapter(*model, name, folder(name));
    words_.push_back(name + "=" + folder(name));
  }
  test::TempFolder folder_;
  Json words_ = Json::array();
};

int64_t bytes_of_one() {
  const auto model = tiny_model();
  add_trained(*model, "a", 4, {"q", "v", "down"});
  return model::list_adapters(*model)[0]["bytes"].get<int64_t>();
}

TEST_F(AdapterFolders, TwoHundredShareABudget) {
  for (int i = 0; i < 200; ++i) save("a" + std::to_string(i));
  const auto model = tiny_model();
  Json values = settings("low_confidence", "none");
  values.update({{"adapter_folders", words_}, {"adapter_bytes", 8 * bytes_of_one()}});
  const auto decoder = make_decoder(model, values);
  const Json plain = settings("low_confidence", "none");
  for (int i = 0; i < 200; i += 4) {
    std::vector<int64_t> slots;
    for (int k = 0; k < 4; ++k) slots.push_back(add_with(*decoder, {"a" + std::to_string(i + k)}));
    decoder->run();
    EXPECT_LE(decoder->describe()["adapters"].size(), 8u);
    for (int k = 0; k < 4; ++k) {
      if (i % 40 == 0) {
        const auto one = tiny_model();
        add_trained(*one, "a" + std::to_string(i + k), 4, {"q", "v", "down"});
        EXPECT_EQ(answer_of(*decoder, slots[static_cast<size_t>(k)]), alone(one, plain)) << i + k;
      }
      decoder->remove(slots[static_cast<size_t>(k)]);
    }
  }
  EXPECT_EQ(decoder->describe()["adapters"],
            Json({"a192", "a193", "a194", "a195", "a196", "a197", "a198", "a199"}));
  EXPECT_TRUE(model::list_adapters(*model).empty()); // the caller's model has none
}

TEST_F(AdapterFolders, TheOldestGoesAndNoneOfARunningRequest) {
  for (const char* name : {"a", "b", "c"}) save(name);
  save("big", 32);
  Json values = settings("low_confidence", "none");
  values.update({{"adapter_folders", words_}, {"adapter_bytes", 2 * bytes_of_one()}});
  const auto decoder = make_decoder(tiny_model(), values);
  const auto loaded = [&] { return decoder->describe()["adapters"]; };
  const auto use = [&](const Json& words) {
    const int64_t slot = add_with(*decoder, words);
    decoder->run();
    decoder->remove(slot);
  };
  use({"a"});
  use({"b"});
  use({"a"});
  use({"c"}); // b was not used for the longest time
  EXPECT_EQ(loaded(), Json({"a", "c"}));
  const int64_t a = add_with(*decoder, {"a"}), c = add_with(*decoder, {"c"});
  decoder->step();
  expect_error(Code::resource_exhausted, "adapter b needs", [&] { add_with(*decoder, {"b"}); });
  expect_error(Code::resource_exhausted, "adapter big needs", [&] { add_with(*decoder, {"big"}); });
  EXPECT_EQ(loaded(), Json({"a", "c"}));
  decoder->run();
  decoder->remove(c);
  const Answer first = answer_of(*decoder, a);
  use({"b"});
  EXPECT_EQ(answer_of(*decoder, a), first);
}

// A load in the middle of other requests changes none of them.
TEST_F(AdapterFolders, ALoadKeepsWhatRuns) {
  for (const char* name : {"a", "b"}) save(name);
  Json values = settings("low_confidence", "exact");
  const auto apart = [&](const Json& words) {
    const auto decoder = make_decoder(tiny_model(1, causal_config()), [&] {
      Json own = values;
      own["adapter_folders"] = words_;
      return own;
    }());
    add_with(*decoder, words);
    decoder->run();
    return answer_of(*decoder);
  };
  Json own = values;
  own["adapter_folders"] = words_;
  const auto decoder = make_decoder(tiny_model(1, causal_config()), own);
  add_with(*decoder, {"none"});
  add_with(*decoder, {"a"});
  decoder->step_for(std::chrono::nanoseconds(1)); // suspended in its first step
  add_with(*decoder, {"b"});
  decoder->step();
  const double computed = decoder->metric(0, "prefills");
  add_with(*decoder, {"a", "b:0.5"});
  decoder->run();
  EXPECT_EQ(decoder->metric(0, "prefills"), computed); // its cache was kept
  const std::vector<Json> all = {{"none"}, {"a"}, {"b"}, {"a", "b:0.5"}};
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(answer_of(*decoder, static_cast<int64_t>(i)), apart(all[i])) << all[i].dump();
}

// The tokens and the events are those of whole steps.
TEST_F(AdapterFolders, ALoadFinishesASuspendedStep) {
  for (const char* name : {"a", "b"}) save(name);
  Json values = settings("low_confidence", "none");
  values["adapter_folders"] = words_;
  using Seen = std::vector<std::pair<int32_t, std::vector<int32_t>>>; // slots and canvases
  const auto texts = [&](bool suspends) {
    const auto decoder = make_decoder(tiny_model(), values);
    add_with(*decoder, {"a"});
    Seen seen;
    const auto watch = [&](const Event& event) {
      if (event.kind() == EventKind::decode_step) {
        seen.emplace_back(static_cast<int32_t>(std::get<int64_t>(*event.find("slot"))),
                          std::get<std::vector<int32_t>>(*event.find("ids")));
      }
      return std::ssize(seen) == 1 ? dllm::Answer::stop : dllm::Answer::go_on;
    };
    if (suspends) {
      for (int i = 0; i < 5; ++i) decoder->step_for(std::chrono::nanoseconds(0), watch);
      EXPECT_TRUE(decoder->is_suspended());
      add_with(*decoder, {"a"}); // is loaded: the step stays suspended
      EXPECT_TRUE(decoder->is_suspended());
      decoder->remove(1);
      EXPECT_TRUE(seen.empty());
    } else {
      EXPECT_FALSE(decoder->run(watch));
      EXPECT_EQ(decoder->metric(0, "steps"), 1);
    }
    add_with(*decoder, {"b"});
    EXPECT_FALSE(decoder->is_suspended());
    EXPECT_EQ(decoder->metric(0, "steps"), 1);
    while (!decoder->run(watch)) {
    }
    return std::make_tuple(seen, answer_of(*decoder, 0), answer_of(*decoder, 1));
  };
  EXPECT_EQ(texts(true), texts(false));
}

TEST_F(AdapterFolders, ATrainedModelNeedsANewDecoder) {
  save("a");
  const auto model = tiny_model();
  Json values = settings("low_confidence", "none");
  values["adapter_folders"] = words_;
  const auto decoder = make_decoder(model, values);
  add_with(*decoder, {"a"});
  decoder->step();
  const std::string name = model->params().names()[0];
  model->params().write(name, model->params().read(name));
  expect_error(Code::failed_precondition, "adapter_folders", [&] { decoder->step(); });
}

TEST_F(AdapterFolders, WordsAreChecked) {
  save("a");
  const auto fails = [&](const Json& words, Code code, const char* text) {
    Json values = settings("low_confidence", "none");
    values["adapter_folders"] = words;
    expect_error(code, text, [&] { make_decoder(model_with({"math"}), values); });
  };
  fails({"a"}, Code::invalid_argument, "'a' is not NAME=FOLDER");
  fails({"a b=" + folder("a")}, Code::invalid_argument, "a b");
  fails({"math=" + folder("a")}, Code::already_exists, "math");
  fails({"a=x", "a=y"}, Code::already_exists, "two adapters named a");
  Json values = settings("low_confidence", "none");
  values["adapter_folders"] = {"gone=" + folder("gone")};
  const auto decoder = make_decoder(tiny_model(), values);
  expect_error(Code::not_found, "gone", [&] { add_with(*decoder, {"gone"}); });
  expect_error(Code::not_found, "other", [&] { add_with(*decoder, {"other"}); });
}

} // namespace
} // namespace dllm::decode
