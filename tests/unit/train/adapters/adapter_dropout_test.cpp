// Dropout of adapters: the noise depends on seed, step and global row alone, and evaluation drops
// nothing.

#include "base/random.h"
#include "graph/ops.h"
#include "model/adapters/adapter.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/network/linear.h"
#include "runtime/programs.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::train {
namespace {

struct Run {
  const char* mesh = "";
  int64_t threads = 1;
  double dropout = 0.4;
  bool is_dora = false;
  Json options = Json::object();
};

Json config_of() {
  Json config = tiny_config(false);
  config.update({{"hidden_size", 32}, {"head_dim", 8}, {"intermediate_size", 64}});
  return config;
}

std::unique_ptr<Trainer> trainer_of(const Run& run) {
  const auto engine = *run.mesh != 0 ? mesh_engine(run.mesh) : tiny_engine(run.threads);
  const auto model = model::new_model(engine, config_of(), Options(model::model_schema()));
  model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
  adapter.settings.dropout = run.dropout;
  adapter.settings.kind = run.is_dora ? "dora" : "lora";
  model::add_adapter(*model, adapter);
  Json options = {{"lr", 0.02}};
  options.update(run.options);
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options(options));
}

std::vector<double> losses_with(const Run& run) {
  TextSource source(8);
  const auto trainer = trainer_of(run);
  return losses_of(*trainer, source, 12);
}

TEST(AdapterDropout, IsTheSameForThreadsAndRecomputation) {
  for (const bool is_dora : {false, true}) {
    const std::vector<double> wanted = losses_with({.is_dora = is_dora});
    EXPECT_EQ(losses_with({.is_dora = is_dora}), wanted);
    EXPECT_EQ(losses_with({.threads = 3, .is_dora = is_dora}), wanted);
    EXPECT_EQ(losses_with({.is_dora = is_dora, .options = {{"remat", true}}}), wanted);
    EXPECT_NE(losses_with({.is_dora = is_dora, .options = {{"seed", 8}}}), wanted);
    EXPECT_NE(losses_with({.dropout = 0, .is_dora = is_dora}), wanted);
    EXPECT_NE(losses_with({.dropout = 0.3, .is_dora = is_dora}), wanted);
  }
}

TEST(AdapterDropout, IsTheSameOnEveryMesh) {
  for (const bool is_dora : {false, true}) {
    const std::vector<double> wanted = losses_with({.is_dora = is_dora});
    for (const char* mesh : {"data=2", "data=4", "fsdp=2", "tensor=2", "fsdp=2,tensor=2"}) {
      const std::vector<double> losses = losses_with({.mesh = mesh, .is_dora = is_dora});
      for (size_t i = 0; i < wanted.size(); ++i)
        EXPECT_NEAR(losses[i], wanted[i], 2e-4) << mesh << " step " << i;
    }
  }
  EXPECT_THROW(losses_with({.mesh = "sequence=2"}), Error);
}

// Four batches of two rows are one batch of eight.
TEST(AdapterDropout, IsTheSameForEveryCutOfAnUpdate) {
  TextSource wide(8), narrow(2);
  const auto whole = trainer_of({}), cut = trainer_of({.options = {{"accumulate", 4}}});
  for (int step = 0; step < 5; ++step) {
    const double wanted = whole->step(*wide.next());
    for (int part = 0; part < 4; ++part) cut->accumulate(*narrow.next());
    EXPECT_NEAR(cut->apply(), wanted, 1e-5) << step;
    EXPECT_NEAR(cut->metric("grad_norm"), whole->metric("grad_norm"), 1e-5) << step;
  }
}

TEST(AdapterDropout, EvaluationDropsNothing) {
  const auto held_out = [](double dropout) {
    const auto trainer = trainer_of({.dropout = dropout, .options = {{"lr", 0.0}}});
    TextSource source(8), held(8);
    losses_of(*trainer, source, 2);
    return model::forward(*trainer->model("live"), *held.next()).at("logits").clone();
  };
  const Tensor with = held_out(0.5), without = held_out(0);
  EXPECT_TRUE(std::ranges::equal(with.as<float>(), without.as<float>()));
}

// y = x W^T + (x kept / (1 - p)) A^T B^T, with the bits of the row's key and the module's name.
TEST(AdapterDropout, IsBeforeA) {
  constexpr int64_t kBatch = 2, kSeq = 40, kIn = 50;
  constexpr float kRate = 0.25f;
  auto graph = std::make_shared<graph::Graph>("dropout");
  const graph::Value x = graph->input("x", {Shape{kBatch, kSeq, kIn}, DType::f32, {}}),
                     keys = graph->input("keys", {Shape{kBatch, 2}, DType::u32, {}});
  Tensor eye(DType::f32, {kIn, kIn}), zero(DType::f32, {kIn, kIn});
  for (int64_t i = 0; i < kIn; ++i) eye.mutable_as<float>()[static_cast<size_t>(i * kIn + i)] = 1;
  std::ranges::fill(zero.mutable_as<float>(), 0.0f);
  model::Linear linear;
  linear.weight = graph::constant(*graph, zero);
  model::Adapter adapter;
  adapter.kind = &model::find_adapter_kind("lora");
  for (const model::AdapterTensor& tensor : adapter.kind->tensors)
    adapter.tensors[std::string(tensor.suffix)] = {graph::constant(*graph, eye)};
  adapter.name = "adapter:a/q";
  adapter.dropout = model::Dropout{kRate, keys};
  linear.adapters = {adapter};
  graph->output("y", model::product(linear, x));

  const auto engine = tiny_engine();
  runtime::Arguments arguments(engine->compile(graph));
  Batch feed;
  Tensor ones(DType::f32, {kBatch, kSeq, kIn});
  std::ranges::fill(ones.mutable_as<float>(), 1.0f);
  feed.set("x", ones);
  const std::vector<uint32_t> words = {1, 2, 3, 4};
  feed.set("keys", Tensor::from(Shape{kBatch, 2}, words));
  arguments.upload(*engine, feed);
  const Tensor y = arguments.run()[0]->read();
  const uint64_t name = model::name_number(adapter.name);
  int64_t kept = 0;
  for (int64_t i = 0; i < kBatch * kSeq * kIn; ++i) {
    const auto row = static_cast<size_t>(i / (kSeq * kIn));
    const Key key{words[2 * row] ^ static_cast<uint32_t>(name >> 32),
                  words[2 * row + 1] ^ static_cast<uint32_t>(name)};
    const float uniform =
        uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(i % (kSeq * kIn))));
    const float wanted = uniform >= kRate ? 1 / (1 - kRate) : 0;
    ASSERT_EQ(y.as<float>()[static_cast<size_t>(i)], wanted) << i;
    kept += uniform >= kRate ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / (kBatch * kSeq * kIn), 0.75, 0.03);
}

} // namespace
} // namespace dllm::train
