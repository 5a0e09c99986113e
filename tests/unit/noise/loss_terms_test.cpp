// Terms of a loss: the alignment with a teacher, distillation, and the entropy of right
// predictions.

#include "noise/terms/loss_terms.h"

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "noise/objective.h"
#include "noise/terms/divergence.h"
#include "noise/terms/table.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace dllm::noise {
namespace {

// Adds a mask filler whose head is not zero, for the term that compares its vectors.
void add_filler(model::Model& model) {
  const Json small = {{"filler", "small"}, {"filler_layers", 1}, {"filler_heads", 4}};
  tiny_objective("mdlm", small)->filler().add_to(model, 3);
  Tensor head = model.params().read("filler/heads.delta.weight").to(DType::f32).clone();
  uint32_t at = 0;
  for (float& value : head.mutable_as<float>()) value = 0.3f * std::sin(static_cast<float>(++at));
  model.params().write("filler/heads.delta.weight", head);
}

// A model with a part "teacher" of its sizes.
std::shared_ptr<model::Model> taught_model() {
  const auto on = tiny_engine();
  const auto model = tiny_network(on, 1);
  model->add_network("teacher", *tiny_network(on, 5));
  return model;
}

// The model for a term: with a mask filler where the term reads one.
class ModelOfTerm {
public:
  ModelOfTerm() : filled_(taught_model()) { add_filler(*filled_); }
  const std::shared_ptr<model::Model>& operator()(const Json& term) const {
    return term.contains("consistency") ? filled_ : plain_;
  }

private:
  std::shared_ptr<model::Model> plain_ = taught_model(), filled_;
};

// A model whose adapters are not zero, so that it differs from its base.
std::shared_ptr<model::Model> adapted_model() {
  const auto model = tiny_network(tiny_engine(), 1);
  model::add_adapter(*model, {{"*_proj.weight"}, {2, 4}, 1});
  uint32_t at = 0;
  for (const auto& spec : model->params().names()) {
    if (spec.find("lora_B") == std::string::npos) continue;
    Tensor values = model->params().read(spec).to(DType::f32).clone();
    for (float& value : values.mutable_as<float>()) {
      at = at * 1664525 + 1013904223;
      value = static_cast<float>(at >> 8) / (1 << 24) - 0.5f;
    }
    model->params().write(spec, values);
  }
  return model;
}

// A term with small networks. Where states are not detached, the gradient is that of differences.
Json small_cola(const Json& more) {
  Json made = {{"cola", 2.0},      {"cola_global", 2},         {"cola_local", 5},
               {"cola_heads", 4},  {"cola_encoder_layers", 1}, {"cola_layers", 1},
               {"cola_layer", -2}, {"cola_detach", false}};
  made.update(more);
  return made;
}

// Adds the networks of the terms, with gates that are not 0.
void add_networks(model::Model& model, const Objective& objective) {
  for (const auto& [name, config] : objective.new_parts(model.config())) {
    if (model.parts().has(name)) continue;
    model::add_new_network(model, name, config, 5);
    uint64_t number = 0;
    for (const std::string& tensor : model.params().names(name)) {
      Tensor values = model.params().read(tensor).to(DType::f32).clone();
      for (float& value : values.mutable_as<float>())
        value += 0.2f * std::sin(static_cast<float>(++number));
      model.params().write(tensor, values);
    }
  }
}

const Json kTerms[] = {
    small_cola({{"cola_block", 2}}),
    small_cola({{"cola_kind", "card"}, {"cola_prediction", "x0"}}),
    small_cola(
        {{"cola_kind", "fast_block"}, {"cola_block", 2}, {"align", 3.0}, {"teacher", "model"}}),
    {{"align", 3.0}, {"teacher", "model"}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_kind", "angular"}, {"align_margin", 0.2}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_kind", "infonce"}, {"align_temperature", 0.5}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_kind", "blocks"}, {"align_blocks", 2}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_positions", "supervised"}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_positions", "all"}, {"align_share", 0.5}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_layers", {"0", "2"}}, {"align_layer_exp", 1.0}},
    {{"align", 3.0}, {"teacher", "model"}, {"align_layer_count", 1}},
    {{"distill", 2.0}, {"teacher", "model"}},
    {{"distill", 2.0}, {"teacher", "model"}, {"distill_kind", "reverse"}},
    {{"distill", 2.0}, {"teacher", "model"}, {"distill_kind", "js"}, {"distill_temperature", 2.0}},
    {{"distill", 2.0}, {"teacher", "model"}, {"teacher_attention", "causal"}},
    {{"distill", 2.0},
     {"teacher", "model"},
     {"teacher_attention", "bidirectional"},
     {"distill_steps", 2},
     {"distill_of", 4},
     {"own_weight", 0.5}},
    {{"distill", 2.0},
     {"distill_kind", "reverse"},
     {"teacher", "model"},
     {"teacher_attention", "bidirectional"},
     {"distill_steps", 3},
     {"distill_of", 4},
     {"distill_rest", true},
     {"own_weight", 0.0}},
    {{"entropy", 2.0}},
    {{"consistency", 2.0}},
    {{"align", 1.0}, {"distill", 1.0}, {"entropy", 1.0}, {"teacher", "model"}},
    {{"align", 1.0},
     {"distill", 1.0},
     {"teacher", "model"},
     {"teacher_attention", "causal"},
     {"teacher_input", "noised"}},
};

// Every term of the table has a case above, so that the tests below take it.
TEST(LossTerms, EveryTermOfTheTableIsTested) {
  for (const TermEntry& entry : term_entries()) {
    EXPECT_TRUE(
        std::ranges::any_of(kTerms, [&](const Json& term) { return term.contains(entry.name()); }))
        << "kTerms has no case of term " << entry.name();
    for (const OptionSpec& row : entry.options) EXPECT_EQ(row.group, kTermGroup) << row.key;
  }
}

Batch prepared_by(const Objective& objective, const Batch& raw, const model::Model& model) {
  return objective.prepare(raw, 3, 1, prepare_context(objective, model.config()));
}

Json with(Json settings, const Json& more) {
  settings.update(more);
  return settings;
}

TEST(LossTerms, GradientsAreThoseOfTheLoss) {
  const ModelOfTerm model_of;
  for (const Json& term : kTerms) {
    const auto& model = model_of(term);
    for (const int shift : {0, 1}) {
      SCOPED_TRACE(term.dump() + " shift " + std::to_string(shift));
      const ObjectiveRef objective =
          tiny_objective("mdlm", with(term, {{"min_mask_ratio", 0.4}, {"shift", shift}}));
      add_networks(*model, *objective);
      LossRunner runner(model, objective);
      Batch raw = tiny_rows(2, 8);
      raw.set("u_t", Tensor::from(Shape{2, 1}, std::vector<float>{0.6f, 0.5f}));
      const double h = term.contains("cola") ? 3e-3 : 1e-2; // its networks are sharp
      expect_gradient(*model, runner, *objective, prepared_by(*objective, raw, *model), h);
    }
  }
}

// The gradient of detached states is that of the loss without the term.
TEST(LossTerms, LatentsOfDetachedStatesLeaveTheBase) {
  const auto model = tiny_network(tiny_engine(), 1);
  const Json settings = {{"min_mask_ratio", 0.4}};
  const auto gradients = [&](const ObjectiveRef& objective) {
    const Batch prepared = prepared_by(*objective, tiny_rows(2, 8), *model);
    std::map<std::string, Tensor> made;
    for (auto& [name, tensor] : loss_gradients(*model, *objective, prepared).gradients)
      made[name] = tensor;
    return made;
  };
  const ObjectiveRef plain = tiny_objective("mdlm", settings),
                     detached = tiny_objective("mdlm",
                                               with(small_cola({{"cola_detach", true}}), settings)),
                     joined = tiny_objective("mdlm",
                                             with(small_cola({{"cola_detach", false}}), settings));
  add_networks(*model, *detached);
  const auto wanted = gradients(plain), got = gradients(detached), other = gradients(joined);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  double apart = 0;
  for (size_t i = 0; i < wanted.at(name).as<float>().size(); ++i) {
    EXPECT_NEAR(got.at(name).as<float>()[i], wanted.at(name).as<float>()[i], 1e-6);
    apart = std::max(apart, std::abs(static_cast<double>(other.at(name).as<float>()[i]) -
                                     wanted.at(name).as<float>()[i]));
  }
  EXPECT_GT(apart, 1e-3);
  EXPECT_TRUE(got.contains("cola_global/latents"));
}

// No gradient reaches the base through the teacher, and a term changes the loss.
TEST(LossTerms, TheBaseTeachesItsAdapters) {
  const auto model = adapted_model();
  for (Json term : kTerms) {
    if (!term.contains("teacher")) continue;
    term.erase("teacher");
    term.erase("own_weight"); // below 1 it lowers the sum
    SCOPED_TRACE(term.dump());
    const ObjectiveRef objective = tiny_objective("mdlm", with(term, {{"min_mask_ratio", 0.4}}));
    add_networks(*model, *objective);
    LossRunner runner(model, objective), plain(model, without_terms(objective));
    Batch raw = tiny_rows(2, 8);
    raw.set("u_t", Tensor::from(Shape{2, 1}, std::vector<float>{0.5f, 0.5f}));
    const Batch prepared = prepared_by(*objective, raw, *model);
    EXPECT_GT(runner.run(prepared, 0, 0, nullptr).sum, plain.run(raw, 3, 1, nullptr).sum);
    expect_gradient(*model, runner, *objective, prepared);
  }
}

TEST(LossTerms, MicroBatchesMakeOneBatch) {
  const ModelOfTerm model_of;
  for (const Json& term : kTerms) {
    const auto& model = model_of(term);
    for (const char* name : {"mdlm", "open_dllm", "llada_sft", "uniform", "dream", "ar"}) {
      SCOPED_TRACE(term.dump() + " " + name);
      Json own = term;
      const bool masks = std::string(name) != "ar" && std::string(name) != "uniform";
      if (own.contains("distill_steps") && !masks) continue;
      if (std::string(name) == "ar" && term.contains("distill"))
        own["teacher_attention"] = "causal";
      const ObjectiveRef objective = tiny_objective(name, own);
      add_networks(*model, *objective);
      LossRunner runner(model, objective);
      const LossValue whole = runner.run(tiny_rows(4, 8, 0, 4), 3, 1, nullptr);
      const LossValue first = runner.run(tiny_rows(1, 8, 0, 4), 3, 1, nullptr);
      const LossValue rest = runner.run(tiny_rows(3, 8, 1, 4), 3, 1, nullptr);
      EXPECT_NEAR(first.sum + rest.sum, whole.sum, 1e-4 * std::abs(whole.sum) + 1e-5);
      EXPECT_EQ(first.normalizer + rest.normalizer, whole.normalizer);
    }
  }
}

double distilled(const std::shared_ptr<model::Model>& model, const Json& settings, Batch raw) {
  const ObjectiveRef objective = tiny_objective("mdlm", settings);
  LossRunner both(model, objective), plain(model, without_terms(objective));
  const LossValue sum = both.run(raw, 3, 1, nullptr);
  return (sum.sum - plain.run(raw, 3, 1, nullptr).sum) / sum.normalizer;
}

// A model that was made of its teacher may have one token more.
TEST(LossTerms, AnAddedTokenIsNotCompared) {
  const auto on = tiny_engine();
  const auto model = tiny_network(on, 1, 25);
  model->add_network("teacher", *tiny_network(on, 1, 23));
  const ObjectiveRef objective =
      tiny_objective("mdlm", {{"distill", 1.0}, {"teacher", "model"}, {"min_mask_ratio", 0.5}});
  LossRunner runner(model, objective);
  expect_gradient(*model, runner, *objective, prepared_by(*objective, tiny_rows(2, 8), *model));
  const auto small = tiny_network(on, 1, 23);
  small->add_network("teacher", *tiny_network(on, 1, 25));
  test::expect_error(Code::invalid_argument, "distill compares the same tokens",
                     [&] { LossRunner(small, objective).run(tiny_rows(1, 8), 0, 0, nullptr); });
}

// A teacher of the same weights that sees the same tokens has the same distributions.
TEST(LossTerms, TwoEqualNetworksAreNotApart) {
  const auto twin = tiny_network(tiny_engine(), 1);
  twin->add_network("teacher", *twin);
  for (const char* kind : {"forward", "reverse", "js"}) {
    const Json settings = {{"distill", 1.0},
                           {"distill_kind", kind},
                           {"teacher", "model"},
                           {"teacher_attention", "bidirectional"}};
    EXPECT_NEAR(distilled(twin, settings, tiny_rows(2, 8)), 0, 1e-5) << kind;
    EXPECT_GT(distilled(taught_model(), settings, tiny_rows(2, 8)), 1e-2) << kind;
  }
}

Tensor forward_of(model::Model& model, const Tensor& ids, const Json& settings, const char* array) {
  Options options(model::forward_schema());
  options.set_json(settings);
  Batch batch;
  batch.set("ids", ids);
  return model::forward(model, batch, options).at(array).clone();
}

// The numbers of a file have the loss of the teacher that wrote them.
TEST(LossTerms, RowsOfNumbersReplaceTheTeacher) {
  const auto on = tiny_engine();
  const auto model = tiny_network(on, 1), live = tiny_network(on, 1), teacher = tiny_network(on, 8);
  live->add_network("teacher", *teacher);
  const Batch raw = tiny_rows(2, 8);
  const Tensor layers = forward_of(*teacher, raw.at("ids"),
                                   {{"attention", "causal"}, {"outputs", {"layers"}}}, "layers");
  const int64_t count = layers.shape()[0];
  Batch cached = raw;
  for (int64_t layer = 0; layer < count; ++layer) {
    const Tensor one = layers.row(layer);
    cached.set("hidden_layer_" + std::to_string(layer), one);
  }
  const Tensor logits =
      forward_of(*teacher, raw.at("ids"), {{"attention", "causal"}, {"shift", 1}}, "logits");
  Tensor top_ids(DType::i32, logits.shape());
  for (size_t i = 0; i < top_ids.as<int32_t>().size(); ++i)
    top_ids.mutable_as<int32_t>()[i] = static_cast<int32_t>(i % 23);
  cached.set("teacher_top_ids", top_ids);
  cached.set("teacher_top_logits", logits);
  for (const Json& term :
       {Json{{"align", 1.0}}, Json{{"align", 1.0}, {"align_kind", "blocks"}},
        Json{{"distill", 1.0}}, Json{{"distill", 1.0}, {"distill_kind", "reverse"}},
        Json{{"distill", 1.0}, {"distill_kind", "js"}, {"distill_temperature", 2.0}}}) {
    // With shift 1 no target is at position 0, which a causal teacher does not predict.
    const Json own = with(term, {{"shift", 1}});
    const double wanted =
        distilled(live, with(own, {{"teacher", "model"}, {"teacher_attention", "causal"}}), raw);
    EXPECT_NEAR(distilled(model, with(own, {{"teacher", "rows"}}), cached), wanted,
                1e-4 * wanted + 1e-6)
        << term.dump();
  }
}

// Of k tokens the divergence is that of the definitions, in double precision.
TEST(LossTerms, TopLogitsHaveTheDivergencesOfTheirDefinitions) {
  const auto on = tiny_engine();
  constexpr int64_t kRows = 5, kVocab = 11, kTop = 3, kHidden = 4;
  const auto numbers = [](Shape shape, double step) {
    Tensor made(DType::f32, shape);
    double at = 0;
    for (float& value : made.mutable_as<float>())
      value = static_cast<float>(1.5 * std::sin(step * ++at));
    return made;
  };
  const Tensor hidden = numbers({kRows, kHidden}, 0.7), weight = numbers({kVocab, kHidden}, 0.37),
               top = numbers({kRows, kTop}, 1.3);
  Tensor ids(DType::i32, {kRows, kTop});
  for (int32_t i = 0; i < kRows * kTop; ++i)
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] = (3 * i + i / 3) % kVocab;
  const auto at = [](const Tensor& values, int64_t row, int64_t column) {
    return static_cast<double>(
        values.as<float>()[static_cast<size_t>(row * values.shape()[1] + column)]);
  };
  for (const DivergenceKind kind :
       {DivergenceKind::forward, DivergenceKind::reverse, DivergenceKind::jensen_shannon}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto graph = std::make_shared<graph::Graph>("top");
    model::Head head;
    const graph::Value student = graph->input("hidden", DType::f32, hidden.shape());
    head.weight = graph->input("weight", DType::f32, weight.shape());
    const graph::Value some = graph->input("ids", DType::i32, ids.shape()),
                       logits = graph->input("top", DType::f32, top.shape());
    graph->output("apart", top_divergences({kind, 1.0}, head, student, some, logits));
    const std::vector<graph::BufferRef> inputs = {on->upload(hidden), on->upload(weight),
                                                  on->upload(ids), on->upload(top)};
    const Tensor got = on->compile(graph)->run(inputs)[0]->read();
    for (int64_t row = 0; row < kRows; ++row) {
      std::vector<double> own(kVocab), other(kVocab, 0.0);
      double sum = 0, top_sum = 0, mass = 0, wanted = 0;
      for (int64_t v = 0; v < kVocab; ++v) {
        double logit = 0;
        for (int64_t h = 0; h < kHidden; ++h) logit += at(hidden, row, h) * at(weight, v, h);
        sum += own[static_cast<size_t>(v)] = std::exp(logit);
      }
      for (double& p : own) p /= sum;
      for (int64_t k = 0; k < kTop; ++k) top_sum += std::exp(at(top, row, k));
      for (int64_t k = 0; k < kTop; ++k) {
        const auto id = static_cast<size_t>(ids.as<int32_t>()[static_cast<size_t>(row * kTop + k)]);
        other[id] = std::exp(at(top, row, k)) / top_sum;
        mass += own[id];
      }
      for (size_t v = 0; v < own.size(); ++v) {
        const double s = own[v], t = other[v], middle = (s + t) / 2;
        if (kind == DivergenceKind::forward && t > 0) wanted += t * std::log(t / s);
        if (kind == DivergenceKind::reverse && t > 0)
          wanted += s / mass * std::log(s / mass / t) - std::log(mass) / kTop;
        if (kind == DivergenceKind::jensen_shannon)
          wanted += 0.5 * (s * std::log(s / middle) + (t > 0 ? t * std::log(t / middle) : 0));
      }
      EXPECT_NEAR(got.as<float>()[static_cast<size_t>(row)], wanted, 1e-5) << row;
    }
  }
}

// The student gives the teacher's tokens less than an f32 holds.
TEST(LossTerms, TopLogitsOfTokensThatTheStudentExcludesAreFinite) {
  const auto on = tiny_engine();
  const auto graph = std::make_shared<graph::Graph>("top");
  model::Head head;
  const graph::Value student = graph->input("hidden", DType::f32, {1, 1});
  head.weight = graph->input("weight", DType::f32, {3, 1});
  const graph::Value some = graph->input("ids", DType::i32, {1, 2}),
                     logits = graph->input("top", DType::f32, {1, 2});
  const graph::Value loss =
      graph::sum(top_divergences({DivergenceKind::reverse, 1.0}, head, student, some, logits), {0});
  graph->output("loss", loss);
  graph->output("gradient", graph::gradients(loss, {student})[0]);
  const std::vector<graph::BufferRef> inputs = {
      on->upload(Tensor::from(Shape{1, 1}, std::vector<float>{1})),
      on->upload(Tensor::from(Shape{3, 1}, std::vector<float>{300, 0, 0})),
      on->upload(Tensor::from(Shape{1, 2}, std::vector<int32_t>{1, 2})),
      on->upload(Tensor::from(Shape{1, 2}, std::vector<float>{0, 0}))};
  const auto outputs = on->compile(graph)->run(inputs);
  EXPECT_NEAR(outputs[0]->read().as<float>()[0], 300 - std::log(2), 1e-3);
  EXPECT_NEAR(outputs[1]->read().as<float>()[0], 300, 1e-3);
}

// A token is visible where the student sees it, also where the loss counts it (ar), where it was
// replaced by itself (uniform), or where it is masked without a target (blocks of a trajectory).
TEST(LossTerms, VisibleTokensAreThoseThatTheStudentSees) {
  const auto model = taught_model();
  const Json settings = {{"align", 1.0}, {"teacher", "model"}};
  const auto prepared_of = [&](const char* name, const Json& more, const Batch& raw) {
    return prepared_by(*tiny_objective(name, with(settings, more)), raw, *model);
  };
  Batch traced = tiny_rows(2, 8);
  traced.set("trajectory", Tensor::from(Shape{2, 8}, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, //
                                                                          0, 1, 2, 3, 4, 5, 6, 7}));
  for (const Batch& prepared : {prepared_of("ar", Json::object(), tiny_rows(2, 8)),
                                prepared_of("uniform", Json::object(), tiny_rows(2, 8)),
                                prepared_of("mdlm", {{"trajectory_blocks", {"2"}}}, traced)}) {
    const auto shown = prepared.at("ids").as<int32_t>();
    const Tensor raw = tiny_rows(2, 8).at("ids");
    const auto positions = prepared.at("align_positions").as<int32_t>();
    const auto weights = prepared.at("align_weights").as<float>();
    for (size_t b = 0; b < 2; ++b) {
      std::vector<int32_t> wanted, got;
      for (size_t i = 0; i < 8; ++i) {
        if (shown[b * 8 + i] == raw.as<int32_t>()[b * 8 + i])
          wanted.push_back(static_cast<int32_t>(i));
        if (weights[b * 8 + i] > 0) got.push_back(positions[b * 8 + i]);
      }
      EXPECT_EQ(got, wanted);
    }
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(clean_ids(prepared).as<int32_t>()[i], raw.as<int32_t>()[i]);
  }
}

TEST(LossTerms, TheWeightFollowsACosine) {
  const auto model = taught_model();
  const ObjectiveRef objective = tiny_objective(
      "mdlm", {{"align", 10.0}, {"align_final", 1.0}, {"align_steps", 100}, {"teacher", "model"}});
  const auto weight = [&](int64_t step) {
    const Batch prepared =
        objective->prepare(tiny_rows(1, 8), 3, step, prepare_context(*objective, model->config()));
    return prepared.at("align_scale").as<float>()[0];
  };
  EXPECT_FLOAT_EQ(weight(0), 10);
  EXPECT_NEAR(weight(25), 8.6819805, 1e-5);
  EXPECT_NEAR(weight(50), 5.5, 1e-5);
  EXPECT_FLOAT_EQ(weight(100), 1);
  EXPECT_FLOAT_EQ(weight(1000), 1);
}

// Arrays that a caller made are checked before a number of them is used.
TEST(LossTerms, WrongArraysAreRefused) {
  const auto model = taught_model();
  const ObjectiveRef objective =
      tiny_objective("mdlm", {{"align", 1.0}, {"align_kind", "blocks"}, {"teacher", "model"}});
  const Batch prepared = prepared_by(*objective, tiny_rows(2, 8), *model);
  const auto refuses = [&](const char* name, const Tensor& wrong, const char* text) {
    Batch changed = prepared;
    changed.set(name, wrong);
    test::expect_error(Code::invalid_argument, text,
                       [&] { objective->feed(changed, model->config()); });
  };
  for (const char* name : {"align_positions", "align_weights", "align_layers", "align_blocks"}) {
    for (const Shape& shape : {Shape{3, 8}, Shape{1, 8}, Shape{16}, Shape{}, Shape{2, 1, 1, 1}})
      refuses(name, Tensor(DType::f32, shape), name);
    Tensor bad = prepared.at(name).to(DType::f32).clone();
    bad.mutable_as<float>()[0] = std::nanf("");
    refuses(name, bad, "is not finite");
  }
  Tensor far = prepared.at("align_positions").clone();
  for (const int32_t place : {-1, 8, 1 << 30}) {
    far.mutable_as<int32_t>()[3] = place;
    refuses("align_positions", far, "align_positions[0, 3]");
  }
  refuses("align_scale", Tensor(DType::f32, {2}), "align_scale");
  test::expect_error(Code::invalid_argument, "align_blocks is 9", [&] {
    const ObjectiveRef many = tiny_objective(
        "mdlm",
        {{"align", 1.0}, {"align_kind", "blocks"}, {"align_blocks", 9}, {"teacher", "model"}});
    prepared_by(*many, tiny_rows(2, 8), *model);
  });
  const ObjectiveRef cached = tiny_objective("mdlm", {{"distill", 1.0}, {"teacher", "rows"}});
  Batch rows = prepared_by(*cached, tiny_rows(2, 8), *model);
  rows.set("teacher_top_logits", Tensor(DType::f32, {2, 8, 4}));
  Tensor ids(DType::i32, {2, 8, 4});
  for (int32_t& id : ids.mutable_as<int32_t>()) id = 23;
  rows.set("teacher_top_ids", ids);
  test::expect_error(Code::invalid_argument, "teacher_top_ids",
                     [&] { cached->feed(rows, model->config()); });
  rows.set("teacher_top_ids", Tensor(DType::i32, {2, 8, 3}));
  test::expect_error(Code::invalid_argument, "unlike numbers of tokens",
                     [&] { cached->feed(rows, model->config()); });
}

// Whole numbers of other types are those that they hold.
TEST(LossTerms, TargetsMayBeOfAnotherType) {
  const auto model = taught_model();
  const ObjectiveRef objective = tiny_objective("mdlm", {{"align", 1.0}, {"teacher", "model"}});
  const Batch prepared = prepared_by(*tiny_objective("mdlm"), tiny_rows(2, 8), *model);
  Batch wide = prepared;
  wide.set("targets", prepared.at("targets").to(DType::i64));
  LossRunner runner(model, objective);
  EXPECT_EQ(runner.run(wide, 0, 0, nullptr).sum, runner.run(prepared, 0, 0, nullptr).sum);
}

TEST(LossTerms, MistakesAreNamed) {
  const auto refuses = [](const char* text, const char* name, const Json& settings) {
    test::expect_error(Code::invalid_argument, text, [&] { tiny_objective(name, settings); });
  };
  refuses("option align_kind is set and changes nothing: align is 0", "mdlm",
          {{"align_kind", "angular"}});
  const std::string readers = term_names("or", &TermEntry::reads_teacher);
  refuses(("option teacher is set and changes nothing: " + readers + " is 0").c_str(), "mdlm",
          {{"teacher", "model"}, {"entropy", 1.0}});
  refuses("a teacher that is not causal would see the tokens", "ar",
          {{"distill", 1.0}, {"teacher", "model"}});
  refuses("need rows whose tokens keep their places, and objective bd3lm makes others", "bd3lm",
          {{"align", 1.0}, {"block_length", 4}});

  const auto model = taught_model();
  const auto run = [&](const Json& settings) {
    LossRunner(model, tiny_objective("mdlm", settings)).run(tiny_rows(1, 8), 0, 0, nullptr);
  };
  test::expect_error(Code::invalid_argument, "align_layers names layer \"9\", and the model has 2",
                     [&] {
                       run({{"align", 1.0}, {"align_layers", {"9"}}, {"teacher", "model"}});
                     });
  test::expect_error(Code::invalid_argument, "sees the tokens that it predicts", [&] {
    run({{"distill", 1.0},
         {"teacher", "model"},
         {"teacher_attention", "bidirectional"},
         {"teacher_input", "clean"}});
  });
  test::expect_error(Code::not_found, "teacher rows needs array hidden_layer_1", [&] {
    run({{"align", 1.0}, {"teacher", "rows"}});
  });
  test::expect_error(Code::failed_precondition, "the model has none", [&] {
    tiny_objective("mdlm", {{"align", 1.0}})->check_parts(*model);
  });
}

} // namespace
} // namespace dllm::noise
