// Optimizers that treat matrices as matrices, Adafactor and Muon, against their formulas in f64;
// groups of parameters.

#include "bare_update.h"
#include "base/error.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state_file.h"
#include "train/step/programs.h"
#include "train/trainer.h"

#include "base/files.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix zeros(size_t rows, size_t columns) {
  return Matrix(rows, std::vector<double>(columns));
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix made = zeros(x.size(), y[0].size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t k = 0; k < y.size(); ++k)
      for (size_t j = 0; j < y[0].size(); ++j) made[i][j] += x[i][k] * y[k][j];
  return made;
}

Matrix turned(const Matrix& x) {
  Matrix made = zeros(x[0].size(), x.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < x[0].size(); ++j) made[j][i] = x[i][j];
  return made;
}

double root_mean_square(const Matrix& x) {
  double sum = 0;
  for (const auto& row : x)
    for (const double value : row) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size() * x[0].size()));
}

// Numbers that repeat after a long time.
Numbers wave(size_t count, double phase) {
  Numbers made;
  for (size_t i = 0; i < count; ++i)
    made.push_back(static_cast<float>(std::sin(1.7 * static_cast<double>(i) + phase)));
  return made;
}

Matrix part(const Numbers& values, size_t begin, size_t rows, size_t columns) {
  Matrix made = zeros(rows, columns);
  for (size_t i = 0; i < rows * columns; ++i) made[i / columns][i % columns] = values[begin + i];
  return made;
}

constexpr int64_t kLayers = 2, kIn = 5;

// Two tensors, (3, 5) and (4, 5), in each of two layers.
model::ParamSpec fused_layout() {
  model::ParamSpec layout{.name = "layers.qk",
                          .role = model::ParamRole::weight,
                          .layers = kLayers,
                          .element = {7, kIn}};
  layout.pieces = {{"l.{}.q", 3, false}, {"l.{}.k", 4, false}};
  return layout;
}

// What a formula makes of each logical tensor, compared with the update of all in one array.
template <class Formula> void expect_by_tensor(BareUpdate& bare, Numbers start, Formula make) {
  struct Place {
    size_t begin, rows;
  };
  std::vector<Place> places;
  for (size_t layer = 0; layer < kLayers; ++layer) {
    places.push_back({layer * 7 * kIn, 3});
    places.push_back({(layer * 7 + 3) * kIn, 4});
  }
  std::vector<decltype(make())> formulas;
  std::vector<Matrix> parameters;
  for (const Place& place : places) {
    formulas.push_back(make());
    parameters.push_back(part(start, place.begin, place.rows, kIn));
  }
  for (int step = 1; step <= 4; ++step) {
    const Numbers gradient = wave(start.size(), step);
    bare.step(gradient, 1);
    for (size_t i = 0; i < places.size(); ++i) {
      formulas[i](parameters[i], part(gradient, places[i].begin, places[i].rows, kIn), step);
      const Matrix found = part(bare.arrays()[0], places[i].begin, places[i].rows, kIn);
      for (size_t row = 0; row < places[i].rows; ++row)
        for (size_t column = 0; column < kIn; ++column)
          EXPECT_NEAR(found[row][column], parameters[i][row][column], 2e-5)
              << "tensor " << i << " step " << step;
    }
  }
}

struct AdafactorFormula {
  Matrix rows, columns; // one column; one row
  void operator()(Matrix& p, const Matrix& g, int t) {
    const size_t m = g.size(), n = g[0].size();
    if (rows.empty()) rows = zeros(m, 1), columns = zeros(1, n);
    const double fresh = std::pow(t, -0.8);
    double mean = 0;
    for (size_t i = 0; i < m; ++i) {
      double sum = 0;
      for (size_t j = 0; j < n; ++j) sum += g[i][j] * g[i][j];
      rows[i][0] = (1 - fresh) * rows[i][0] + fresh * sum / static_cast<double>(n);
      mean += rows[i][0] / static_cast<double>(m);
    }
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t i = 0; i < m; ++i) sum += g[i][j] * g[i][j];
      columns[0][j] = (1 - fresh) * columns[0][j] + fresh * sum / static_cast<double>(m);
    }
    Matrix u = g;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) u[i][j] /= std::sqrt(rows[i][0] * columns[0][j] / mean);
    const double rate =
        0.1 * std::max(1e-3, root_mean_square(p)) / std::max(1.0, root_mean_square(u));
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) p[i][j] -= rate * u[i][j] + 0.1 * 0.25 * p[i][j];
  }
};

TEST(MatrixOptimizer, AdafactorIsItsFormulaInEveryTensor) {
  const model::ParamSpec layout = fused_layout();
  const Numbers start = wave(static_cast<size_t>(layout.shape().count()), 0.3);
  BareUpdate bare(
      "adafactor",
      {{"optimizer", "adafactor"}, {"lr", 0.1}, {"weight_decay", 0.25}, {"factor_from", 3}}, layout,
      start);
  ASSERT_EQ(bare.arrays().size(), 3u);
  EXPECT_EQ(bare.arrays()[1].size(), 2u * 7);       // rows
  EXPECT_EQ(bare.arrays()[2].size(), 2u * 2 * kIn); // columns of two tensors
  expect_by_tensor(bare, start, [] { return AdafactorFormula{}; });
}

struct MuonFormula {
  Matrix momentum;
  void operator()(Matrix& p, const Matrix& g, int) {
    const size_t m = g.size(), n = g[0].size();
    if (momentum.empty()) momentum = zeros(m, n);
    Matrix x = g;
    double norm = 0;
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        momentum[i][j] = 0.9 * momentum[i][j] + g[i][j];
        x[i][j] = g[i][j] + 0.9 * momentum[i][j];
        norm += x[i][j] * x[i][j];
      }
    }
    for (auto& row : x)
      for (double& value : row) value /= std::sqrt(norm) + 1e-7;
    for (int step = 0; step < 5; ++step) {
      const Matrix square = product(x, turned(x)), fourth = product(square, square);
      const Matrix first = product(square, x), second = product(fourth, x);
      for (size_t i = 0; i < m; ++i)
        for (size_t j = 0; j < n; ++j)
          x[i][j] = 3.4445 * x[i][j] - 4.7750 * first[i][j] + 2.0315 * second[i][j];
    }
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(m, n)));
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) p[i][j] -= 0.1 * (scale * x[i][j] + 0.25 * p[i][j]);
  }
};

TEST(MatrixOptimizer, MuonIsItsFormulaInEveryTensor) {
  const model::ParamSpec layout = fused_layout();
  const Numbers start = wave(static_cast<size_t>(layout.shape().count()), 0.3);
  BareUpdate bare(
      "muon", {{"optimizer", "muon"}, {"lr", 0.1}, {"weight_decay", 0.25}, {"muon_momentum", 0.9}},
      layout, start);
  ASSERT_EQ(bare.arrays().size(), 2u);
  expect_by_tensor(bare, start, [] { return MuonFormula{}; });
}

TEST(MatrixOptimizer, MuonLeavesTheRestToAdamW) {
  model::ParamSpec layout = fused_layout();
  layout.role = model::ParamRole::embedding;
  const Numbers start = wave(static_cast<size_t>(layout.shape().count()), 0.3);
  const Json values = {{"lr", 0.1}, {"beta1", 0.8}, {"eps", 1e-3}};
  Json muon = values;
  muon["optimizer"] = "muon";
  BareUpdate one("muon", muon, layout, start), other("adamw", values, layout, start);
  for (int step = 1; step < 4; ++step) {
    one.step(wave(start.size(), step), 1);
    other.step(wave(start.size(), step), 1);
  }
  EXPECT_EQ(one.arrays(), other.arrays());
}

TEST(MatrixOptimizer, AnUpdateThatIsNotFiniteChangesNoBit) {
  const model::ParamSpec layout = fused_layout();
  const Numbers start = wave(static_cast<size_t>(layout.shape().count()), 0.3);
  Numbers bad = wave(start.size(), 1);
  bad[3] = NAN;
  for (const Json& values :
       {Json{{"optimizer", "adafactor"}, {"factor_from", 3}}, Json{{"optimizer", "muon"}}}) {
    BareUpdate bare(values["optimizer"], values, layout, start);
    const auto before = bare.arrays(); // also of a first update, whose moments are 0
    bare.step(bad, 1);
    EXPECT_EQ(bare.arrays(), before) << values.dump();
    bare.step(wave(start.size(), 1), 1);
    const auto after = bare.arrays();
    EXPECT_NE(after, before) << values.dump();
    bare.step(bad, 1);
    EXPECT_EQ(bare.arrays(), after) << values.dump();
  }
}

TEST(MatrixOptimizer, AGroupHasARateAndADecayOfItsOwn) {
  const model::ParamSpec layout = fused_layout();
  const Numbers start = wave(static_cast<size_t>(layout.shape().count()), 0.3);
  for (const char* name : {"adamw", "adafactor", "lion", "muon", "sgd"}) {
    const auto with = [&](double lr, double decay) {
      return Json{{"optimizer", name}, {"lr", lr}, {"weight_decay", decay}};
    };
    BareUpdate group(name, with(0.25, 0.5), layout, start, {0.5f, 0.125f});
    BareUpdate plain(name, with(0.125, 0.125), layout, start);
    for (int step = 1; step < 3; ++step) {
      group.step(wave(start.size(), step), 1);
      plain.step(wave(start.size(), step), 1);
    }
    EXPECT_EQ(group.arrays(), plain.arrays()) << name; // factors are powers of two
  }
}

TEST(MatrixOptimizer, GroupsAreReadAndMatched) {
  const Options options = trainer_options(
      {{"lr", 0.5}, {"groups", {"*norm* weight_decay=0", "*embed* lr=0.25 weight_decay=1"}}});
  const std::vector<ParameterGroup> groups = parameter_groups(options);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].rate, (GroupRate{1, 0}));
  EXPECT_EQ(groups[1].rate, (GroupRate{0.5f, 1}));
  for (const char* wrong : {"*", "* lr", "* lr=", "* lr=fast", "* lr=-1", "* beta=1", ""}) {
    EXPECT_THROW(parameter_groups(trainer_options({{"groups", {wrong}}})), Error) << wrong;
  }
  EXPECT_THROW(parameter_groups(trainer_options({{"lr", 0.0}, {"groups", {"* lr=1"}}})), Error);
  EXPECT_THROW(tiny_trainer({{"groups", {"no.such.tensor lr=1"}}}), Error);
}

// A rate of 0 for one layer of a stack: it stays, the other one moves.
TEST(MatrixOptimizer, AGroupMayBeOneLayer) {
  for (const char* name : {"adamw", "muon", "adafactor"}) {
    auto trainer = tiny_trainer({{"optimizer", name}, {"groups", {"model.layers.1.* lr=0"}}});
    const auto before = weights_of(*trainer);
    TextSource source;
    trainer->run(source, 2);
    const auto after = weights_of(*trainer);
    for (const auto& [tensor, values] : before) {
      const bool stays = tensor.find("layers.1.") != std::string::npos;
      EXPECT_EQ(values == after.at(tensor), stays) << name << " " << tensor;
    }
  }
}

TEST(MatrixOptimizer, LearnATinyText) {
  for (const Json& values : {Json{{"optimizer", "adafactor"}, {"lr", 0.05}, {"factor_from", 8}},
                             Json{{"optimizer", "muon"}, {"lr", 5e-3}}}) {
    auto trainer = tiny_trainer(values);
    TextSource source, held;
    held.seek(1000);
    const double before = trainer->eval(held, 8);
    trainer->run(source, 300);
    held.seek(1000);
    EXPECT_LT(trainer->eval(held, 8), 0.7 * before) << values.dump() << " from " << before;
  }
}

TEST(MatrixOptimizer, FactorsTakeLittleMemory) {
  const auto model = tiny_model();
  model->params().make_masters(model->trained());
  const auto objective = noise::make_objective("mdlm");
  const auto bytes = [&](const Json& values) {
    return state_bytes(program_spec(*model, *objective, trainer_options(values)));
  };
  const int64_t weights = 4 * model->params().parameter_count();
  EXPECT_LT(bytes({{"optimizer", "adafactor"}, {"factor_from", 8}}), weights / 5);
  const int64_t muon = bytes({{"optimizer", "muon"}});
  EXPECT_GT(muon, weights);
  EXPECT_LT(muon, 2 * weights);
}

TEST(MatrixOptimizer, ResumedEqualsUninterruptedToTheBit) {
  const std::string root = testing::TempDir() + "/dllm_matrix_" + std::to_string(getpid());
  for (const Json& values : {Json{{"optimizer", "adafactor"}, {"factor_from", 8}},
                             Json{{"optimizer", "muon"}, {"groups", {"*layers.0* lr=0.001"}}}}) {
    remove_all(root);
    auto whole = tiny_trainer(values), first = tiny_trainer(values), second = tiny_trainer(values);
    TextSource source, first_source, second_source;
    whole->run(source, 5);
    first->run(first_source, 3);
    const std::string dir =
        save_checkpoint(*first, &first_source, root, Options(checkpoint_schema()));
    restore_checkpoint(*second, &second_source, dir);
    second->run(second_source, 2);
    EXPECT_EQ(weights_of(*second), weights_of(*whole)) << values.dump();
  }
  remove_all(root);
}

} // namespace
} // namespace dllm::train
