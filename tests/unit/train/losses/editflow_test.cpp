// Edit flows from training to text: a tiny model learns to insert what is missing between two
// tokens.

#include "../tiny.h"
#include "decode/decoder/decoder.h"
#include "model/network/edit_heads.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::train {
namespace {

// 1, then a run of tokens that count up from 3, then 2.
class CountSource final : public BatchSource {
public:
  std::optional<Batch> next() override {
    constexpr int64_t kRows = 8, kLength = 8;
    Tensor ids(DType::i32, {kRows, kLength});
    for (int64_t b = 0; b < kRows; ++b) {
      for (int64_t i = 0; i < kLength; ++i) {
        const auto place = static_cast<size_t>(b * kLength + i);
        ids.mutable_as<int32_t>()[place] = i == 0             ? 1
                                           : i + 1 == kLength ? 2
                                                              : static_cast<int32_t>(i + 2);
      }
    }
    ++position_;
    Batch made;
    made.set("ids", ids);
    return made;
  }
  int64_t position() const override { return position_; }
  void seek(int64_t position) override { position_ = position; }

private:
  int64_t position_ = 0;
};

std::shared_ptr<model::Model> edit_model(int64_t threads) {
  Json config = tiny_config();
  config["model_type"] = "editflow-qwen3";
  return model::new_model(tiny_engine(threads), config, Options(model::model_schema()));
}

std::vector<std::vector<int32_t>> decoded(const std::shared_ptr<model::Model>& model, int64_t rows,
                                          int64_t steps = 64, int64_t finish_steps = 0) {
  Options options(decode::decoder_schema("editflow"));
  options.set_json(Json{
      {"policy", "editflow"}, {"gen_length", 0}, {"steps", steps}, {"finish_steps", finish_steps}});
  decode::Decoder decoder(model, options);
  for (int64_t row = 0; row < rows; ++row) {
    Options request(decode::request_schema());
    request.set_i64("seed", row);
    decoder.add(std::vector<int32_t>{1}, {}, request);
  }
  decoder.run();
  std::vector<std::vector<int32_t>> made;
  for (int64_t row = 0; row < rows; ++row) made.push_back(decoder.request(row).ids);
  return made;
}

const std::vector<int32_t> kCounted = {1, 3, 4, 5, 6, 7, 8, 2};

std::shared_ptr<model::Model> trained(int64_t threads, const Json& settings) {
  const auto model = edit_model(threads);
  Options own(noise::objective_schema("editflow"));
  own.set_str("start", "empty");
  own.set_json(settings);
  Trainer trainer(model, noise::make_objective("editflow", nullptr, own),
                  trainer_options({{"lr", 5e-3}}));
  CountSource source;
  const double before = trainer.eval(source, 4);
  trainer.run(source, 150);
  const double after = trainer.eval(source, 4);
  EXPECT_LT(after, before - 1) << "from " << before << " to " << after;
  return trainer.model("live");
}

TEST(EditFlow, LearnsToInsert) {
  const auto texts = decoded(trained(1, Json::object()), 8);
  for (const std::vector<int32_t>& text : texts) {
    EXPECT_EQ(text.front(), 1);
    EXPECT_TRUE(std::ranges::all_of(text, [](int32_t id) { return id >= 0 && id < 30; }));
  }
  EXPECT_GE(std::ranges::count(texts, kCounted), 4) << "of 8 texts";
  EXPECT_EQ(decoded(trained(2, Json::object()), 3), std::vector(texts.begin(), texts.begin() + 3));
}

// Seven tokens do not fit into two steps of one token a place; the steps behind them insert the
// others.
TEST(EditFlow, OrdersAreLearnedAndFinished) {
  for (const char* order : {"middle", "left"}) {
    const auto model = trained(1, {{"insert_order", order}, {"max_weight", 1.0}});
    EXPECT_EQ(std::ranges::count(decoded(model, 8, 2), kCounted), 0) << order;
    EXPECT_GE(std::ranges::count(decoded(model, 8, 2, 16), kCounted), 7) << order;
    EXPECT_GE(std::ranges::count(decoded(model, 8), kCounted), 5) << order;
  }
}

} // namespace
} // namespace dllm::train
