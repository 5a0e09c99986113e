// A loss that reads more than the model it trains: a frozen teacher of another size, and the base
// without its adapters.

#include "graph/ops.h"
#include "model/adapters/adapter.h"
#include "noise/loss/evaluate.h"
#include "noise/loss/token_ce.h"
#include "unit/test_files.h"
#include "unit/test_tensors.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace dllm::train {
namespace {

using graph::Value;

Value squared_distance(Value a, Value b) {
  const Value apart = graph::subtract(a, b);
  return graph::sum(graph::multiply(apart, apart), {0, 1, 2});
}

// Next-token loss, and the squared distance of the logits from another network's.
class Compared : public noise::Objective {
public:
  explicit Compared(const noise::ObjectiveRef& plain)
      : Objective(plain->schedule(), plain->options()), plain_(plain) {}
  bool needs_mask_id() const override { return false; }
  int shift(const model::ModelConfig&) const override { return 1; }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const noise::PrepareContext& context) const override {
    return plain_->prepare(batch, seed, step, context);
  }

protected:
  virtual model::Builder& other(model::Builder& builder) const = 0;
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    noise::Loss loss = noise::token_ce_loss(builder, inputs);
    model::Builder& network = other(builder);
    const Value given = network.logits(network.forward(inputs.tokens).hidden);
    const Value own = builder.logits(builder.forward(inputs.tokens).hidden);
    const Value apart = squared_distance(own, given);
    loss.sum = graph::add(loss.sum, apart);
    loss.parts.push_back({"apart", apart, loss.normalizer});
    return loss;
  }

private:
  noise::ObjectiveRef plain_;
};

class WithTeacher final : public Compared {
public:
  WithTeacher() : Compared(noise::make_objective("ar")) {}
  const std::string& name() const override { return name_; }
  std::vector<std::string> other_parts() const override { return {"teacher"}; }

protected:
  model::Builder& other(model::Builder& builder) const override { return builder.part("teacher"); }

private:
  std::string name_ = "with_teacher";
};

class WithBase final : public Compared {
public:
  WithBase() : Compared(noise::make_objective("ar")) {}
  const std::string& name() const override { return name_; }

protected:
  model::Builder& other(model::Builder& builder) const override {
    return builder.without_adapters();
  }

private:
  std::string name_ = "with_base";
};

std::shared_ptr<model::Model> small_teacher(const std::shared_ptr<graph::Engine>& engine) {
  Json config = tiny_config(false);
  config.update({{"model_type", "llama"},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 2},
                 {"head_dim", 8},
                 {"intermediate_size", 24}});
  Options options(model::model_schema());
  options.set_i64("seed", 9);
  return model::new_model(engine, config, options);
}

Batch rows() {
  TextSource source(2, 8);
  return *source.next();
}

Tensor logits_of(model::Model& model) {
  Options options(model::forward_schema());
  options.set_str("attention", "bidirectional");
  options.set_i64("shift", 0);
  Batch batch;
  batch.set("ids", rows().at("ids"));
  return model::forward(model, batch, options).at("logits").clone();
}

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.as<float>().size(); ++i)
    sum += std::pow(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i], 2);
  return sum;
}

double apart(const Trainer& trainer) {
  return trainer.metric("apart");
}

TEST(Parts, ATeacherOfAnotherSizeIsReadAndNotTrained) {
  const auto engine = tiny_engine();
  const auto student = tiny_model(engine), teacher = small_teacher(engine);
  student->add_network("teacher", *teacher);
  const auto before = weights_of(*teacher), start = weights_of(*student);
  Trainer trainer(student, std::make_shared<WithTeacher>(), trainer_options({{"lr", 0.01}}));
  TextSource source;
  trainer.step(*source.next());
  const double first = apart(trainer);
  for (int i = 0; i < 20; ++i) trainer.step(*source.next());
  EXPECT_LT(apart(trainer), first / 2);
  for (const auto& [name, values] : before)
    EXPECT_EQ(student->params().read("teacher/" + name).as<float>().front(), values.front());
  int64_t moved = 0;
  for (const auto& [name, values] : weights_of(*student)) {
    const bool is_teacher = name.starts_with("teacher/");
    EXPECT_EQ(values == start.at(name), is_teacher) << name;
    moved += is_teacher ? 0 : 1;
  }
  EXPECT_GT(moved, 10);
}

TEST(Parts, TheLossIsThatOfTwoModels) {
  const auto engine = tiny_engine();
  const auto student = tiny_model(engine), teacher = small_teacher(engine);
  student->set_attention(model::AttentionKind::causal, 1, 0);
  teacher->set_attention(model::AttentionKind::causal, 1, 0);
  Options causal(model::forward_schema());
  causal.set_i64("shift", 0);
  Batch ids;
  ids.set("ids", rows().at("ids"));
  const Tensor own = model::forward(*student, ids, causal).at("logits"),
               other = model::forward(*teacher, ids, causal).at("logits");
  noise::LossRunner plain(student, noise::make_objective("ar"));
  const double alone = plain.run(rows(), 1, 0, nullptr).sum;
  student->add_network("teacher", *teacher);
  noise::LossRunner both(student, std::make_shared<WithTeacher>());
  const double wanted = alone + distance(own, other);
  EXPECT_NEAR(both.run(rows(), 1, 0, nullptr).sum, wanted, 1e-5 * wanted);
  EXPECT_EQ(plain.run(rows(), 1, 0, nullptr).sum, alone); // reads no teacher
}

TEST(Parts, AMissingPartIsNamedBeforeTheModelChanges) {
  const auto model = tiny_model();
  const Json before = model->describe();
  const Error error =
      test::error_of([&] { Trainer(model, std::make_shared<WithTeacher>(), trainer_options()); });
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_NE(error.text().find("no part named \"teacher\""), std::string::npos) << error.text();
  EXPECT_EQ(model->describe(), before);
}

// The arrays are shared, so each model must keep its own numbers when the other is trained.
TEST(Parts, ATeacherStaysWhenItsOwnModelIsTrained) {
  const auto engine = tiny_engine();
  const auto student = tiny_model(engine), teacher = tiny_model(engine);
  const int64_t alone = engine->i64("memory_used");
  student->add_network("teacher", *teacher);
  EXPECT_EQ(engine->i64("memory_used"), alone); // in memory once
  const auto before = weights_of(*teacher);
  Trainer trainer(teacher, noise::make_objective("mdlm"), trainer_options({{"lr", 0.05}}));
  TextSource source;
  for (int i = 0; i < 3; ++i) trainer.step(*source.next());
  EXPECT_NE(weights_of(*teacher), before);
  for (const auto& [name, values] : before) {
    const Tensor own = student->params().read("teacher/" + name);
    EXPECT_TRUE(std::ranges::equal(own.as<float>(), values)) << name;
  }
}

TEST(Parts, APassOfTheModelDoesNotReadTheTeacher) {
  const auto engine = tiny_engine();
  const auto student = tiny_model(engine);
  const Tensor before = logits_of(*student);
  const int64_t count = student->i64("params");
  student->add_network("teacher", *small_teacher(engine));
  EXPECT_TRUE(test::same_bytes(logits_of(*student), before));
  EXPECT_EQ(student->i64("params"), count);
  EXPECT_EQ(student->describe().at("parts"), (Json{"base", "teacher"}));
  const auto copy = model::clone_model(*student);
  EXPECT_TRUE(test::same_bytes(logits_of(*copy), before));
  EXPECT_EQ(weights_of(*copy), weights_of(*student));
  student->drop_part("teacher");
  EXPECT_TRUE(test::same_bytes(logits_of(*student), before));
  EXPECT_FALSE(student->params().has("teacher/model.norm.weight"));
}

TEST(Parts, HaveNamesThatAreFreeAndWellFormed) {
  const auto engine = tiny_engine();
  const auto model = tiny_model(engine), other = small_teacher(engine);
  model->add_network("teacher", *other);
  const auto code_of = [&](const std::string& name) {
    return test::error_of([&] { model->add_network(name, *other); }).code();
  };
  EXPECT_EQ(code_of("teacher"), Code::already_exists);
  EXPECT_EQ(code_of("base"), Code::already_exists);
  EXPECT_EQ(code_of("a/b"), Code::invalid_argument);
  EXPECT_EQ(code_of(""), Code::invalid_argument);
  EXPECT_EQ(test::error_of([&] { model->add_network("x", *small_teacher(tiny_engine())); }).code(),
            Code::invalid_argument);
  EXPECT_EQ(model->parts().names(), (std::vector<std::string>{"base", "teacher"}));
}

TEST(Parts, ALossComparesAModelWithItsBase) {
  const auto model = tiny_model();
  const Tensor base = logits_of(*model);
  model::add_adapter(*model, {{"*_proj.weight"}, {2, 4}, 1});
  Trainer trainer(model, std::make_shared<WithBase>(), trainer_options({{"lr", 0.02}}));
  TextSource source;
  trainer.step(*source.next());
  EXPECT_EQ(apart(trainer), 0); // a new adapter changes nothing
  for (int i = 0; i < 5; ++i) trainer.step(*source.next());
  EXPECT_GT(apart(trainer), 0);
  model->drop_part("adapter:default");
  EXPECT_TRUE(test::same_bytes(logits_of(*model), base)); // the base was not trained
}

// Two adapters of one matrix: their products are added, whatever their ranks are.
TEST(Parts, AdaptersAreAdded) {
  const std::vector<std::string> targets = {"*.q_proj.weight"};
  const auto moved_by = [&](const std::vector<std::string>& names) {
    const auto model = tiny_model();
    for (const std::string& name : names) {
      const int64_t rank = name == "a" ? 2 : 3;
      model::add_adapter(
          *model, {model::AdapterTargets(targets), {rank, 4.0}, name == "a" ? 1U : 2U, name});
      for (const char* layer : {"0", "1"}) {
        const std::string up =
            fmt::format("adapter:{}/model.layers.{}.self_attn.q_proj.lora_B.weight", name, layer);
        Tensor values(DType::f32, {24, rank});
        for (size_t i = 0; i < values.as<float>().size(); ++i)
          values.mutable_as<float>()[i] = name == "a" ? 0.1f : -0.05f * static_cast<float>(i % 3);
        model->params().write(up, values);
      }
    }
    const Tensor before = logits_of(*model);
    model::merge_adapters(*model);
    const Tensor merged = logits_of(*model);
    EXPECT_LT(distance(before, merged), 1e-6);
    return merged;
  };
  const Tensor none = moved_by({}), a = moved_by({"a"}), b = moved_by({"b"}),
               both = moved_by({"a", "b"}), turned = moved_by({"b", "a"});
  EXPECT_GT(distance(a, none), 1e-4);
  EXPECT_GT(distance(b, none), 1e-4);
  EXPECT_GT(distance(both, a), 1e-4);
  EXPECT_GT(distance(both, b), 1e-4);
  EXPECT_LT(distance(both, turned), 1e-6);
}

// A cut of the base's layers cuts those of its adapters, and leaves a teacher whole.
TEST(Parts, ACutKeepsTheLoss) {
  const auto losses = [](const Json& freeze, bool adapted) {
    const auto engine = tiny_engine();
    const auto model = tiny_model(engine);
    model->add_network("teacher", *small_teacher(engine));
    if (adapted) model::add_adapter(*model, {{"*_proj.weight"}, {2, 4}, 1});
    Trainer trainer(model, std::make_shared<WithTeacher>(),
                    trainer_options({{"freeze", freeze}, {"lr", 0.0}, {"warmup", 0}}));
    TextSource source;
    return losses_of(trainer, source, 2);
  };
  for (const bool adapted : {false, true}) {
    const std::vector<double> whole = losses({"model.norm.weight"}, adapted),
                              cut = losses({"*model.layers.1.*"}, adapted);
    EXPECT_EQ(whole, cut);
  }
}

TEST(Parts, OnAMeshTheLossIsThatOfOneRank) {
  const auto losses = [](const std::shared_ptr<graph::Engine>& engine) {
    const auto model = tiny_model(engine);
    Json config = tiny_config(false);
    config.update({{"num_hidden_layers", 1}, {"intermediate_size", 24}});
    const auto teacher = model::new_model(engine, config, Options(model::model_schema()));
    model->add_network("teacher", *teacher);
    Trainer trainer(model, std::make_shared<WithTeacher>(), trainer_options());
    TextSource source;
    return losses_of(trainer, source, 3);
  };
  const std::vector<double> alone = losses(tiny_engine());
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"}) {
    const std::vector<double> ranks = losses(mesh_engine(mesh));
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(ranks[i], alone[i], 2e-5 * alone[i]) << mesh << ' ' << i;
  }
}

} // namespace
} // namespace dllm::train
