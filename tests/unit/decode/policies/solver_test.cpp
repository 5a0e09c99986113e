// Every solver of arrays against closed forms, and the seam of a rule: a length, a text and a last
// estimate of its own, guidance, and the same text whatever runs the steps.

#include "base/error.h"
#include "decode/array/array_policy.h"
#include "decode/pass/pass_program.h"
#include "graph/ops.h"
#include "unit/decode/policies/latent_rule.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <sstream>

namespace dllm::decode {
namespace {

using graph::Value;

const std::vector<int32_t> kSolverPrompt = {3, 1, 4};

int64_t add_request(Decoder& decoder, int64_t seed, const Json& more = Json::object()) {
  Json values = {{"seed", seed}};
  values.update(more);
  return decoder.add(kSolverPrompt, {}, slot_options(values));
}

// A rule without a model: the clean array is a function of the array, and the text is that of
// zeros.
class FormulaRule : public ArrayRule {
public:
  using Clean = std::function<Value(const ArrayRows& rows, const NoisyArray& array)>;
  FormulaRule(int64_t length, Clean clean) : length_(length), clean_(std::move(clean)) {}

  int64_t width(const model::ModelConfig&) const override { return 1; }
  int64_t length(const model::ModelConfig&, int64_t) const override { return length_; }
  bool self_conditions() const override { return true; }
  Denoised denoise(const ArrayRows& rows, const NoisyArray& array) const override {
    return {graph::broadcast(clean_(rows, array), array.numbers.shape())};
  }
  ArrayText read(const ArrayRows& rows, Value) const override {
    model::Builder& builder = rows.builder;
    const Shape flat{rows.rows() * rows.window(), builder.config().hidden_size};
    return {graph::full(builder.graph(), flat, 0.0f), builder.head()};
  }

private:
  int64_t length_;
  Clean clean_;
};

// Flow matching: array = (1 - t) clean + t noise.
class FlowRule final : public FormulaRule {
public:
  using FormulaRule::FormulaRule;
  HostLevel level(const noise::Schedule&, double t) const override {
    return {static_cast<float>(t), static_cast<float>(1 - t), static_cast<float>(t)};
  }
};

// Data with distribution N(mean, deviation^2): the expected clean array is linear in the array.
constexpr float kMean = 0.7f;
FormulaRule::Clean gaussian(float deviation) {
  return [deviation](const ArrayRows&, const NoisyArray& x) {
    graph::Graph& graph = *x.numbers.graph;
    const auto number = [&](float n) { return graph::scalar(graph, n); };
    const Value signal = x.level.signal, sigma = x.level.sigma;
    const Value variance = graph::multiply(number(deviation * deviation), signal);
    const Value gain = graph::divide(
        variance, graph::add(graph::multiply(variance, signal), graph::multiply(sigma, sigma)));
    const Value rest = graph::subtract(x.numbers, graph::multiply(signal, number(kMean)));
    return graph::add(number(kMean), graph::multiply(gain, rest));
  };
}

struct Solved {
  std::vector<float> noise, array; // the first and the last array
};

Solved solved(const std::shared_ptr<const ArrayRule>& rule, const Json& more) {
  const auto decoder = decoder_of(tiny_model(), rule, more);
  add_request(*decoder, 7);
  Solved made;
  made.noise = decoder->request(0).array;
  decoder->run();
  made.array = decoder->request(0).array;
  return made;
}

TEST(Solver, EverySolverEndsAtDataOfOnePoint) {
  for (const std::string& solver : solver_names()) {
    for (const char* schedule : {"linear", "cosine"}) {
      const auto flow = std::make_shared<FlowRule>(50, gaussian(0));
      const auto preserving = std::make_shared<FormulaRule>(50, gaussian(0));
      for (const std::shared_ptr<const ArrayRule>& rule :
           std::vector<std::shared_ptr<const ArrayRule>>{flow, preserving}) {
        const Solved made = solved(rule, {{"solver", solver}, {"schedule", schedule}});
        for (const float x : made.array) EXPECT_NEAR(x, kMean, 1e-6) << solver << " " << schedule;
      }
    }
  }
}

// Levels that are even in the half of log(signal^2 / sigma^2).
class LogRule final : public FormulaRule {
public:
  using FormulaRule::FormulaRule;
  HostLevel level(const noise::Schedule&, double t) const override {
    const double ratio = std::exp(2 * (7 - 9 * t));
    return {static_cast<float>(t), static_cast<float>(std::sqrt(ratio / (1 + ratio))),
            static_cast<float>(std::sqrt(1 / (1 + ratio)))};
  }
};

// The exact solution keeps the number of standard deviations from the mean.
template <class Rule> double gaussian_error(const std::string& solver, int64_t steps) {
  constexpr double kDeviation = 0.6;
  const auto rule = std::make_shared<Rule>(50, gaussian(static_cast<float>(kDeviation)));
  const Solved made = solved(rule, {{"solver", solver}, {"steps", steps}});
  const HostLevel first = rule->level(*noise::make_schedule("linear"), 1);
  const double spread = std::hypot(static_cast<double>(first.signal) * kDeviation, first.sigma);
  double most = 0;
  for (size_t i = 0; i < made.array.size(); ++i) {
    const double deviations =
        (static_cast<double>(made.noise[i]) - static_cast<double>(first.signal) * kMean) / spread;
    most = std::max(most,
                    std::abs(static_cast<double>(made.array[i]) - kMean - kDeviation * deviations));
  }
  return most;
}

TEST(Solver, EveryOdeSolverHasItsOrder) {
  const std::map<std::string, double> orders = {
      {"ddim", 1}, {"euler", 1}, {"heun", 2}, {"dpmpp_2m", 2}};
  for (const std::string& solver : solver_names()) {
    const auto found = orders.find(solver);
    if (found == orders.end()) {
      EXPECT_TRUE(make_solver(solver)->uses_noise()) << solver << " has no order here";
      continue;
    }
    const double order =
        std::log2(gaussian_error<LogRule>(solver, 64) / gaussian_error<LogRule>(solver, 128));
    EXPECT_NEAR(order, found->second, 0.2) << solver;
    const double flow =
        std::log2(gaussian_error<FlowRule>(solver, 32) / gaussian_error<FlowRule>(solver, 64));
    // Even times are uneven steps of 2M, so it comes to its order later.
    EXPECT_NEAR(flow, found->second, solver == "dpmpp_2m" ? 0.5 : 0.2) << solver;
  }
  for (const char* solver : {"heun", "dpmpp_2m"})
    EXPECT_LT(gaussian_error<FlowRule>(solver, 64), gaussian_error<FlowRule>("ddim", 64) / 8);
}

void expect_moments(const std::vector<float>& x, double mean, double deviation, double slack) {
  double sum = 0, squares = 0;
  for (const float each : x) sum += each, squares += static_cast<double>(each) * each;
  const auto count = static_cast<double>(x.size());
  const double found = sum / count, spread = std::sqrt(squares / count - found * found);
  EXPECT_NEAR(found, mean, 5 * deviation / std::sqrt(count) + slack);
  EXPECT_NEAR(spread, deviation, 5 * deviation / std::sqrt(2 * count) + slack);
}

// With data of one point the arrays of every level have exactly the distribution of the level.
TEST(Solver, AncestralStepsKeepTheDistributionOfTheirLevel) {
  const auto flow = std::make_shared<FlowRule>(20000, gaussian(0));
  const auto preserving = std::make_shared<FormulaRule>(20000, gaussian(0));
  for (const std::shared_ptr<const ArrayRule>& rule :
       std::vector<std::shared_ptr<const ArrayRule>>{flow, preserving}) {
    const auto decoder =
        decoder_of(tiny_model(), rule, {{"solver", "ddpm"}, {"schedule", "cosine"}});
    add_request(*decoder, 7);
    const auto schedule = noise::make_schedule("cosine");
    for (int64_t left = 5; left > 0; --left) {
      decoder->step();
      const HostLevel level = rule->level(*schedule, static_cast<double>(left) / 6);
      expect_moments(decoder->request(0).array, static_cast<double>(level.signal) * kMean,
                     level.sigma, 0);
    }
  }
  // Steps are exact for one point, and have an error that falls with their number otherwise.
  const auto spread = std::make_shared<FlowRule>(20000, gaussian(0.6f));
  expect_moments(solved(spread, {{"solver", "ddpm"}, {"steps", 200}}).array, kMean, 0.6, 0.01);
}

// Returns the array after one step of a solver, when the clean array is known.
float one_step(const std::string& solver, float array, float clean, HostLevel now, HostLevel next) {
  const auto made = std::make_shared<graph::Graph>("one_step");
  graph::Graph& graph = *made;
  const auto number = [&](float n) { return graph::full(graph, {1, 1, 1}, n); };
  const auto level = [&](const HostLevel& l) {
    return ArrayLevel{number(l.time), number(l.signal), number(l.sigma)};
  };
  SolverStep step;
  step.array = {number(array), level(now), number(0), number(0)};
  step.next = level(next);
  step.before = level(now);
  step.noise = number(0);
  step.denoise = [&](const NoisyArray&) { return Denoised{number(clean)}; };
  graph.output("array", make_solver(solver)->step(step).array);
  const auto engine = cpu::make_engine(Options(graph::engine_schema()));
  const auto program = engine->compile(made);
  return program->run({})[0]->read().as<float>()[0];
}

// Numbers of the specification, 17.8.
TEST(Solver, OneStepHasTheKnownNumbers) {
  const auto level = [](double alpha) {
    return HostLevel{0, static_cast<float>(std::sqrt(alpha)),
                     static_cast<float>(std::sqrt(1 - alpha))};
  };
  const auto cubic = [&](double t) { return level(1 - t * t * t); };
  const auto tangent = [&](double t) {
    const double tan = std::tan(std::acos(-1.0) * t / 2);
    return level(1 / (1 + 9 * tan * tan));
  };
  for (const char* solver : {"ddim", "euler"}) {
    EXPECT_NEAR(one_step(solver, 1, 0.5f, cubic(0.8), cubic(0.4)), 0.7137980, 1e-6) << solver;
    EXPECT_NEAR(one_step(solver, 1, 0.5f, tangent(0.8), tangent(0.4)), 1.0735016, 1e-6) << solver;
  }
  // Without new noise the fork's step has 0.8 of the implied noise.
  const double alpha = 1 - 0.4 * 0.4 * 0.4;
  EXPECT_NEAR(one_step("ddpm_mix", 1, 0.5f, cubic(0.8), cubic(0.4)),
              std::sqrt(alpha) * 0.5 + std::sqrt(1 - alpha) * 0.8 * 0.9094019, 1e-6);
  for (const char* solver : {"euler", "heun"}) {
    float x = 2;
    for (int left = 4; left > 0; --left) {
      const auto flow = [](int n) {
        const float t = static_cast<float>(n) / 4;
        return HostLevel{t, 1 - t, t};
      };
      x = one_step(solver, x, -1, flow(left), flow(left - 1));
    }
    EXPECT_EQ(x, -1) << solver;
  }
}

TEST(Solver, AnUnknownSolverIsNamed) {
  test::expect_error(Code::not_found, "no solver named \"hein\"", [] { make_solver("hein"); });
}

TEST(Solver, APolicyOverTokensTakesNone) {
  test::expect_error(Code::invalid_argument, "decodes tokens, and solver heun", [] {
    make_decoder(tiny_model(), {{"solver", "heun"}});
  });
  const auto decoder = make_decoder(tiny_model(), {{"gen_length", 9}});
  test::expect_error(Code::invalid_argument, "decodes tokens, and solver heun", [&] {
    add_request(*decoder, 7, {{"solver", "heun"}});
  });
  add_request(*decoder, 7, {{"solver", "ddim"}});
}

// Requests with solvers of their own are other programs of one decoder.
TEST(Solver, ARequestChoosesItsSolver) {
  const auto rule = std::make_shared<FlowRule>(7, gaussian(0.6f));
  const auto decoder = decoder_of(tiny_model(), rule);
  const std::vector<std::string> names = solver_names();
  for (const std::string& name : names) add_request(*decoder, 7, {{"solver", name}});
  decoder->run();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto slot = static_cast<int64_t>(i);
    EXPECT_EQ(decoder->request(slot).array, solved(rule, {{"solver", names[i]}}).array) << names[i];
    EXPECT_EQ(decoder->copy(slot)->nfe, names[i] == "heun" ? 12 : 6);
  }
}

// --- the last estimate, and guidance ---

TEST(ArraySeam, TheLastEstimateIsGivenToTheNextStep) {
  const auto rule = std::make_shared<FlowRule>(2, [](const ArrayRows&, const NoisyArray& x) {
    graph::Graph& graph = *x.numbers.graph;
    const Value more = graph::multiply(x.has_previous, graph::scalar(graph, 10.0f));
    return graph::add(graph::add(x.previous, more), graph::scalar(graph, 1.0f));
  });
  const auto decoder = decoder_of(tiny_model(), rule);
  add_request(*decoder, 7, {{"steps", 3}});
  add_request(*decoder, 8, {{"steps", 1}});
  add_request(*decoder, 9);
  decoder->step();
  EXPECT_EQ(decoder->request(2).previous, std::vector<float>(2, 1.0f));
  decoder->run();
  EXPECT_EQ(decoder->request(0).array, std::vector<float>(2, 23.0f));
  EXPECT_EQ(decoder->request(1).array, std::vector<float>(2, 1.0f));
  EXPECT_EQ(decoder->request(2).array, std::vector<float>(2, 56.0f));
}

TEST(ArraySeam, GuidanceMovesAwayFromTheArrayWithoutGivenTokens) {
  // 0.25, and 0.5 more with a given token.
  const auto rule = std::make_shared<FlowRule>(2, [](const ArrayRows& rows, const NoisyArray&) {
    graph::Graph& graph = rows.builder.graph();
    const Value any = graph::max(graph::convert(rows.given, DType::f32), {1}, true);
    const Value half = graph::multiply(any, graph::scalar(graph, 0.5f));
    return graph::add(graph::reshape(half, {rows.rows(), 1, 1}), graph::scalar(graph, 0.25f));
  });
  const auto last = [&](const Json& more) { return solved(rule, more).array[0]; };
  EXPECT_EQ(last({}), 0.75f);
  EXPECT_EQ(last({{"guidance", 1}}), 1.25f);
  EXPECT_EQ(last({{"guidance", 3}}), 2.25f);
  EXPECT_EQ(last({{"guidance", 3}, {"guidance_keep", {"4"}}}), 0.75f);
  // Holes between given tokens are guided like text after a prompt.
  const auto holes = decoder_of(tiny_model(), rule, {{"guidance", 1}});
  const std::vector<int32_t> canvas = {0, 5, 0, 7};
  holes->add(canvas, std::vector<uint8_t>{0, 1, 0, 1}, slot_options({{"gen_length", 0}}));
  holes->add(canvas, std::vector<uint8_t>{0, 0, 0, 0}, slot_options({{"gen_length", 0}}));
  holes->run();
  EXPECT_EQ(holes->request(0).array[0], 1.25f);
  EXPECT_EQ(holes->request(0).ids[1], 5);
  EXPECT_EQ(holes->request(1).array[0], 0.25f);
}

// --- the text ---

std::shared_ptr<model::Model> latent_model(int64_t threads = 1, const char* mesh = "") {
  Options options(graph::engine_schema());
  options.set_i64("threads", threads);
  options.set_str("mesh", mesh);
  return latent_model_on(cpu::make_engine(options));
}

std::unique_ptr<Decoder> latent_decoder(const std::shared_ptr<model::Model>& model,
                                        const Json& more = Json::object()) {
  return decoder_of(model, std::make_shared<LatentRule>(), more);
}

// The text and the arrays, bit for bit.
struct Latent {
  Answer answer;
  std::vector<float> array, previous;
  bool operator==(const Latent&) const = default;
};

Latent latent_of(const Decoder& decoder, int64_t slot = 0) {
  return {answer_of(decoder, slot), decoder.request(slot).array, decoder.request(slot).previous};
}

Latent latent(const std::shared_ptr<model::Model>& model, const Json& more,
              const EventFn& fn = {}) {
  const auto decoder = latent_decoder(model, more);
  add_request(*decoder, 7);
  decoder->run(fn);
  return latent_of(*decoder);
}

TEST(ArraySeam, EverySolverGivesTheSameTextWhateverRunsTheSteps) {
  const auto model = latent_model();
  const EventFn watch = [](const Event&) { return dllm::Answer::go_on; };
  for (const std::string& solver : solver_names()) {
    const Json device = {{"solver", solver}, {"guidance", 0.5}, {"temperature", 0.4}};
    Json host = device, traced = device;
    host["loop"] = "host";
    traced["trace"] = true;
    const Latent wanted = latent(model, device);
    EXPECT_EQ(wanted.array.size(), 24U);
    EXPECT_EQ(latent(model, host), wanted) << solver;
    EXPECT_EQ(latent(model, device, watch), wanted) << solver;
    EXPECT_EQ(latent(model, host, watch), wanted) << solver;
    EXPECT_EQ(latent(model, traced), wanted) << solver;
    EXPECT_EQ(latent(latent_model(2), device), wanted) << solver;
    EXPECT_NE(latent(model, {{"solver", solver}, {"temperature", 0.4}}).array, wanted.array);

    // Launches that begin in the middle: after steps of one launch each, and after a stop.
    for (int64_t steps = 1; steps < 6; ++steps) {
      const auto split = latent_decoder(model, device);
      add_request(*split, 7);
      for (int64_t i = 0; i < steps; ++i) split->step();
      split->run();
      EXPECT_EQ(latent_of(*split), wanted) << solver << " " << steps;
      const auto stopped = latent_decoder(model, device);
      add_request(*stopped, 7);
      int64_t seen = 0;
      stopped->run([&](const Event& event) {
        const bool is_step = event.kind() == EventKind::decode_step;
        return is_step && ++seen == steps ? dllm::Answer::stop : dllm::Answer::go_on;
      });
      EXPECT_EQ(stopped->request(0).steps, steps);
      stopped->run();
      EXPECT_EQ(latent_of(*stopped), wanted) << solver << " " << steps;
    }

    // Next to others: with fewer steps, a longer window, and a seed of its own.
    const auto batch = latent_decoder(model, device);
    add_request(*batch, 8, {{"steps", 2}});
    add_request(*batch, 7);
    add_request(*batch, 9, {{"gen_length", 20}});
    batch->run();
    EXPECT_EQ(latent_of(*batch, 1), wanted) << solver;
    const auto alone = latent_decoder(model, device);
    add_request(*alone, 9, {{"gen_length", 20}});
    alone->run();
    EXPECT_EQ(latent_of(*batch, 2), latent_of(*alone)) << solver;
  }
}

TEST(ArraySeam, RanksShareTheRowsOfEverySolver) {
  for (const std::string& solver : solver_names()) {
    const Json more = {{"solver", solver}, {"guidance", 0.5}};
    std::vector<Latent> found;
    for (const char* mesh : {"", "data=2"}) {
      const auto decoder = latent_decoder(latent_model(1, mesh), more);
      for (const int64_t seed : {7, 8, 9}) add_request(*decoder, seed);
      decoder->run();
      for (const int64_t slot : {0, 1, 2}) found.push_back(latent_of(*decoder, slot));
    }
    for (size_t i = 3; i < found.size(); ++i) EXPECT_EQ(found[i], found[i - 3]) << solver;
  }
}

// A record that is too large for one launch is cut, and both arrays go on where they were.
TEST(ArraySeam, ALargeRecordIsSeveralLaunches) {
  const auto rule = std::make_shared<FlowRule>(3 << 20, [](const ArrayRows&, const NoisyArray& x) {
    graph::Graph& graph = *x.numbers.graph;
    const auto half = [&](Value y) { return graph::multiply(y, graph::scalar(graph, 0.5f)); };
    return graph::add(half(x.numbers), half(x.previous));
  });
  const auto run = [&](const char* loop) {
    auto decoder = decoder_of(tiny_model(), rule, {{"steps", 4}, {"loop", loop}});
    add_request(*decoder, 7);
    decoder->run();
    return decoder;
  };
  const auto device = run("device"), host = run("host");
  EXPECT_EQ(device->request(0).launches, 2);
  EXPECT_EQ(host->request(0).launches, 4);
  EXPECT_TRUE(device->request(0).array == host->request(0).array);
  EXPECT_EQ(answer_of(*device), answer_of(*host));
}

// Text that is not watched is not read, and all that is watched is read at once.
TEST(ArraySeam, OnlyTextThatIsSeenIsRead) {
  const auto rule = std::make_shared<LatentRule>();
  const auto model = latent_model();
  const auto reads = [&](const Json& more, const EventFn& fn = {}) {
    rule->read_rows.clear();
    const auto decoder = decoder_of(model, rule, more);
    add_request(*decoder, 7);
    decoder->run(fn);
    EXPECT_EQ(decoder->request(0).decided, 9);
    return rule->read_rows;
  };
  int64_t open = 0;
  const EventFn watch = [&](const Event& event) {
    if (event.kind() == EventKind::decode_step) open += std::get<int64_t>(*event.find("open"));
    return dllm::Answer::go_on;
  };
  EXPECT_EQ(reads({}), std::vector<int64_t>{1});
  EXPECT_EQ(reads({{"loop", "host"}}), std::vector<int64_t>{1}); // one program of two reads
  EXPECT_EQ(reads({{"trace", true}}), std::vector<int64_t>{6});
  EXPECT_EQ(reads({}, watch), std::vector<int64_t>{6});
  EXPECT_EQ(open, 0); // every step showed its text
  const auto decoder = decoder_of(model, rule, {{"loop", "host"}});
  add_request(*decoder, 7);
  decoder->step();
  EXPECT_EQ(decoder->request(0).open_count(0, 12), 0); // a single step is watched
}

TEST(ArraySeam, TracesShowTheTextOfEveryStep) {
  const auto model = latent_model();
  std::vector<std::string> traces;
  for (const char* loop : {"host", "device"}) {
    const auto decoder = latent_decoder(model, {{"loop", loop}, {"trace", true}});
    add_request(*decoder, 7);
    decoder->run();
    traces.push_back(decoder->trace(0));
  }
  EXPECT_EQ(traces[0], traces[1]);
  std::istringstream lines(traces[0]);
  std::vector<std::vector<int32_t>> texts;
  for (std::string line; std::getline(lines, line);)
    texts.push_back(Json::parse(line).at("ids").get<std::vector<int32_t>>());
  ASSERT_EQ(texts.size(), 7U);
  EXPECT_NE(texts[1], texts[6]);
}

// What shapes draws holds for the head of another part, too.
TEST(ArraySeam, BansBiasAndLikelyTokensHoldForTheText) {
  const auto model = latent_model();
  const Latent plain = latent(model, {});
  const int32_t first = plain.answer.ids[3];
  EXPECT_NE(first, kMask); // banned by suppress_mask
  const std::string id = std::to_string(first);
  const Latent banned = latent(model, {{"suppress", {id}}});
  EXPECT_EQ(std::ranges::count(banned.answer.ids.begin() + 3, banned.answer.ids.end(), first), 0);
  EXPECT_EQ(banned.array, plain.array);
  const Latent biased = latent(model, {{"logit_bias", {id + "=100"}}});
  EXPECT_EQ(std::ranges::count(biased.answer.ids.begin() + 3, biased.answer.ids.end(), first), 9);
  for (const char* loop : {"host", "device"}) {
    const auto decoder = latent_decoder(model, {{"top_logprobs", 3}, {"loop", loop}});
    add_request(*decoder, 7);
    decoder->run();
    EXPECT_EQ(latent_of(*decoder), plain);
    const auto kept = decoder->copy(0)->kept;
    ASSERT_EQ(kept.size(), 9U);
    EXPECT_EQ(kept.at(3).size(), 3U);
    EXPECT_EQ(kept.at(3)[0].id, first);
  }
}

TEST(ArraySeam, ATokenThatEndsTheTextCountsInTheLastStep) {
  const auto model = latent_model();
  const Latent plain = latent(model, {});
  const int32_t stop = plain.answer.ids[5];
  const auto decoder = latent_decoder(model);
  add_request(*decoder, 7, {{"stop", {std::to_string(stop)}}});
  decoder->run();
  EXPECT_EQ(decoder->request(0).finish, Finish::stopped);
  EXPECT_EQ(decoder->request(0).steps, 6);
  EXPECT_EQ(answer_of(*decoder), plain.answer);
}

} // namespace
} // namespace dllm::decode
