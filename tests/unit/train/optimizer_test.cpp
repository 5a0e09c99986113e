// Optimizers: what they declare, and the update against its formula.

#include "train/optimizer.h"

#include "bare_update.h"
#include "base/error.h"
#include "tiny.h"
#include "train/checkpoint/state_file.h"
#include "train/step/programs.h"
#include "train/trainer.h"

#include "graph/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace dllm::train {
namespace {

const Numbers kStart = {1.0f, -2.0f, 0.5f, 3.0f};
const std::vector<Numbers> kGradients = {{4, -8, 2, 0.5f}, {-2, 6, 1, 1}, {8, 8, -8, 0}};
constexpr float kTargets = 4; // gradients are sums over so many

TEST(Optimizer, NamesAndScalarsAreTheirOwn) {
  std::set<std::string> names;
  for (const Optimizer& optimizer : optimizers()) {
    EXPECT_TRUE(names.insert(optimizer.name).second) << optimizer.name;
    EXPECT_EQ(&find_optimizer(optimizer.name), &optimizer);
    const Options options = trainer_options({{"optimizer", optimizer.name}});
    EXPECT_EQ(optimizer.step_scalars(options, {}).size(), optimizer.scalars.size())
        << optimizer.name;
    for (const OptionSpec& row : optimizer.options) { // equal where two optimizers share a key
      const OptionSpec& shared = trainer_schema().find(row.key);
      EXPECT_EQ(shared.default_value, row.default_value) << row.key;
      EXPECT_EQ(shared.min, row.min) << row.key;
      EXPECT_EQ(shared.max, row.max) << row.key;
    }
  }
  EXPECT_EQ(optimizers().front().name, "adamw");
  EXPECT_THROW(find_optimizer("adam"), Error);
}

TEST(Optimizer, SgdIsItsFormula) {
  for (const Json& values : {Json{{"momentum", 0.0}}, Json{{"momentum", 0.9}},
                             Json{{"momentum", 0.9}, {"nesterov", true}}}) {
    Json options = values;
    options["optimizer"] = "sgd";
    options["lr"] = 0.1;
    options["weight_decay"] = 0.25;
    BareUpdate bare("sgd", options, kStart);
    std::vector<double> p(kStart.begin(), kStart.end()), m(kStart.size());
    const double mu = values["momentum"].get<double>();
    for (const Numbers& gradient : kGradients) {
      bare.step(gradient, kTargets);
      for (size_t i = 0; i < p.size(); ++i) {
        const double g = gradient[i] / kTargets;
        m[i] = mu * m[i] + g;
        const double direction = values.contains("nesterov") ? g + mu * m[i] : m[i];
        p[i] -= 0.1 * (direction + 0.25 * p[i]);
        EXPECT_NEAR(bare.arrays()[0][i], p[i], 1e-6) << values.dump() << " " << i;
      }
    }
    ASSERT_EQ(bare.arrays().size(), mu > 0 ? 2u : 1u);
    if (mu > 0) {
      EXPECT_NEAR(bare.arrays()[1][0], m[0], 1e-6);
    }
  }
}

TEST(Optimizer, LionIsItsFormula) {
  BareUpdate bare("lion",
                  {{"optimizer", "lion"},
                   {"lr", 0.1},
                   {"weight_decay", 0.25},
                   {"lion_beta1", 0.6},
                   {"lion_beta2", 0.8}},
                  kStart);
  std::vector<double> p(kStart.begin(), kStart.end()), m(kStart.size());
  for (const Numbers& gradient : kGradients) {
    bare.step(gradient, kTargets);
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] / kTargets, mixed = 0.6 * m[i] + 0.4 * g;
      const double direction = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
      p[i] -= 0.1 * (direction + 0.25 * p[i]);
      m[i] = 0.8 * m[i] + 0.2 * g;
      EXPECT_NEAR(bare.arrays()[0][i], p[i], 1e-6) << i;
      EXPECT_NEAR(bare.arrays()[1][i], m[i], 1e-6) << i;
    }
  }
}

TEST(Optimizer, AdamWIsItsFormula) {
  const Json options = {
      {"lr", 0.1}, {"beta1", 0.8}, {"beta2", 0.9}, {"eps", 1e-3}, {"weight_decay", 0.25}};
  BareUpdate bare("adamw", options, kStart);
  std::vector<double> p(kStart.begin(), kStart.end()), m(kStart.size()), v(kStart.size());
  double t = 0;
  for (const Numbers& gradient : kGradients) {
    bare.step(gradient, kTargets);
    ++t;
    for (size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] / kTargets;
      m[i] = 0.8 * m[i] + 0.2 * g;
      v[i] = 0.9 * v[i] + 0.1 * g * g;
      const double move =
          m[i] / (1 - std::pow(0.8, t)) / (std::sqrt(v[i] / (1 - std::pow(0.9, t))) + 1e-3);
      p[i] -= 0.1 * (move + 0.25 * p[i]);
      EXPECT_NEAR(bare.arrays()[0][i], p[i], 2e-6) << i;
    }
  }
}

TEST(Optimizer, ClippingScalesTheGradient) {
  BareUpdate bare("sgd", {{"optimizer", "sgd"}, {"lr", 1.0}, {"weight_decay", 0.0}}, {0, 0});
  bare.step({6, 8}, 1, 5); // norm 10
  EXPECT_NEAR(bare.arrays()[0][0], -3, 1e-6);
  EXPECT_NEAR(bare.arrays()[0][1], -4, 1e-6);
}

// Neutral scalars, and a gradient that is left out: nothing changes, to the bit, in any optimizer.
TEST(Optimizer, AnUpdateThatIsNotFiniteChangesNoBit) {
  const std::vector<std::pair<std::string, Json>> all = {
      {"adamw", Json::object()},
      {"sgd", {{"optimizer", "sgd"}}},
      {"sgd", {{"optimizer", "sgd"}, {"momentum", 0.9}}},
      {"sgd", {{"optimizer", "sgd"}, {"momentum", 0.9}, {"nesterov", true}}},
      {"adafactor", {{"optimizer", "adafactor"}}},
      {"muon", {{"optimizer", "muon"}}}};
  for (const auto& [name, options] : all) {
    BareUpdate bare(name, options, kStart);
    for (const Numbers& gradient : kGradients) bare.step(gradient, kTargets);
    const std::vector<Numbers> before = bare.arrays();
    bare.step({NAN, 1, 1, 1}, kTargets);
    EXPECT_EQ(bare.arrays(), before) << name << options.dump();
    bare.step({INFINITY, 1, -INFINITY, 1}, kTargets);
    EXPECT_EQ(bare.arrays(), before) << name << options.dump();
    bare.step(kGradients[0], kTargets);
    EXPECT_NE(bare.arrays(), before) << name << options.dump();
  }
}

std::string refusal(const Json& values) {
  try {
    optimizer_of(trainer_options(values));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.text() + " | " + error.hint();
  }
  return "no error";
}

TEST(Optimizer, OptionsOfAnotherOneAreErrors) {
  const std::string text = refusal({{"momentum", 0.9}});
  EXPECT_NE(text.find("momentum is an option of optimizer sgd, this trainer has optimizer adamw"),
            std::string::npos)
      << text;
  EXPECT_NE(
      refusal({{"optimizer", "sgd"}, {"beta2", 0.5}}).find("beta2 is an option of optimizer adamw"),
      std::string::npos);
  EXPECT_NE(refusal({{"optimizer", "sgd"}, {"nesterov", true}}).find("nesterov needs a momentum"),
            std::string::npos);
  EXPECT_EQ(refusal({{"optimizer", "sgd"}, {"momentum", 0.5}, {"nesterov", true}}), "no error");
  // Also at their default.
  EXPECT_NE(
      refusal({{"optimizer", "sgd"}, {"beta1", 0.9}}).find("beta1 is an option of optimizer adamw"),
      std::string::npos);
  EXPECT_NE(refusal({{"momentum", 0.0}}).find("momentum is an option of optimizer sgd"),
            std::string::npos);
  // Copies of all effective options have every key.
  EXPECT_EQ(refusal(Options(trainer_schema()).to_json()), "no error");
  // A trainer refuses before it changes the model.
  const auto model = tiny_model();
  const int64_t version = model->version();
  EXPECT_THROW(Trainer(model, noise::make_objective("mdlm"), trainer_options({{"momentum", 0.9}})),
               Error);
  EXPECT_EQ(model->version(), version);
}

// --- arrays with shapes of their own ---

model::ParamSpec matrix(Shape element, std::vector<model::ParamPiece> pieces) {
  model::ParamSpec spec{
      .name = "m", .role = model::ParamRole::weight, .layers = 2, .element = std::move(element)};
  spec.pieces = std::move(pieces);
  return spec;
}

TEST(Optimizer, FactoredLayoutsFollowTheLogicalTensors) {
  // Two logical tensors (2, 5) and, stored transposed, (5, 4) in one physical (2, 6, 5).
  const model::ParamSpec fused = matrix({6, 5}, {{"l.{}.q", 2, false}, {"l.{}.k", 4, true}});
  EXPECT_EQ(per_row(fused).shape(), (Shape{2, 6}));
  EXPECT_EQ(per_column(fused).shape(), (Shape{2, 2, 5}));
  EXPECT_EQ(per_row(fused).logical_shape(per_row(fused).pieces[1]), (Shape{4}));
  EXPECT_EQ(per_column(fused).logical_shape(per_column(fused).pieces[1]), (Shape{1, 5}));
  const model::ParamSpec experts =
      matrix({3, 4, 5}, {{"e.{}.0", 1, false}, {"e.{}.1", 1, false}, {"e.{}.2", 1, false}});
  EXPECT_EQ(per_row(experts).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(per_column(experts).shape(), (Shape{2, 3, 5}));
  for (const model::ParamSpec& spec : {fused, experts}) {
    for (const model::ParamSpec& layout : {like_parameter(spec), per_row(spec), per_column(spec)}) {
      Tensor physical(DType::f32, layout.shape());
      float next = 0;
      for (float& value : physical.mutable_as<float>()) value = next++;
      std::map<std::string, Tensor> parts;
      for (const auto& [name, tensor] : model::split_physical(layout, physical))
        parts[name] = tensor;
      EXPECT_EQ(parts.size(), 2 * spec.pieces.size());
      const Tensor joined = model::join_logical(
          layout, DType::f32, [&](const std::string& name, size_t) { return parts.at(name); });
      EXPECT_TRUE(std::ranges::equal(joined.as<float>(), physical.as<float>()));
    }
  }
  const model::ParamSpec vector{.name = "n", .role = model::ParamRole::norm, .element = {5}};
  EXPECT_THROW(per_row(vector), Error);
}

// A second moment in two factors for matrices, whole for vectors (Shazeer & Stern 2018, without its
// refinements): shapes that are not those of the parameters go through programs and state files.
std::vector<StateArray> factored_state(const Options&, const model::ParamSpec& parameter) {
  if (parameter.element.rank() < 2) return {{"square", like_parameter(parameter)}};
  return {{"rows", per_row(parameter)}, {"columns", per_column(parameter)}};
}

std::vector<double> factored_scalars(const Options&, const UpdateInfo& info) {
  return {info.lr, 0.5};
}

std::vector<ParameterOutputs> factored_graph(const UpdateContext& context,
                                             std::span<const ParameterInputs> all) {
  const graph::Value lr = scalar_at(context.scalars, 0), decay = scalar_at(context.scalars, 1);
  const graph::Value rest = graph::subtract(graph::scalar(context.graph, 1.0f), decay);
  std::vector<ParameterOutputs> made;
  for (const ParameterInputs& in : all) {
    const graph::Value g = scaled_gradient(context, in.gradient), square = graph::multiply(g, g);
    const auto mean = [&](graph::Value old, graph::Value fresh) {
      return graph::add(graph::multiply(old, decay),
                        graph::multiply(graph::reshape(fresh, old.shape()), rest));
    };
    ParameterOutputs next;
    const int64_t axes = in.parameter.rank();
    if (in.state.size() == 1) {
      next.state = {mean(in.state[0], square)};
    } else {
      next.state = {mean(in.state[0], graph::sum(square, {axes - 1})),
                    mean(in.state[1], graph::sum(square, {axes - 2}))};
    }
    next.parameter = graph::subtract(in.parameter, graph::multiply(g, lr));
    made.push_back(next);
  }
  return made;
}

TEST(Optimizer, FactoredMomentsAreStatedCompiledAndSaved) {
  const Optimizer factored{.name = "factored",
                           .scalars = {{"lr", 0}, {"decay", 1}},
                           .state = factored_state,
                           .step_scalars = factored_scalars,
                           .update = factored_graph};
  const auto engine = tiny_engine();
  const auto model = tiny_model(engine);
  model->params().make_masters(model->trained());
  const auto objective = noise::make_objective("mdlm");
  const ProgramSpec spec = program_spec(*model, *objective, trainer_options(), factored);
  const int64_t numbers = model->params().parameter_count();
  EXPECT_LT(state_bytes(spec), 4 * numbers / 2);

  std::map<std::string, Shape> saved;
  for (const StateTensor& tensor : state_tensors(spec, false)) saved[tensor.name] = tensor.shape;
  EXPECT_EQ(saved.at("square.model.norm.weight"), (Shape{24}));
  EXPECT_EQ(saved.at("rows.model.layers.1.mlp.up_proj.weight"), (Shape{40}));
  EXPECT_EQ(saved.at("columns.model.layers.1.mlp.up_proj.weight"), (Shape{1, 24}));

  TextSource source;
  const Batch rows = *source.next();
  const Batch feed = objective->feed(
      objective->prepare(rows, 1, 0, noise::prepare_context(*objective, model->config())),
      model->config());
  const TrainProgram program(spec, ProgramKind::fused, feed);
  std::vector<graph::BufferRef> state;
  for (const StateEntry& entry : spec.state)
    state.push_back(engine->upload(Tensor(DType::f32, entry.layout.shape())));
  graph::BufferRef halted;
  const Numbers scalars = {0.1f, 0.5f, INFINITY, 0, 0, 0};
  const std::vector<int32_t> control(kControlCount);
  const auto before = weights_of(*model);
  const Feeds feeds = {feed};
  const auto run = program.run({model->params(), state, halted, scalars, control, feeds}, nullptr);
  EXPECT_TRUE(program.read(*run).finite);
  EXPECT_NE(weights_of(*model), before);
  for (size_t i = 0; i < state.size(); ++i) {
    if (spec.state[i].use != StateUse::optimizer) continue;
    double sum = 0;
    for (const float value : state[i]->read().as<float>()) sum += value;
    EXPECT_GT(sum, 0) << spec.state[i].name << " of " << spec.state[i].layout.name;
  }
}

TEST(Optimizer, SgdLearnsATinyText) {
  auto trainer =
      tiny_trainer({{"optimizer", "sgd"}, {"lr", 0.5}, {"momentum", 0.9}, {"nesterov", true}});
  TextSource source, held;
  held.seek(1000);
  const double before = trainer->eval(held, 8);
  trainer->run(source, 300);
  held.seek(1000);
  EXPECT_LT(trainer->eval(held, 8), 0.7 * before) << "from " << before;
  const Json info = trainer->describe().at("optimizer");
  EXPECT_EQ(info.at("name"), "sgd");
  ASSERT_EQ(info.at("arrays").size(), 1u);
  EXPECT_EQ(info.at("arrays")[0].at("name"), "momentum");
  EXPECT_EQ(info.at("arrays")[0].at("bytes"),
            4 * trainer->model("live")->params().parameter_count());
}

TEST(Optimizer, SgdHalvesAccumulatedEqualOneBatch) {
  const Json options = {{"optimizer", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}};
  TextSource source(8);
  const Batch whole = *source.next();
  auto one = tiny_trainer(options), two = tiny_trainer(options);
  for (int step = 0; step < 2; ++step) {
    one->step(whole);
    for (int64_t half = 0; half < 2; ++half) {
      Batch part;
      part.set("ids", whole.at("ids").rows(4 * half, 4 * half + 4).clone());
      two->accumulate(part);
    }
    two->apply();
  }
  const auto a = weights_of(*one), b = weights_of(*two);
  for (const auto& [name, values] : a) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], b.at(name)[i], 1e-5) << name;
  }
}

} // namespace
} // namespace dllm::train
