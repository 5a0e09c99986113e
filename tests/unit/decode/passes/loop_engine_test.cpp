// What a loop needs from an engine, where it is offered, and that it cannot decide otherwise than
// the host without being found out.

#include "decode/decoder/decoder.h"
#include "decode/loop/loop_program.h"
#include "decode/method/setup.h"
#include "unit/decode/passes/far_engine.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <thread>

namespace dllm::decode {
namespace {

using test::expect_error;

Json spd(const Json& more = Json::object()) {
  Json values = {{"policy", "spd"}, {"block_length", 4}, {"suppress_mask", true}};
  values.update(more);
  return values;
}

struct Far {
  std::shared_ptr<FarEngine> engine = std::make_shared<FarEngine>();
  std::shared_ptr<model::Model> model =
      model::new_model(engine, tiny_config(), Options(model::model_schema()));
};

const TestRequest kRequest{{9, 2, 6, 5, 3, 5, 8, 9}, 7, 16};

TEST(LoopEngine, ReadsOnceABlock) {
  const Far far;
  for (const char* implementation : {"kv_fast", "fast"}) {
    const auto decoder =
        make_decoder(far.model, spd({{"implementation", implementation}, {"threshold", 0.3}}));
    EXPECT_EQ(decoder->describe().at("loop").at("runs_on"), "device"); // auto
    add(*decoder, kRequest), add(*decoder, {{1, 2, 3, 4, 5, 6, 7, 8}, 3, 16});
    far.engine->reads = 0;
    far.engine->runs.clear();
    decoder->run();
    EXPECT_EQ(far.engine->reads, 4); // blocks
    EXPECT_EQ(decoder->metric(-1, "round_trips"), 4);
    EXPECT_EQ(decoder->metric(0, "round_trips"), 4);
    EXPECT_EQ(decoder->metric(-1, "launches"), static_cast<double>(far.engine->runs.size()));
    EXPECT_EQ(decoder->metric(0, "launches"), *implementation == 'k' ? 8 : 4); // 4 of them fill
  }
  // The host's loop waits in every step.
  const auto host = make_decoder(far.model, spd({{"loop", "host"}}));
  add(*host, kRequest);
  host->run();
  EXPECT_EQ(host->metric(-1, "round_trips"), host->metric(0, "steps"));
  EXPECT_EQ(host->metric(-1, "launches"),
            host->metric(0, "steps") + host->metric(0, "prefills") + host->metric(0, "commits"));
}

// The token after a step in the record, behind which the steps of the rows and whether they go on.
int32_t& after(Tensor& answer, int64_t step, int64_t place) {
  const int64_t columns = record_columns(PredictionNeeds());
  return answer.mutable_as<int32_t>()[static_cast<size_t>((step * 4 + place + 1) * columns - 1)];
}

TEST(LoopEngine, ALoopThatDecidesOtherwiseIsFoundOut) {
  const Far far;
  const auto run = [&](const FarEngine::Tamper& tamper) {
    far.engine->tamper = tamper;
    const auto decoder =
        make_decoder(far.model, {{"policy", "low_confidence"}, {"steps", 16}, {"block_length", 4}});
    add(*decoder, kRequest);
    decoder->run();
  };
  run({});
  const auto in_answer = [](auto change) {
    return [change](const std::string& program, const std::string& output, Tensor& numbers) {
      if (program == "denoise_loop" && output == "answer") change(numbers);
    };
  };
  // A token that was not drawn.
  expect_error(Code::internal, "slot 0, step 0, position", [&] {
    run(in_answer([](Tensor& answer) {
      for (int64_t place = 0; place < 4; ++place) {
        int32_t& token = after(answer, 0, place);
        if (token >= 0) token = (token + 1) % kMask;
      }
    }));
  });
  // One more position.
  expect_error(Code::internal, "(-1: masked)", [&] {
    run(in_answer([](Tensor& answer) {
      for (int64_t place = 0; place < 4; ++place) {
        int32_t& token = after(answer, 1, place);
        if (token < 0) token = 3;
      }
    }));
  });
  // A block that ends too early.
  expect_error(Code::internal, "not over for the host only", [&] {
    run(in_answer([](Tensor& answer) {
      const auto numbers = answer.mutable_as<int32_t>();
      --numbers[numbers.size() - 2];
    }));
  });
}

TEST(LoopEngine, IsRefusedWhereItCannotDecideTheSame) {
  const Far far;
  const auto why = [&](Json values, const char* reason) {
    const auto decoder = make_decoder(far.model, values);
    EXPECT_EQ(decoder->describe().at("loop").at("runs_on"), "host") << values.dump();
    EXPECT_NE(decoder->describe().at("loop").at("why").dump().find(reason), std::string::npos)
        << decoder->describe().at("loop").dump();
    values["loop"] = "device";
    expect_error(Code::unimplemented, reason, [&] { make_decoder(far.model, values); });
  };
  why({{"policy", "low_confidence"}, {"cache", "dual"}}, "approximate caches");
  why({{"policy", "low_confidence"}, {"guidance", 1.5}}, "second canvas");
  why({{"policy", "low_confidence"}, {"early_exit", 0.9}}, "early_exit");
  why({{"policy", "low_confidence"}, {"defer", {"3"}}}, "defer");
  why({{"policy", "threshold"}, {"ties", "near_best"}}, "compares doubles");
  why({{"policy", "bd3lm"}, {"compat_pad", 3}}, "compat_pad");
  why({{"policy", "remdm"}}, "no loop yet");
  why(spd({{"implementation", "reference"}}), "implementation reference");
  const auto near = make_decoder(tiny_model());
  EXPECT_EQ(near->describe().at("loop").at("runs_on"), "host");
  const auto asked = make_decoder(far.model, {{"loop", "host"}});
  EXPECT_EQ(asked->describe().at("loop").at("why"), "option loop is host");
}

LoopShape toy_loop(const PassSettings& settings, int64_t cache_rows, int64_t steps) {
  LoopShape shape{{2, 8, 8, 64, cache_rows, false, true}, 4, steps};
  shape.pass.set(settings);
  return shape;
}

TEST(LoopEngine, GraphsDoNotGrowWithSteps) {
  const auto model = tiny_model();
  const auto sizes = [&](int64_t steps) {
    Options options(decoder_schema("spd"));
    const auto schedule = schedule_of(options, model->config());
    const auto policy = make_policy("spd", policy_setup(*model, options, *schedule));
    graph::Graph graph;
    build_loop(graph, *model, *policy->loop().rule,
               toy_loop(pass_settings(*model, options, *policy), 128, steps));
    const graph::Node* loop = nullptr;
    for (const graph::Node& node : graph.nodes()) {
      if (!node.bodies.empty()) loop = &node;
    }
    return std::pair(graph.nodes().size(), loop->bodies[1]->nodes().size());
  };
  EXPECT_EQ(sizes(1), sizes(32));
}

// K and V of 64 times as many positions need no more room in addition to themselves.
TEST(LoopEngine, CachesAreWrittenInPlace) {
  const auto model = tiny_model();
  const auto arena = [&](int64_t cache_rows) {
    Options options(decoder_schema("spd"));
    const auto schedule = schedule_of(options, model->config());
    const auto policy = make_policy("spd", policy_setup(*model, options, *schedule));
    auto graph = std::make_shared<graph::Graph>();
    build_loop(*graph, *model, *policy->loop().rule,
               toy_loop(pass_settings(*model, options, *policy), cache_rows, 4));
    return model->engine().compile(graph)->plan().arena_bytes;
  };
  EXPECT_EQ(arena(64 * 128), arena(128));
}

TEST(LoopEngine, ACancelInsideALaunchChangesNoCanvas) {
  const auto model = tiny_model();
  const Json values = spd({{"threshold", 1.0}, {"confidence_stop", 2.0}, {"block_length", 32}});
  const auto whole = make_decoder(model, values), cut = make_decoder(model, [&] {
                                                    Json own = values;
                                                    own["loop"] = "device";
                                                    return own;
                                                  }());
  const TestRequest request{{1, 2, 3}, 5, 61};
  add(*whole, request), add(*cut, request);
  whole->run();
  int cancelled = 0;
  for (int i = 0; i < 20; ++i) {
    Task task;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
      task.cancel();
    });
    const Answer before = answer_of(*cut);
    const double steps = cut->metric(0, "steps");
    try {
      cut->run(nullptr, &task);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::cancelled);
      ++cancelled;
      if (cut->metric(0, "steps") == steps) {
        EXPECT_EQ(answer_of(*cut), before);
      }
    }
    other.join();
  }
  EXPECT_GT(cancelled, 0);
  cut->run();
  EXPECT_EQ(answer_of(*cut), answer_of(*whole));
}

TEST(LoopEngine, AStopTokenEndsItsRequestInsideALoop) {
  const auto model = tiny_model();
  const Json values = {
      {"policy", "low_confidence"}, {"steps", 16}, {"block_length", 8}, {"trace", true}};
  const auto host = make_decoder(model, values);
  add(*host, kRequest);
  host->run();
  const int32_t stop = host->request(0).ids[kRequest.prompt.size() + 1];
  std::vector<std::string> traces;
  for (const char* loop : {"host", "device"}) {
    Json own = values;
    own["loop"] = loop;
    const auto decoder = make_decoder(model, own);
    decoder->add(kRequest.prompt, {},
                 slot_options({{"seed", 7}, {"gen_length", 16}, {"stop", {std::to_string(stop)}}}));
    add(*decoder, {{4, 4}, 1, 16});
    decoder->run();
    EXPECT_EQ(decoder->request(0).finish, Finish::stopped);
    traces.push_back(decoder->trace(0) + decoder->trace(1));
  }
  EXPECT_EQ(traces[0], traces[1]);
}

TEST(LoopEngine, HolesOwnSettingsAndNewWeightsAreSeen) {
  const auto model = tiny_model();
  std::vector<std::unique_ptr<Decoder>> decoders;
  for (const char* loop : {"host", "device"}) {
    decoders.push_back(make_decoder(model, {{"policy", "threshold"},
                                            {"threshold", 0.2},
                                            {"attention", "block_causal"},
                                            {"block_length", 4},
                                            {"trace", true},
                                            {"loop", loop}}));
    std::vector<int32_t> canvas;
    std::vector<uint8_t> fixed;
    for (int32_t i = 0; i < 23; ++i) {
      canvas.push_back(i);
      fixed.push_back(i % 3 == 0 || (i > 7 && i < 12));
    }
    Decoder& decoder = *decoders.back();
    decoder.add(canvas, fixed, slot_options({{"temperature", 1.3}, {"seed", 3}}));
    decoder.add(canvas, {}, slot_options({{"temperature", 0.0}, {"gen_length", 9}}));
    decoder.add(canvas, {}, slot_options({{"top_k", 4}, {"temperature", 0.6}, {"gen_length", 7}}));
    for (int i = 0; i < 3; ++i) decoder.step();
  }
  model->params().bump();
  for (const auto& decoder : decoders) decoder->run();
  for (const int64_t slot : {0, 1, 2})
    EXPECT_EQ(decoders[1]->trace(slot), decoders[0]->trace(slot)) << "slot " << slot;
  EXPECT_LT(decoders[1]->metric(0, "round_trips"), decoders[0]->metric(0, "round_trips"));
}

// A model that gets the noise level sees that of every step.
TEST(LoopEngine, TimesAreThoseOfEveryStep) {
  const auto model = tiny_model(1, {{"model_type", "nano-dlm"},
                                    {"vocab_size", 23},
                                    {"d_model", 16},
                                    {"n_layers", 2},
                                    {"n_heads", 2},
                                    {"d_ff", 24},
                                    {"seq_len", 32},
                                    {"T", 50},
                                    {"time_conditioning", true}});
  model->set_mask_token(22);
  for (const char* policy : {"low_confidence", "ancestral", "threshold"}) {
    std::vector<std::string> traces;
    for (const char* loop : {"host", "device"}) {
      const auto decoder = make_decoder(model, {{"policy", policy},
                                                {"steps", 9},
                                                {"temperature", 1.0},
                                                {"loop", loop},
                                                {"trace", true}});
      add(*decoder, {{3, 1}, 4, 17}), add(*decoder, {{}, 5, 12});
      decoder->run();
      traces.push_back(decoder->trace(0) + decoder->trace(1));
    }
    EXPECT_EQ(traces[1], traces[0]) << policy;
  }
}

TEST(LoopEngine, AStepThatMayOnlyDecideMasksFailsAsOnTheHost) {
  const auto model = tiny_model();
  std::vector<std::string> all;
  for (int32_t i = 0; i < kVocab; ++i) {
    if (i != kMask) all.push_back(std::to_string(i));
  }
  for (const char* loop : {"host", "device"}) {
    const auto decoder = make_decoder(
        model,
        {{"policy", "threshold"}, {"suppress", all}, {"suppress_mask", false}, {"loop", loop}});
    add(*decoder, kRequest);
    expect_error(Code::failed_precondition, "all 16 open positions", [&] { decoder->run(); });
  }
}

} // namespace
} // namespace dllm::decode
