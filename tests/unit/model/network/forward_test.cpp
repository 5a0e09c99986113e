// What a token sees: every check compares a row with the same row computed without what it must not
// see.

#include "../model_tools.h"
#include "graph/engine.h"
#include "model/model.h"
#include "model/plan.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <limits>

namespace dllm::model {
namespace {

using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

class Forward : public ::testing::Test {
protected:
  Batch run(const Batch& batch, Json options) {
    Options set(forward_schema());
    set.set_json(options);
    return forward(*model_, batch, set);
  }
  static Batch changed(const Batch& batch, int64_t row, int64_t column) {
    Batch other = batch;
    Tensor ids = batch.at("ids").clone();
    int32_t& id = ids.mutable_as<int32_t>()[static_cast<size_t>(row * ids.shape()[1] + column)];
    id = (id + 1) % 23;
    other.set("ids", ids);
    return other;
  }
  // Positions of row 0 whose logits change when token `column` of row 0 changes.
  std::vector<int64_t> reach(const Batch& batch, int64_t column, const Json& options) {
    const Tensor a = run(batch, options).at("logits").row(0);
    const Tensor b = run(changed(batch, 0, column), options).at("logits").row(0);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < a.shape()[0]; ++i) {
      if (!test::same_bytes(a.row(i).clone(), b.row(i).clone())) seen.push_back(i);
    }
    return seen;
  }

  std::shared_ptr<Model> model_ =
      new_model(small_engine(), small_config("llama"), model_options({{"seed", "5"}}));
  using Positions = std::vector<int64_t>;
};

TEST_F(Forward, Attention) {
  const Batch batch = small_ids(2, 6, 23);
  EXPECT_EQ(reach(batch, 3, {{"attention", "causal"}}), (Positions{3, 4, 5}));
  EXPECT_EQ(reach(batch, 3, {{"attention", "bidirectional"}}), (Positions{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(reach(batch, 3, {{"attention", "block_causal"}, {"block_length", 2}}),
            (Positions{2, 3, 4, 5}));
  // [noised | clean], three tokens each, blocks of one: a clean token reaches later noised blocks
  // and clean ones from its own.
  EXPECT_EQ(reach(batch, 4, {{"attention", "two_stream"}, {"block_length", 1}}),
            (Positions{2, 4, 5}));
  EXPECT_EQ(reach(batch, 1, {{"attention", "two_stream"}, {"block_length", 1}}), (Positions{1}));
}

TEST_F(Forward, SegmentsKeysAndTables) {
  Batch batch = small_ids(1, 6, 23);
  batch.set("segments", Tensor::from(Shape{1, 6}, std::vector<int32_t>{1, 1, 2, 2, 2, 0}));
  EXPECT_EQ(reach(batch, 2, {{"attention", "bidirectional"}}), (Positions{2, 3, 4}));
  Batch keys = small_ids(1, 6, 23);
  keys.set("keys", Tensor::from(Shape{1, 6}, std::vector<uint8_t>{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(reach(keys, 2, {{"attention", "bidirectional"}}),
            (Positions{2})); // itself through the residual stream
  Batch table = small_ids(1, 3, 23);
  table.set("mask", Tensor::from(Shape{1, 3, 3}, std::vector<uint8_t>{1, 0, 0, 0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(reach(table, 2, {{"attention", "bidirectional"}}), (Positions{1, 2}));
}

TEST_F(Forward, ARowAloneIsTheRowInABatch) {
  const Batch both = small_ids(2, 7, 23);
  Batch one;
  one.set("ids", both.at("ids").rows(1, 2).clone());
  EXPECT_TRUE(test::same_bytes(run(both, Json::object()).at("logits").row(1).clone(),
                               run(one, Json::object()).at("logits").row(0).clone()));
}

TEST_F(Forward, ShiftMovesRows) {
  const Batch batch = small_ids(1, 4, 23);
  const Tensor plain = run(batch, {{"shift", 0}}).at("logits").row(0),
               moved = run(batch, {{"shift", 1}}).at("logits").row(0);
  EXPECT_TRUE(test::same_bytes(moved.row(0).clone(), plain.row(0).clone()));
  EXPECT_TRUE(test::same_bytes(moved.row(3).clone(), plain.row(2).clone()));
}

TEST_F(Forward, OutputsAndCache) {
  const Batch batch = small_ids(2, 4, 23);
  const Batch result = run(batch, {{"outputs", {"logits", "hidden", "layers"}}});
  EXPECT_EQ(result.at("logits").shape(), (Shape{2, 4, 23}));
  EXPECT_EQ(result.at("hidden").shape(), (Shape{2, 4, 16}));
  EXPECT_EQ(result.at("layers").shape(), (Shape{4, 2, 4, 16}));
  const int64_t compiles = model_->engine().i64("compiles");
  run(batch, {{"outputs", {"logits", "hidden", "layers"}}});
  EXPECT_EQ(model_->engine().i64("compiles"), compiles);
  // The embedding itself, given back as input.
  Batch embedded;
  embedded.set("embeddings", result.at("layers").row(0).clone());
  EXPECT_TRUE(test::same_bytes(run(embedded, Json::object()).at("logits"), result.at("logits")));
}

TEST_F(Forward, BadBatches) {
  Batch batch = small_ids(1, 4, 23);
  test::expect_error(Code::failed_precondition, "needs a block length", [&] {
    run(batch, {{"attention", "block_causal"}});
  });
  test::expect_error(Code::invalid_argument, "there is no output named \"probs\"", [&] {
    run(batch, {{"outputs", {"probs"}}});
  });
  test::expect_error(Code::not_found, "ids", [&] { run(Batch(), Json::object()); });
  batch.set("positions", Tensor(DType::i32, {1, 5}));
  test::expect_error(Code::invalid_argument, "array positions is i32(1, 5), expected i32(1, 4)",
                     [&] { run(batch, Json::object()); });
  Batch wild;
  wild.set("ids", Tensor::from(Shape{1, 2}, std::vector<int32_t>{1, 23}));
  test::expect_error(Code::invalid_argument, "ids[0, 1] = 23 is not in 0 to 22",
                     [&] { run(wild, Json::object()); });
  const auto with = [&](const char* name, const Tensor& array) {
    Batch made = small_ids(1, 4, 23);
    made.set(name, array);
    return made;
  };
  const auto refuses = [&](const char* text, const Batch& made) {
    test::expect_error(Code::invalid_argument, text, [&] { run(made, Json::object()); });
  };
  refuses("positions[0, 2] = 32 is not in 0 to 31",
          with("positions", Tensor::from(Shape{1, 4}, std::vector<int32_t>{0, 1, 32, 3})));
  refuses("segments[0, 1] = -1 is not in 0",
          with("segments", Tensor::from(Shape{1, 4}, std::vector<int32_t>{1, -1, 1, 1})));
  refuses("keys[0, 3] = 2 is not in 0 to 1",
          with("keys", Tensor::from(Shape{1, 4}, std::vector<uint8_t>{1, 1, 1, 2})));
  refuses("rows of 33 tokens, the model has 32 positions", small_ids(1, 33, 23));
  Tensor embeddings(DType::f32, {1, 4, 16});
  embeddings.mutable_as<float>()[18] = std::numeric_limits<float>::infinity();
  refuses("embeddings[0, 1, 2] = inf is not finite", with("embeddings", embeddings));
  Task task;
  task.cancel();
  test::expect_error(Code::cancelled, "", [&] { forward(*model_, small_ids(1, 4, 23), &task); });
}

TEST(ForwardGpt2, LearnedPositionsEnd) {
  const auto model = new_model(small_engine(), small_config("gpt2"), model_options());
  test::expect_error(Code::invalid_argument, "rows of 25 tokens, the model has 24 positions",
                     [&] { forward(*model, small_ids(1, 25, 23)); });
}

TEST(Plan, ForwardOfASketch) {
  const auto engine = small_engine();
  const ModelConfig config = config_from_json(small_config("llama"), "config.json");
  const auto model = new_model(engine, small_config("llama"), model_options());
  const int64_t used = engine->i64("memory_used");
  Options options(plan_schema());
  options.set_json(Json{{"what", "forward"}, {"batch", 2}, {"length", 8}});
  const Job job = forward_job(engine, config, options);
  const Json plan = parse_json(plan_text(*engine, job, options), "plan");
  EXPECT_EQ(engine->i64("memory_used"), used); // nothing was uploaded
  EXPECT_EQ(plan["weights"].get<int64_t>(), model->params().parameter_count() * 4);
  EXPECT_GT(plan["arena"].get<int64_t>(), 0);
  EXPECT_GT(plan["flops"].get<double>(), 2.0 * 16 * 2 * 8 * 16);
  EXPECT_EQ(plan["compiled"]["known"], false);
  EXPECT_TRUE(plan["compiled"]["fits"].is_null());
  options.set_text("format", "graph");
  EXPECT_NE(plan_text(*engine, job, options).find("param:layers.q"), std::string::npos);
  options.set_text("format", "optimized");
  test::expect_error(Code::unimplemented, "", [&] { plan_text(*engine, job, options); });
}

TEST(Sketch, HasShapesAndNoNumbers) {
  const auto engine = small_engine();
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const std::string name = dtype == DType::i8 ? "int8" : dtype_name(dtype);
    const auto whole =
        new_model(engine, small_config("llama"), model_options({{"dtype", name.c_str()}}));
    const auto sketch = sketch_model(engine, whole->config(), weight_format(dtype));
    ASSERT_EQ(sketch->params().physical().size(), whole->params().physical().size()) << name;
    for (size_t i = 0; i < sketch->params().physical().size(); ++i) {
      const auto &a = sketch->params().physical()[i], &b = whole->params().physical()[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.shape, b.shape) << a.name;
      EXPECT_EQ(a.dtype, b.dtype) << a.name;
      EXPECT_EQ(a.decay, b.decay) << a.name;
      EXPECT_EQ(a.scale_of, b.scale_of) << a.name;
    }
    EXPECT_EQ(sketch->params().names(), whole->params().names());
    EXPECT_EQ(sketch->params().parameter_count(), whole->params().parameter_count());
    const std::string any = sketch->params().names().front();
    const auto refused = [&](const auto& use) {
      test::expect_error(Code::failed_precondition, "the model is a sketch", use);
    };
    refused([&] { sketch->params().read(any); });
    refused([&] { sketch->params().snapshot(); });
    refused([&] { sketch->ensure_mask_token(); });
    refused([&] { clone_model(*sketch); });
    refused([&] { forward(*sketch, small_ids(1, 4, 23)); });
  }
}

} // namespace
} // namespace dllm::model
