// Anchors of a teacher: the numbers of a chunk depend on its tokens alone.

#include "../tiny.h"
#include "base/error.h"
#include "text/data/anchor_cache.h"
#include "train/anchors/anchor_pass.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace dllm::train {
namespace {

using Chunk = std::vector<int32_t>;

Options options_of(const Json& settings) {
  Options options(anchor_schema());
  options.set_json(settings);
  return options;
}

std::shared_ptr<model::Model> teacher_of(const Json& settings, int64_t threads = 1,
                                         const Json& changes = Json::object()) {
  Json config = tiny_config();
  config.update(changes);
  Options options(model::model_schema());
  options.set_json(settings);
  return model::new_model(tiny_engine(threads), config, options);
}

std::vector<Chunk> random_chunks(std::mt19937& random, int64_t count) {
  std::vector<Chunk> made(static_cast<size_t>(count));
  for (Chunk& chunk : made) {
    chunk.resize(1 + random() % 20);
    for (int32_t& id : chunk) id = static_cast<int32_t>(random() % 30);
  }
  return made;
}

bool is_same(const ckpt::NamedTensors& a, const ckpt::NamedTensors& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.shape() == other.second.shape() &&
           std::memcmp(one.second.bytes(), other.second.bytes(),
                       static_cast<size_t>(one.second.byte_size())) == 0;
  });
}

// Other chunks of a pass, its width and the number of threads change no bit.
TEST(Anchors, DependOnTheTokensAlone) {
  std::mt19937 random(3);
  for (const Json& settings :
       {Json{{"attention", "causal"}}, Json{{"attention", "bidirectional"}}}) {
    for (const Json& kept : {Json{{"store", "f32"}, {"layers", {"all"}}}, Json{{"store", "bf16"}},
                             Json{{"store", "int8"}, {"group", 8}}}) {
      AnchorPass alone(teacher_of(settings), options_of(kept)),
          together(teacher_of(settings, 2), options_of(kept));
      const std::vector<Chunk> chunks = random_chunks(random, 7);
      const std::vector<ckpt::NamedTensors> all = together.run(chunks, 32, nullptr);
      for (size_t i = 0; i < chunks.size(); ++i) {
        const auto own = alone.run({&chunks[i], 1}, std::ssize(chunks[i]), nullptr);
        EXPECT_TRUE(is_same(own[0], all[i])) << settings << kept << " chunk " << i;
      }
    }
  }
}

// The states are those of a forward pass.
TEST(Anchors, AreTheStatesOfThePass) {
  std::mt19937 random(5);
  const auto teacher = teacher_of({{"attention", "causal"}});
  AnchorPass pass(teacher, options_of({{"store", "f32"}, {"layers", {"2", "0"}}, {"top", 3}}));
  for (const Chunk& chunk : random_chunks(random, 5)) {
    const auto length = std::ssize(chunk);
    const auto made = pass.run({&chunk, 1}, length, nullptr)[0];
    Batch batch;
    batch.set("ids", Tensor::from(Shape{1, length}, chunk));
    Options outputs(model::forward_schema());
    outputs.set_json({{"outputs", {"layers", "logits"}}, {"shift", 0}});
    const Batch wanted = model::forward(*teacher, batch, outputs);
    ASSERT_EQ(made.size(), 4u);
    for (size_t i = 0; i < 2; ++i) {
      const int64_t layer = i == 0 ? 0 : 2;
      EXPECT_EQ(made[i].first, "hidden_layer_" + std::to_string(layer));
      const auto states = wanted.at("layers").as<float>().subspan(
          static_cast<size_t>(layer * length * 24), static_cast<size_t>(length * 24));
      EXPECT_TRUE(std::ranges::equal(made[i].second.as<float>(), states)) << "layer " << layer;
    }
    const auto ids = made[2].second.as<int32_t>();
    const auto logits = made[3].second.as<float>(), all = wanted.at("logits").as<float>();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i < 3) { // no state predicts the first token
        EXPECT_EQ(ids[i], -1);
        continue;
      }
      const auto row = all.subspan((i / 3 - 1) * 31, 31);
      EXPECT_EQ(logits[i], row[static_cast<size_t>(ids[i])]);
      EXPECT_EQ(std::ranges::count_if(row, [&](float x) { return x > logits[i]; }),
                static_cast<int64_t>(i % 3));
    }
  }
}

TEST(Anchors, NameWhatIsWrong) {
  const auto opened = [](const Json& settings, const Json& model = {{"attention", "causal"}}) {
    return test::error_text([&] { AnchorPass(teacher_of(model), options_of(settings)); });
  };
  EXPECT_EQ(opened({{"layers", {"3"}}}), "layers names layer \"3\", and the model has 2 layers");
  EXPECT_EQ(opened({{"layers", {"-1"}}}), "layers names layer \"-1\", and the model has 2 layers");
  EXPECT_EQ(opened({{"store", "int8"}, {"group", 7}}),
            "group 7 does not divide the width 24 of the teacher");
  EXPECT_EQ(opened({{"group", 8}}), "group is of store int8, and store is bf16");
  EXPECT_EQ(opened({{"top", 32}}), "top is 32, and the teacher has 31 tokens");
  EXPECT_NE(opened({{"top", 2}}, {{"attention", "bidirectional"}}).find("sees the tokens that it"),
            std::string::npos);
  AnchorPass pass(teacher_of({{"attention", "causal"}}), options_of(Json::object()));
  const std::vector<Chunk> foreign{{1, 31}};
  EXPECT_NE(test::error_text([&] { pass.run(foreign, 2, nullptr); }).find("31"), std::string::npos);
}

} // namespace
} // namespace dllm::train
