// A loss over vectors: arrays of numbers come from a file into the batch of their rows, and no row
// of the head is read.

#include "../tiny.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "graph/ops.h"
#include "model/network/token_batch.h"
#include "noise/loss/token_ce.h"
#include "text/data/loader.h"
#include "text/data/row_arrays.h"
#include "unit/test_files.h"
#include "unit/text/tokenizer/byte_tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::train {
namespace {

constexpr int64_t kRows = 12, kLength = 8, kWidth = 24; // as wide as the hidden states

std::vector<int32_t> tokens_of(int64_t row) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kLength; ++i) ids.push_back(static_cast<int32_t>((row * 5 + i * 3) % 29));
  return ids;
}

float state_at(int64_t row, int64_t i, int64_t column) {
  return 0.1f * static_cast<float>((row * 7 + i * 3 + column) % 11) - 0.5f;
}

std::shared_ptr<const text::Dataset> dataset() {
  Json rows = Json::array();
  for (int64_t row = 0; row < kRows; ++row) rows.push_back({{"ids", tokens_of(row)}});
  const auto made =
      std::make_shared<text::Dataset>(text::make_byte_tokenizer(), Options(text::dataset_schema()));
  made->add(rows.dump());
  return made;
}

// States of all rows but `without`, in another order than that of the dataset.
std::string write_states(const test::TempFolder& folder, int64_t without = -1) {
  std::vector<int64_t> keys;
  std::vector<float> states;
  for (int64_t row = kRows - 1; row >= 0; --row) {
    if (row == without) continue;
    std::vector<int32_t> whole = tokens_of(row);
    whole.push_back(256); // the end token, which the length of a batch cuts off
    keys.push_back(text::row_key(whole));
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t c = 0; c < kWidth; ++c) states.push_back(state_at(row, i, c));
    }
  }
  const int64_t rows = std::ssize(keys);
  const std::string path = folder.path("states.safetensors");
  ckpt::write_safetensors(path, {{text::kRowKeys, Tensor::from(Shape{rows}, keys)},
                                 {"states", Tensor::from(Shape{rows, kLength, kWidth}, states)}});
  return path;
}

Options loader_options(const std::string& arrays) {
  Options options(text::loader_schema());
  options.set_json(
      Json{{"batch", 4}, {"length", kLength}, {"pack", false}, {"epochs", 0}, {"arrays", arrays}});
  return options;
}

// The squared distance of the hidden states from given states, per number; normalizer: rows of the
// batch.
class ToStates final : public noise::Objective {
public:
  ToStates() : ToStates(noise::make_objective("ar")) {}
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return false; }
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override {
    Batch made = model::input_arrays(
        model::parse_tokens(prepared, model::token_rules(model::TokenUse::model_input, config)),
        model::AttentionKind::bidirectional, 0);
    const Tensor& states = prepared.at("states");
    const std::vector<float> ones(static_cast<size_t>(states.shape()[0]), 1.0f);
    made.set("states", states);
    made.set(noise::kNormalizer, Tensor::from(Shape{states.shape()[0]}, ones));
    return made;
  }

protected:
  Batch prepare_rows(const Batch& batch, uint64_t, int64_t,
                     const noise::PrepareContext&) const override {
    return batch; // nothing is drawn
  }
  noise::Loss build_loss(model::Builder& builder, const noise::LossInputs& inputs) const override {
    const graph::Value apart =
        graph::subtract(builder.forward(inputs.tokens).hidden, inputs.all.at("states"));
    return {graph::sum(graph::multiply(apart, apart), {0, 1, 2}),
            graph::sum(inputs.normalizer, {0}),
            {}};
  }

private:
  explicit ToStates(const noise::ObjectiveRef& plain)
      : Objective(plain->schedule(), plain->options()) {}
  std::string name_ = "to_states";
};

TEST(RowArrays, ComeWithTheirRows) {
  const test::TempFolder folder;
  const std::string path = write_states(folder);
  for (const bool shuffle : {false, true}) {
    Options options = loader_options(path);
    options.set_i64("shuffle", shuffle ? 1 : 0);
    text::Loader loader(dataset(), options);
    for (int step = 0; step < 6; ++step) {
      const Batch batch = loader.next();
      ASSERT_EQ(batch.at("states").shape(), (Shape{4, kLength, kWidth}));
      for (int64_t b = 0; b < 4; ++b) {
        const auto ids = batch.at("ids").as<int32_t>().subspan(static_cast<size_t>(b * kLength), 2);
        int64_t row = 0;
        while (row < kRows && (tokens_of(row)[0] != ids[0] || tokens_of(row)[1] != ids[1])) ++row;
        const auto at = static_cast<size_t>((b * kLength + 3) * kWidth + 5);
        EXPECT_EQ(batch.at("states").as<float>()[at], state_at(row, 3, 5)) << step << ' ' << b;
      }
    }
  }
}

// What a user does: the keys of one pass over the data are those that the file needs.
TEST(RowArrays, ALoaderGivesTheKeys) {
  Options options = loader_options("");
  options.set_i64("row_keys", 1);
  options.set_i64("shuffle", 0);
  options.set_i64("epochs", 1);
  text::Loader loader(dataset(), options);
  int64_t row = 0;
  while (const std::optional<Batch> batch = loader.try_next()) {
    for (const int64_t key : batch->at("row_keys").as<int64_t>()) {
      std::vector<int32_t> whole = tokens_of(row++);
      whole.push_back(256);
      EXPECT_EQ(key, text::row_key(whole));
    }
  }
  EXPECT_EQ(row, kRows);
}

TEST(RowArrays, AreRefusedByNameWhereTheyDoNotFit) {
  const test::TempFolder folder;
  test::expect_error(Code::not_found, "no arrays for row", [&] {
    text::Loader loader(dataset(), loader_options(write_states(folder, 5)));
    for (int step = 0; step < 3; ++step) loader.next();
  });
  Options packed = loader_options(write_states(folder));
  packed.set_i64("pack", 1);
  test::expect_error(Code::invalid_argument, "arrays is for rows that are not packed",
                     [&] { text::Loader(dataset(), packed); });
  const std::string other = folder.path("other.safetensors");
  const auto refused = [&](Code code, const char* words, const ckpt::NamedTensors& tensors) {
    ckpt::write_safetensors(other, tensors);
    test::expect_error(code, words, [&] { text::Loader(dataset(), loader_options(other)); });
  };
  const Tensor keys = Tensor::from(Shape{2}, std::vector<int64_t>{1, 2});
  refused(Code::data_loss, "has no array row_keys", {{"states", Tensor(DType::f32, {2, 3})}});
  refused(Code::data_loss, "one entry for each of 2 rows",
          {{text::kRowKeys, keys}, {"states", Tensor(DType::f32, {3, 3})}});
  refused(Code::invalid_argument, "already has its own array ids",
          {{text::kRowKeys, keys}, {"ids", Tensor(DType::i32, {2, 3})}});
  test::expect_error(Code::not_found, "absent", [&] {
    text::Loader(dataset(), loader_options(folder.path("absent.safetensors")));
  });
}

TEST(Vectors, AreLearnedWithoutRowsOfAHead) {
  const test::TempFolder folder;
  text::Loader loader(dataset(), loader_options(write_states(folder)));
  LoaderSource source(loader);
  const auto model = tiny_model();
  Trainer trainer(model, std::make_shared<ToStates>(), trainer_options({{"lr", 0.02}}));
  const double first = trainer.step(*source.next());
  double last = first;
  for (int i = 0; i < 60; ++i) last = trainer.step(*source.next());
  EXPECT_LT(last, 0.5 * first);
}

TEST(Vectors, AccumulateAndMeshesGiveTheLossOfOneStep) {
  const test::TempFolder folder;
  const std::string path = write_states(folder);
  const auto losses = [&](const std::shared_ptr<graph::Engine>& engine) {
    text::Loader loader(dataset(), loader_options(path));
    Trainer trainer(tiny_model(engine), std::make_shared<ToStates>(), trainer_options());
    std::vector<double> made;
    for (int i = 0; i < 3; ++i) made.push_back(trainer.step(loader.next()));
    return made;
  };
  const std::vector<double> alone = losses(tiny_engine());
  for (const char* mesh : {"fsdp=2", "tensor=2"}) {
    const std::vector<double> ranks = losses(mesh_engine(mesh));
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(ranks[i], alone[i], 1e-5 * alone[i]) << mesh << ' ' << i;
  }
}

} // namespace
} // namespace dllm::train
