// What another thread reads of a decoder while a step runs, and which weights a step computes with.

#include "base/error.h"
#include "unit/counting_engine.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <thread>

namespace dllm::decode {
namespace {

const TestRequest kRequest = {{3, 1, 4}, 11, 12};
const std::string kValues = "model.layers.0.self_attn.v_proj.weight";

struct Bed {
  std::shared_ptr<test::CountingEngine> engine =
      std::make_shared<test::CountingEngine>(cpu::make_engine(Options(graph::engine_schema())));
  std::shared_ptr<model::Model> model = tiny_model(engine);

  std::unique_ptr<Decoder> decoder(Json values = Json::object()) const {
    Json all = {{"policy", "low_confidence"}, {"steps", 6}, {"trace", true}};
    all.update(values);
    return make_decoder(model, all);
  }
  void change_weights() const {
    Tensor value = model->params().read(kValues).to(DType::f32).clone();
    for (float& number : value.mutable_as<float>()) number = 0.5f - 2 * number;
    model->params().write(kValues, value);
  }
};

// All that a reader can get, as text.
std::string seen(const Decoder& decoder) {
  const RequestCopyRef copy = decoder.copy(0);
  Json made = {{"ids", copy->ids}, {"confidence", copy->confidence}};
  for (const State state : copy->states) made["states"].push_back(static_cast<int>(state));
  for (const char* key : {"done", "steps", "nfe", "decided", "open", "launches"})
    made[key] = {decoder.metric(0, key), decoder.metric(-1, key)};
  return made.dump() + decoder.trace(0) + decoder.describe().dump();
}

TEST(DecoderReaders, SeeTheLastCompleteStepInTheMiddleOfOne) {
  Bed bed;
  const auto decoder = bed.decoder();
  add(*decoder, kRequest);
  int64_t looks = 0;
  std::string last = seen(*decoder), within;
  const auto look = [&] {
    ++looks;
    std::thread([&] { within = seen(*decoder); }).join();
    EXPECT_EQ(within, last);
  };
  bed.engine->watch->before_run = bed.engine->watch->after_run = look;
  for (int64_t active = 1; active > 0;) {
    active = decoder->step();
    EXPECT_NE(seen(*decoder), last);
    last = seen(*decoder);
  }
  EXPECT_EQ(looks, 12); // of six steps
  EXPECT_EQ(decoder->copy(0)->ids, decoder->request(0).ids);
}

TEST(DecoderReaders, ARunCountsItsSteps) {
  Bed bed;
  const auto decoder = bed.decoder();
  add(*decoder, kRequest);
  Task task;
  int64_t steps = 0;
  decoder->run(
      [&](const Event& event) {
        if (event.kind() == EventKind::decode_step) {
          EXPECT_EQ(task.done(), ++steps);
        }
        return dllm::Answer::go_on;
      },
      &task);
  EXPECT_EQ(steps, 6);
}

TEST(DecoderReaders, StartShowsTheOldSlotsOrTheNew) {
  Bed bed;
  const auto decoder = bed.decoder({{"gen_length", 8}});
  add(*decoder, kRequest), add(*decoder, kRequest);
  EXPECT_EQ(decoder->metric(-1, "slots"), 2);
  EXPECT_THROW(decoder->start(std::vector<int32_t>{-5}, 0), Error);
  EXPECT_EQ(decoder->metric(-1, "slots"), 2);
  decoder->start(std::vector<int32_t>{1, 2}, 0);
  EXPECT_EQ(decoder->metric(-1, "slots"), 1);
  decoder->remove(0);
  EXPECT_THROW(decoder->copy(0), Error);
}

TEST(DecoderReaders, StatisticsAreThoseOfThePredictedStep) {
  Bed bed;
  const auto decoder = bed.decoder();
  add(*decoder, kRequest);
  EXPECT_THROW(decoder->statistics(0), Error);
  decoder->predict();
  const Batch said = decoder->statistics(0);
  EXPECT_EQ(said.at("positions").count(), 12);
  decoder->step();
  EXPECT_THROW(decoder->statistics(0), Error);
}

TEST(DecoderTrace, IsOffUnlessAskedForAndStopsAtItsBound) {
  Bed bed;
  const auto without = make_decoder(bed.model);
  add(*without, kRequest);
  EXPECT_EQ(test::error_of([&] { without->trace(0); }).code(), Code::failed_precondition);
  const auto whole = bed.decoder(), bounded = bed.decoder({{"trace_bytes", 1200}});
  for (Decoder* decoder : {whole.get(), bounded.get()}) {
    add(*decoder, kRequest);
    decoder->run();
  }
  ASSERT_GT(whole->trace(0).size(), 1300u);
  std::istringstream lines(bounded->trace(0));
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  ASSERT_GE(all.size(), 2u);
  const Json last = Json::parse(all.back());
  EXPECT_EQ(last.at("stopped").get<std::string>(), "trace_bytes");
  size_t bytes = 0;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    bytes += all[i].size() + 1;
    EXPECT_EQ(Json::parse(all[i]).at("step").get<size_t>(),
              i); // the first is the canvas as it was given
  }
  EXPECT_LE(bytes, 1200u);
  EXPECT_EQ(last.at("bytes").get<size_t>(), bytes);
  EXPECT_EQ(last.at("step").get<size_t>(), all.size() - 1);
  EXPECT_TRUE(whole->trace(0).starts_with(bounded->trace(0).substr(0, bytes)));
}

// Weights that change while a step prepares its pass: the step computes with those it has compared.
TEST(DecoderWeights, AStepComputesWithOneVersion) {
  for (const char* cache : {"none", "exact"}) {
    Bed bed;
    const Json values = {{"cache", cache}, {"attention", "block_causal"}, {"block_length", 4}};
    const auto before = bed.decoder(values), changed = bed.decoder(values);
    Json strict_values = values;
    strict_values["on_change"] = "fail";
    const auto strict = bed.decoder(strict_values);
    for (Decoder* decoder : {before.get(), changed.get(), strict.get()}) add(*decoder, kRequest);
    before->step();
    bed.engine->watch->at_compile = [&] { bed.change_weights(); };
    changed->step();
    EXPECT_EQ(answer_of(*changed), answer_of(*before)) << cache;
    EXPECT_EQ(test::error_of([&] { strict->step(); }).code(), Code::failed_precondition) << cache;
  }
}

TEST(DecoderWeights, OnChangeFailIsExact) {
  Bed bed;
  const auto before = bed.decoder({{"on_change", "fail"}});
  const auto strict = bed.decoder({{"on_change", "fail"}});
  add(*before, kRequest), add(*strict, kRequest);
  before->step();
  bed.engine->watch->at_compile = [&] { bed.change_weights(); };
  strict->step(); // of the weights it was made with, to the end
  EXPECT_EQ(answer_of(*strict), answer_of(*before));
  EXPECT_EQ(test::error_of([&] { strict->step(); }).code(), Code::failed_precondition);
  EXPECT_EQ(answer_of(*strict), answer_of(*before)); // and not a token more
}

TEST(DecoderWeights, LostOnesFailTheStepAtOnce) {
  Bed bed;
  const auto decoder = bed.decoder();
  add(*decoder, kRequest);
  decoder->step();
  const std::string last = seen(*decoder);
  bed.model->params().lose("the device is lost");
  const Error error = test::error_of([&] { decoder->step(); });
  EXPECT_EQ(error.code(), Code::aborted);
  EXPECT_EQ(seen(*decoder), last);
}

TEST(DecoderWeights, AStepThatWaitsForTrainingCanBeCancelled) {
  Bed bed;
  const auto decoder = bed.decoder();
  add(*decoder, kRequest);
  const std::vector<size_t> some = {0};
  std::vector<graph::BufferRef> taken = bed.model->params().take(some);
  Task task;
  Code code = Code::ok;
  std::thread stepping([&] { code = test::error_of([&] { decoder->step(&task); }).code(); });
  task.cancel();
  stepping.join();
  EXPECT_EQ(code, Code::cancelled);
  bed.model->params().put(some, {taken[0]}, false);
  EXPECT_GT(decoder->step(), 0);
}

} // namespace
} // namespace dllm::decode
