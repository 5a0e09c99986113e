// An objective that keeps arrays next to the weights: the running mean of the hidden states, which
// its loss reads. The arrays are exact on resume, and the same on meshes and late engines.

#include "../meshes/late_engine.h"
#include "../tiny.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "noise/loss/token_ce.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state_file.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace dllm::train {
namespace {

constexpr int64_t kStateWidth = 24; // of the hidden states

// The squared distance of the hidden states from their running mean plus one, per token.
class ToMean final : public noise::Objective {
public:
  explicit ToMean(int64_t width = kStateWidth, float scale = 1)
      : ToMean(noise::make_objective("ar"), width, scale) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  noise::StateArrays first_state() const override {
    return {{"count", Tensor(DType::f32, {1})}, {"mean", Tensor(DType::f32, {width_})}};
  }
  noise::StateArrays next_state(const noise::StateArrays& state,
                                const noise::Observed& observed) const override {
    noise::StateArrays next = {{"count", state.at("count").clone()},
                               {"mean", state.at("mean").clone()}};
    float& count = next["count"].mutable_as<float>()[0];
    const auto seen = static_cast<float>(observed.at("count")[0]);
    for (size_t i = 0; i < static_cast<size_t>(width_); ++i) {
      float& mean = next["mean"].mutable_as<float>()[i];
      mean += (static_cast<float>(observed.at("sum")[i]) - seen * mean) / (count + seen);
    }
    count += seen;
    return next;
  }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override {
    Batch made = model::input_arrays(
        model::parse_tokens(prepared, model::token_rules(model::TokenUse::model_input, config)),
        model::AttentionKind::bidirectional, 0);
    const Shape ids = prepared.at("ids").shape();
    const std::vector<float> tokens(static_cast<size_t>(ids[0]), static_cast<float>(ids[1]));
    made.set(noise::kNormalizer, Tensor::from(Shape{ids[0]}, tokens));
    return made;
  }

protected:
  Batch prepare_rows(const Batch& batch, uint64_t, int64_t,
                     const noise::PrepareContext&) const override {
    return batch; // nothing is drawn
  }
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    const graph::Value hidden = builder.forward(inputs.tokens).hidden;
    const graph::Value wanted =
        graph::add(inputs.all.at("state:mean"), graph::scalar(builder.graph(), 1.0f));
    const graph::Value apart = graph::subtract(hidden, wanted);
    const graph::Value count = graph::sum(inputs.normalizer, {0});
    noise::Loss loss{graph::sum(graph::multiply(apart, apart), {0, 1, 2}), count, {}};
    const graph::Value sum =
        graph::multiply(graph::sum(hidden, {0, 1}), graph::scalar(builder.graph(), scale_));
    loss.observed = {{"sum", sum}, {"count", graph::reshape(count, {1})}};
    return loss;
  }

private:
  ToMean(const noise::ObjectiveRef& plain, int64_t width, float scale)
      : Objective(plain->schedule(), plain->options()), width_(width), scale_(scale) {}
  std::string name_ = "to_mean";
  int64_t width_;
  float scale_; // of what the loss observes
};

std::unique_ptr<Trainer> mean_trainer(const std::shared_ptr<model::Model>& model) {
  return std::make_unique<Trainer>(model, std::make_shared<ToMean>(),
                                   trainer_options({{"lr", 0.02}}));
}

std::string saved_run(Trainer& trainer, TextSource& source, const test::TempFolder& folder) {
  return save_checkpoint(trainer, &source, folder.path("run"), Options(checkpoint_schema()));
}

TEST(ObjectiveState, IsExactOnResume) {
  const test::TempFolder folder;
  TextSource source;
  const auto whole = mean_trainer(tiny_model());
  const std::vector<double> first = losses_of(*whole, source, 3);
  EXPECT_NE(first[0], first[1]);
  const std::string dir = saved_run(*whole, source, folder);
  TextSource held(4, 16);
  const double eval = whole->eval(held, 2);
  const std::vector<double> wanted = losses_of(*whole, source, 4);
  TextSource again, held_again(4, 16);
  const auto other = mean_trainer(tiny_model());
  losses_of(*other, again, 1); // a state of its own
  restore_checkpoint(*other, &again, dir);
  EXPECT_EQ(other->eval(held_again, 2), eval); // reads the state too
  EXPECT_EQ(losses_of(*other, again, 4), wanted);
  // Without the state the run is another one.
  TextSource third;
  const auto fresh = mean_trainer(whole->model("live"));
  third.seek(3);
  EXPECT_NE(losses_of(*fresh, third, 1), std::vector<double>{wanted[0]});
}

TEST(ObjectiveState, CountsMicroBatchesAcrossACheckpoint) {
  const test::TempFolder folder;
  TextSource source(2), again(2), large(4);
  const auto whole = mean_trainer(tiny_model());
  whole->accumulate(*source.next());
  const std::string dir = saved_run(*whole, source, folder);
  const auto other = mean_trainer(tiny_model());
  restore_checkpoint(*other, &again, dir);
  const auto one = mean_trainer(tiny_model()); // the same rows in one batch
  std::vector<double> losses, halves, batches;
  for (int i = 0; i < 3; ++i) {
    if (i > 0) whole->accumulate(*source.next()), other->accumulate(*again.next());
    whole->accumulate(*source.next()), other->accumulate(*again.next());
    losses.push_back(whole->apply());
    halves.push_back(other->apply());
    batches.push_back(one->step(*large.next()));
  }
  EXPECT_EQ(halves, losses);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(batches[i], losses[i], 1e-5 * losses[i]);
}

TEST(ObjectiveState, IsThatOfOneRankAndOfAnEngineThatWaits) {
  TextSource source;
  const auto alone = mean_trainer(tiny_model());
  const std::vector<double> wanted = losses_of(*alone, source, 4);
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"}) {
    TextSource own;
    const std::vector<double> made =
        losses_of(*mean_trainer(tiny_model(mesh_engine(mesh))), own, 4);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(made[i], wanted[i], 1e-5 * wanted[i]) << mesh << ' ' << i;
  }
  TextSource late;
  const auto ahead = mean_trainer(tiny_model(std::make_shared<LateEngine>()));
  EXPECT_TRUE(ahead->run(late, 4));
  EXPECT_EQ(ahead->metric("loss"), wanted.back());
}

// The loss and its gradients are finite, and so the weights move.
TEST(ObjectiveState, ASumThatIsNotFiniteStaysOut) {
  const test::TempFolder folder;
  TextSource source;
  const auto objective = std::make_shared<ToMean>(kStateWidth, INFINITY);
  Trainer trainer(tiny_model(), objective, trainer_options());
  losses_of(trainer, source, 2);
  EXPECT_EQ(trainer.metric("skipped"), 0);
  const auto state = read_objective_state(*objective, saved_run(trainer, source, folder));
  for (const auto& [name, array] : state) {
    for (const float x : array.as<float>()) EXPECT_EQ(x, 0) << name;
  }
}

TEST(ObjectiveState, AnotherStateIsRefusedAndChangesNothing) {
  const test::TempFolder folder;
  TextSource source, again;
  const auto trainer = mean_trainer(tiny_model());
  losses_of(*trainer, source, 2);
  const std::string dir = saved_run(*trainer, source, folder);
  std::filesystem::remove(dir + "/state/objective.safetensors");
  const auto other = mean_trainer(tiny_model());
  test::expect_error(Code::data_loss, "objective.safetensors",
                     [&] { restore_checkpoint(*other, &again, dir); });
  const noise::StateArrays one = ToMean().first_state(), wide = ToMean(7).first_state();
  noise::check_state("to_mean", one, one);
  test::expect_error(Code::failed_precondition, "array mean of objective to_mean is f32(24)",
                     [&] { noise::check_state("to_mean", one, wide); });
  test::expect_error(Code::failed_precondition, "lacks the array count",
                     [&] { noise::check_state("to_mean", {}, one); });
  test::expect_error(Code::failed_precondition, "has an array count",
                     [&] { noise::check_state("to_mean", one, {}); });
  const std::vector<double> first = losses_of(*other, again, 2);
  TextSource third;
  EXPECT_EQ(losses_of(*mean_trainer(tiny_model()), third, 2), first);
}

} // namespace
} // namespace dllm::train
