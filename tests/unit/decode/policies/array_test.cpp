// A toy policy over arrays: embeddings are noised and denoised, and the model's head reads text
// from them. It shows that a request may be an array: it decodes, streams its text, and is traced.

#include "base/error.h"
#include "decode/array/array_policy.h"
#include "decode/pass/pass_program.h"
#include "graph/ops.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace dllm::decode {
namespace {

// Score interpolation (CDCD, Dieleman et al. 2022) without training: the expected embedding under
// the model's distribution is the array without noise.
class ToyRule final : public ArrayRule {
public:
  int64_t width(const model::ModelConfig& config) const override { return config.hidden_size; }
  int64_t states_width(const model::ModelConfig& config) const override { return width(config); }
  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    const Shape wide = array.numbers.shape();
    const graph::Value given =
        graph::broadcast(graph::reshape(rows.given, {wide[0], wide[1], 1}), wide);
    const graph::Value read = graph::select(given, rows.builder.embed(rows.ids), array.numbers);
    const graph::Value hidden = window_states(rows.builder, rows.shape, {}, read).hidden;
    const graph::Value clean = rows.builder.mean_embedding(rows.builder.logits(hidden));
    return {graph::reshape(clean, wide), graph::reshape(hidden, wide)};
  }
};

std::unique_ptr<Policy> toy(const PolicySetup& setup) {
  return std::make_unique<ArrayPolicy>(setup, std::make_shared<ToyRule>());
}

// A model that has the array without noise: every number is kClean.
constexpr float kClean = 0.25f;
class KnownRule : public ArrayRule {
public:
  int64_t width(const model::ModelConfig&) const override { return 3; }
  int64_t states_width(const model::ModelConfig& config) const override {
    return config.hidden_size;
  }
  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    const Shape wide{rows.rows(), rows.window(), rows.builder.config().hidden_size};
    return {graph::full(rows.builder.graph(), array.numbers.shape(), kClean),
            graph::reshape(window_states(rows.builder, rows.shape).hidden, wide)};
  }
};

std::unique_ptr<Policy> known(const PolicySetup& setup) {
  return std::make_unique<ArrayPolicy>(setup, std::make_shared<KnownRule>());
}

const std::vector<int32_t> kToyPrompt = {3, 1, 4};
constexpr int64_t kToySteps = 6;

std::unique_ptr<Decoder> toy_decoder(const std::shared_ptr<model::Model>& model,
                                     const Json& more = Json::object(), PolicyMaker make = toy) {
  Options options(decoder_schema(""));
  options.set_json({{"steps", kToySteps}, {"gen_length", 9}});
  options.set_json(more);
  return std::make_unique<Decoder>(model, options, std::move(make));
}

int64_t add_seed(Decoder& decoder, int64_t seed, int64_t length = 9) {
  return decoder.add(kToyPrompt, {}, slot_options({{"seed", seed}, {"gen_length", length}}));
}

Answer decoded(const std::shared_ptr<model::Model>& model, const Json& more, int64_t seed) {
  const auto decoder = toy_decoder(model, more);
  add_seed(*decoder, seed);
  decoder->run();
  return answer_of(*decoder);
}

TEST(ArrayPolicy, DecodesTheSameTextByStepsAndByOneLaunch) {
  const auto model = tiny_model();
  const Json drawn = {{"temperature", 0.7}, {"top_k", 8}};
  for (const Json& more : {Json::object(), drawn}) {
    Json host = more, device = more;
    host["loop"] = "host";
    device["loop"] = "device";
    const Answer wanted = decoded(model, host, 7);
    EXPECT_EQ(decoded(model, device, 7), wanted);
    EXPECT_EQ(decoded(tiny_model(2), device, 7), wanted);
    EXPECT_NE(decoded(model, host, 8).ids, wanted.ids);
    const auto stepped = toy_decoder(model, device);
    add_seed(*stepped, 7);
    for (int64_t step = 0; step < kToySteps; ++step)
      EXPECT_EQ(stepped->step(), step + 1 < kToySteps ? 1 : 0);
    EXPECT_EQ(answer_of(*stepped), wanted);
  }
  const auto launched = toy_decoder(model, {{"loop", "device"}});
  add_seed(*launched, 7);
  launched->run();
  const Request& request = launched->request(0);
  EXPECT_EQ(request.launches, 1);
  EXPECT_EQ(request.steps, kToySteps);
  EXPECT_EQ(request.decided, 9);
  EXPECT_EQ(request.finish, Finish::decided);
  EXPECT_TRUE(std::equal(kToyPrompt.begin(), kToyPrompt.end(), request.ids.begin()));
  EXPECT_EQ(std::ranges::count(request.states, State::final), 9);
}

TEST(ArrayPolicy, ABatchGivesEachRequestTheTextThatItHasAlone) {
  const auto model = tiny_model();
  const Json device = {{"loop", "device"}};
  const auto decoder = toy_decoder(model, device);
  add_seed(*decoder, 7);
  add_seed(*decoder, 8);
  add_seed(*decoder, 9, 20); // a longer window
  Options tokens(decoder_schema("low_confidence"));
  tokens.set_json({{"steps", 4}, {"gen_length", 9}});
  decoder->add(kToyPrompt, {}, slot_options({{"steps", 3}, {"seed", 7}}));
  decoder->add(kToyPrompt, {}, slot_options(), {nullptr, tokens}); // the ids are its state
  decoder->run();
  EXPECT_EQ(answer_of(*decoder, 0), decoded(model, device, 7));
  EXPECT_EQ(answer_of(*decoder, 1), decoded(model, device, 8));
  EXPECT_EQ(decoder->request(3).steps, 3);
  const auto alone = toy_decoder(model, device);
  add_seed(*alone, 9, 20);
  alone->run();
  EXPECT_EQ(answer_of(*decoder, 2), answer_of(*alone));
  const auto own = make_decoder(model, {{"steps", 4}, {"gen_length", 9}});
  own->start(kToyPrompt, 0);
  own->run();
  EXPECT_EQ(answer_of(*decoder, 4), answer_of(*own));
}

TEST(ArrayPolicy, EveryStepShowsItsText) {
  const auto decoder = toy_decoder(tiny_model(), {{"loop", "device"}, {"trace", true}});
  add_seed(*decoder, 7);
  std::vector<std::vector<int32_t>> texts;
  const auto watch = [&](const Event& event) {
    if (event.kind() != EventKind::decode_step) return dllm::Answer::go_on;
    texts.push_back(std::get<std::vector<int32_t>>(*event.find("ids")));
    const auto& states = std::get<std::vector<int32_t>>(*event.find("states"));
    const bool last = std::ssize(texts) == kToySteps;
    EXPECT_EQ(
        std::ranges::count(states, static_cast<int32_t>(last ? State::final : State::provisional)),
        9);
    return std::ssize(texts) == 2 ? dllm::Answer::stop : dllm::Answer::go_on;
  };
  EXPECT_FALSE(decoder->run(watch)); // stopped after two of the steps that one launch took
  EXPECT_TRUE(decoder->run(watch));
  ASSERT_EQ(std::ssize(texts), kToySteps);
  EXPECT_NE(texts.front(), texts.back());
  EXPECT_EQ(answer_of(*decoder), decoded(tiny_model(), {{"loop", "host"}}, 7));
  std::istringstream trace(decoder->trace(0));
  std::vector<std::vector<int32_t>> traced;
  for (std::string line; std::getline(trace, line);)
    traced.push_back(Json::parse(line).at("ids").get<std::vector<int32_t>>());
  ASSERT_EQ(std::ssize(traced), kToySteps + 1);
  EXPECT_EQ(std::vector(traced.begin() + 1, traced.end()), texts);
}

TEST(ArrayPolicy, HolesBetweenGivenTokensAreFilled) {
  const auto decoder = toy_decoder(tiny_model());
  const std::vector<int32_t> canvas = {3, 0, 0, 5, 0, 7};
  const std::vector<uint8_t> fixed = {1, 0, 0, 1, 0, 1};
  decoder->add(canvas, fixed, slot_options());
  decoder->run();
  const Request& request = decoder->request(0);
  for (size_t i = 0; i < canvas.size(); ++i) {
    EXPECT_EQ(request.states[i], fixed[i] != 0 ? State::fixed : State::final);
    EXPECT_TRUE(fixed[i] == 0 || request.ids[i] == canvas[i]) << i;
  }
}

// With a known clean array DDIM moves on the line between it and the first noise.
TEST(ArrayPolicy, DdimKeepsTheNoiseAndLowersItsLevel) {
  const auto decoder = toy_decoder(tiny_model(), {{"schedule", "cosine"}}, known);
  add_seed(*decoder, 7);
  const std::vector<float> noise = decoder->request(0).array;
  double sum = 0, squares = 0;
  for (const float x : noise) sum += x, squares += static_cast<double>(x) * x;
  EXPECT_LT(std::abs(sum / static_cast<double>(noise.size())), 0.5);
  EXPECT_NEAR(squares / static_cast<double>(noise.size()), 1, 0.6);
  const auto schedule = noise::make_schedule("cosine");
  for (int64_t left = kToySteps; left > 0; --left) {
    decoder->step();
    const double t = static_cast<double>(left - 1) / kToySteps;
    const double alpha = left == 1 ? 1 : schedule->alpha(t), first = schedule->alpha(1);
    // The first array has no signal; the line begins where the schedule says.
    const double start_noise = 1 / std::sqrt(1 - first);
    const std::vector<float>& array = decoder->request(0).array;
    for (size_t i = 0; i < array.size(); ++i) {
      const double line = (static_cast<double>(noise[i]) - std::sqrt(first) * kClean) * start_noise;
      EXPECT_NEAR(array[i], std::sqrt(alpha) * kClean + std::sqrt(1 - alpha) * line, 1e-5);
    }
  }
}

TEST(ArrayPolicy, RanksShareARequestsRows) {
  Json config = tiny_config();
  config["vocab_size"] = 32;
  config["num_key_value_heads"] = 4;
  std::vector<Answer> answers;
  for (const char* mesh : {"", "data=2", "data=2,tensor=2"}) {
    Options options(graph::engine_schema());
    options.set_i64("threads", 1);
    options.set_str("mesh", mesh);
    const auto decoder =
        toy_decoder(tiny_model(cpu::make_engine(options), config), {{"loop", "device"}});
    for (const int64_t seed : {7, 8, 9}) add_seed(*decoder, seed);
    decoder->run();
    for (const int64_t slot : {0, 1, 2}) answers.push_back(answer_of(*decoder, slot));
  }
  for (size_t i = 3; i < answers.size(); ++i) EXPECT_EQ(answers[i].ids, answers[i % 3].ids) << i;
}

TEST(ArrayPolicy, WhatNeedsTokensIsRefused) {
  class Anything final : public Constraint {
    bool allows(const Request&, int64_t, int32_t) const override { return true; }
  };
  test::expect_error(Code::unimplemented, "decided before another", [] {
    toy_decoder(tiny_model(), {{"defer", {"3"}}});
  });
  const auto decoder = toy_decoder(tiny_model());
  test::expect_error(Code::unimplemented, "no constraint", [&] {
    decoder->add(kToyPrompt, {}, slot_options(), {std::make_shared<Anything>(), {}});
  });
  add_seed(*decoder, 7);
  test::expect_error(Code::unimplemented, "the host cannot decide", [&] { decoder->predict(); });
  decoder->run();
  EXPECT_EQ(answer_of(*decoder), decoded(tiny_model(), Json::object(), 7));
}

// The step of a request of tokens is not taken when the program of an array fails.
TEST(ArrayPolicy, AFailureOfTheEngineChangesNoCanvas) {
  class NoRoom final : public ArrayRule {
  public:
    int64_t width(const model::ModelConfig&) const override { return 3; }
    Denoised denoise(const ArrayRows&, const NoisyArray&) const override {
      fail(Code::resource_exhausted, "no room");
    }
  };
  const auto decoder = toy_decoder(tiny_model(), Json::object(), [](const PolicySetup& setup) {
    return std::make_unique<ArrayPolicy>(setup, std::make_shared<NoRoom>());
  });
  decoder->add(kToyPrompt, {}, slot_options({{"gen_length", 9}}),
               {nullptr, Options(decoder_schema("random"))});
  add_seed(*decoder, 7);
  const Answer before = answer_of(*decoder, 0);
  for (int i = 0; i < 2; ++i)
    test::expect_error(Code::resource_exhausted, "no room", [&] { decoder->step(); });
  EXPECT_EQ(answer_of(*decoder, 0), before);
  EXPECT_EQ(decoder->request(0).steps, 0);
}

// A step is suspended between the programs of two methods, and ended by another call.
TEST(ArrayPolicy, ASuspendedStepIsEndedByAnyCall) {
  const auto model = tiny_model();
  const auto start = [&] {
    auto decoder = toy_decoder(model, {{"loop", "host"}});
    add_seed(*decoder, 7);
    decoder->add(kToyPrompt, {}, slot_options({{"steps", 3}, {"seed", 8}}));
    return decoder;
  };
  const auto whole = start();
  whole->run();
  for (int slices = 1; slices < 400; slices += 13) {
    const auto decoder = start();
    for (int i = 0; i < slices && decoder->step_for(std::chrono::nanoseconds(0)) > 0;) ++i;
    if (slices % 2 == 0) decoder->step();
    decoder->run();
    for (const int64_t slot : {0, 1})
      EXPECT_EQ(answer_of(*decoder, slot), answer_of(*whole, slot)) << slices;
  }
}

TEST(ArrayPolicy, ALevelWithoutNoiseIsRefused) {
  class Silent final : public KnownRule {
  public:
    HostLevel level(const noise::Schedule&, double t) const override {
      return {static_cast<float>(t), 1, 0};
    }
  };
  const auto decoder = toy_decoder(tiny_model(), Json::object(), [](const PolicySetup& setup) {
    return std::make_unique<ArrayPolicy>(setup, std::make_shared<Silent>());
  });
  test::expect_error(Code::invalid_argument, "has sigma 0 at time 1",
                     [&] { add_seed(*decoder, 7); });
}

TEST(ArrayPolicy, ACancelChangesNoArray) {
  const auto model = tiny_model();
  const auto decoder = toy_decoder(model, {{"loop", "host"}});
  add_seed(*decoder, 7);
  decoder->step();
  Task task;
  task.cancel();
  const Answer before = answer_of(*decoder);
  test::expect_error(Code::cancelled, "", [&] { decoder->step(&task); });
  EXPECT_EQ(answer_of(*decoder), before);
  decoder->run();
  EXPECT_EQ(answer_of(*decoder), decoded(model, Json::object(), 7));
}

// The toy with another network: the denoiser of a latent model.
class DenoiserRule final : public ArrayRule {
public:
  int64_t width(const model::ModelConfig& config) const override { return config.hidden_size; }
  int64_t states_width(const model::ModelConfig& config) const override { return width(config); }
  std::vector<std::string> other_parts() const override { return {"denoiser"}; }
  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    const Shape wide = array.numbers.shape();
    const graph::Value given =
        graph::broadcast(graph::reshape(rows.given, {wide[0], wide[1], 1}), wide);
    const graph::Value read = graph::select(given, rows.builder.embed(rows.ids), array.numbers);
    model::Builder& denoiser = rows.builder.part("denoiser");
    const graph::Value hidden = window_states(denoiser, rows.shape, {}, read).hidden;
    const graph::Value clean = rows.builder.mean_embedding(rows.builder.logits(hidden));
    return {graph::reshape(clean, wide), graph::reshape(hidden, wide)};
  }
};

std::unique_ptr<Policy> denoising(const PolicySetup& setup) {
  return std::make_unique<ArrayPolicy>(setup, std::make_shared<DenoiserRule>());
}

std::shared_ptr<model::Model> denoiser_of(const std::shared_ptr<graph::Engine>& engine,
                                          const Json& changes = Json::object()) {
  Json config = tiny_config();
  config.update(changes);
  Options options(model::model_schema());
  options.set_i64("seed", 5);
  return model::new_model(engine, config, options);
}

Answer denoised(const std::shared_ptr<model::Model>& model, const Json& more = Json::object()) {
  const auto decoder = toy_decoder(model, more, denoising);
  add_seed(*decoder, 7);
  decoder->run();
  return answer_of(*decoder);
}

TEST(ArrayParts, ARuleRunsAnotherNetwork) {
  const auto model = tiny_model();
  model->add_network("denoiser", *model); // the same numbers, so the same text
  for (const char* loop : {"host", "device"}) {
    const Json more = {{"loop", loop}};
    EXPECT_EQ(denoised(model, more), decoded(model, more, 7));
  }
  const auto other = tiny_model();
  other->add_network("denoiser", *denoiser_of(other->engine_ref(), {{"num_hidden_layers", 3}}));
  const Answer wanted = denoised(other, {{"loop", "host"}});
  EXPECT_NE(wanted.ids, decoded(other, Json::object(), 7).ids);
  EXPECT_EQ(denoised(other, {{"loop", "device"}}), wanted);
  Options options(graph::engine_schema());
  options.set_str("mesh", "data=2");
  const auto meshed = tiny_model(cpu::make_engine(options));
  meshed->add_network("denoiser", *denoiser_of(meshed->engine_ref(), {{"num_hidden_layers", 3}}));
  EXPECT_EQ(denoised(meshed, {{"loop", "device"}}).ids, wanted.ids);
}

TEST(ArrayParts, AMissingNetworkIsNamed) {
  const auto model = tiny_model();
  test::expect_error(Code::not_found, "no part named \"denoiser\"",
                     [&] { toy_decoder(model, Json::object(), denoising); });
  model->add_network("denoiser", *denoiser_of(model->engine_ref()));
  const auto decoder = toy_decoder(model, Json::object(), denoising);
  add_seed(*decoder, 7);
  decoder->step();
  model->remove_network("denoiser");
  test::expect_error(Code::not_found, "denoiser", [&] { decoder->step(); });
}

// The network that takes a name has the same shapes, and another program.
TEST(ArrayParts, AnotherNetworkOfTheNameIsRun) {
  const auto model = tiny_model();
  model->add_network("denoiser", *denoiser_of(model->engine_ref()));
  const auto decoder = toy_decoder(model, Json::object(), denoising);
  const auto text = [&] {
    const int64_t slot = add_seed(*decoder, 7);
    decoder->run();
    const Answer answer = answer_of(*decoder, slot);
    decoder->remove(slot);
    return answer;
  };
  const Answer before = text();
  EXPECT_EQ(before, denoised(model));
  model->remove_network("denoiser");
  model->add_network("denoiser", *denoiser_of(model->engine_ref(), {{"rope_theta", 7.0}}));
  const Answer after = text();
  EXPECT_NE(after.confidence, before.confidence);
  EXPECT_EQ(after, denoised(model));
}

TEST(ArrayParts, OnlyNetworksThatAreReadHoldOnChangeFail) {
  const std::string weight = "/model.layers.0.self_attn.v_proj.weight";
  for (const char* changed : {"denoiser", "other"}) {
    const auto model = tiny_model();
    for (const char* name : {"denoiser", "other"})
      model->add_network(name, *denoiser_of(model->engine_ref()));
    const auto decoder = toy_decoder(model, {{"on_change", "fail"}, {"loop", "host"}}, denoising);
    add_seed(*decoder, 7);
    decoder->step();
    Tensor numbers = model->params().read(changed + weight).clone();
    for (float& x : numbers.mutable_as<float>()) x = -x;
    model->params().write(changed + weight, numbers);
    if (std::string(changed) == "denoiser")
      test::expect_error(Code::failed_precondition, "weights changed", [&] { decoder->step(); });
    else
      EXPECT_EQ(decoder->step(), 1);
  }
}

} // namespace
} // namespace dllm::decode
