// The files of a cache of anchors: names, packed states, and batches that read them.

#include "text/data/anchor_cache.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/data/loader.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <random>

namespace dllm::text {
namespace {

// Facts of castlehill (spec of Open-dLLM 17.4).
TEST(AnchorCache, HasTheKeysOfCastlehill) {
  const auto key = [](const std::vector<int32_t>& ids) { return anchor_key(ids); };
  EXPECT_EQ(key({1, 2, 3, 248077}), "299e9bb8fadf6506");
  EXPECT_EQ(key({0}), "af5570f5a1810b7a");
  EXPECT_EQ(key({1}), "7c9fa136d4413fa6");
  EXPECT_EQ(key({151643, 1, 2}), "8b2e5bc0d5fc6847");
  EXPECT_EQ(anchor_path("dir", key({1, 2, 3, 248077})), "dir/29/299e9bb8fadf6506.safetensors");
}

TEST(AnchorCache, FindsTheChunksOfARow) {
  const auto chunks = [](const std::vector<int32_t>& segments) {
    std::vector<std::pair<size_t, size_t>> made;
    for (const AnchorChunk& chunk : chunks_of(segments)) made.emplace_back(chunk.begin, chunk.end);
    return made;
  };
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(chunks({1, 1, 2, 2, 2, 0, 0}), (Pairs{{0, 2}, {2, 5}}));
  EXPECT_EQ(chunks({0, 0, 1, 1}), (Pairs{{2, 4}}));
  EXPECT_EQ(chunks({3}), (Pairs{{0, 1}}));
  EXPECT_EQ(chunks({0, 0}), Pairs());
  EXPECT_EQ(chunks({}), Pairs());
}

// A number of any state is off by at most half a scale, which is 1/254 of the group's largest one.
TEST(AnchorCache, PacksStatesWithinTheStatedError) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int64_t tokens = 1 + static_cast<int64_t>(random() % 5);
    const int64_t group = int64_t{1} << (random() % 8);
    const int64_t hidden = group * (1 + static_cast<int64_t>(random() % 4));
    std::normal_distribution<float> normal(0,
                                           std::ldexp(1.0f, static_cast<int>(random() % 40) - 20));
    Tensor states(DType::f32, {tokens, hidden});
    for (float& x : states.mutable_as<float>()) x = round % 7 == 0 ? 0 : normal(random);
    const PackedStates packed = pack_states(states, group);
    ASSERT_EQ(packed.scales.shape(), (Shape{tokens, hidden / group}));
    const Tensor back = unpack_states(packed.numbers, packed.scales);
    for (size_t i = 0; i < back.as<float>().size(); ++i) {
      const float scale = packed.scales.as<float>()[i / static_cast<size_t>(group)];
      ASSERT_LE(std::fabs(back.as<float>()[i] - states.as<float>()[i]), 0.50001f * scale)
          << "group " << group << " number " << i;
    }
  }
}

TEST(AnchorCache, RefusesStatesThatAreNotFinite) {
  for (const float wrong : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    Tensor states(DType::f32, {3, 4});
    for (float& x : states.mutable_as<float>()) x = 1;
    states.mutable_as<float>()[9] = wrong;
    test::expect_error(Code::data_loss, "token 2 of the chunk", [&] { pack_states(states, 2); });
  }
}

// ---- batches ----

Tensor states_of(std::span<const int32_t> ids, int64_t hidden) {
  Tensor made(DType::f32, {std::ssize(ids), hidden});
  for (size_t i = 0; i < made.as<float>().size(); ++i) {
    const auto at = i / static_cast<size_t>(hidden);
    made.mutable_as<float>()[i] = static_cast<float>(ids[at]) + 0.25f * static_cast<float>(i);
  }
  return made;
}

std::shared_ptr<Dataset> data_of(const std::vector<std::string>& texts) {
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), Options(dataset_schema()));
  for (const std::string& text : texts) data->add(Json{{"text", text}}.dump());
  return data;
}

std::unique_ptr<Loader> loader_of(const std::shared_ptr<Dataset>& data, const Json& settings) {
  Options options(loader_schema());
  options.set_json({{"batch", 3}, {"length", 8}});
  options.set_json(settings);
  return std::make_unique<Loader>(data, options);
}

// Writes a file for each chunk of a loader. Returns their number.
int64_t write_all(const std::string& folder, Loader& loader) {
  int64_t made = 0;
  while (const auto batch = loader.try_next()) {
    const Tensor &ids = batch->at("ids"), &segments = batch->at("segments");
    const auto seq = static_cast<size_t>(ids.shape()[1]);
    for (int64_t row = 0; row < ids.shape()[0]; ++row) {
      const size_t at = static_cast<size_t>(row) * seq;
      for (const AnchorChunk& chunk : chunks_of(segments.as<int32_t>().subspan(at, seq))) {
        const auto own = ids.as<int32_t>().subspan(at + chunk.begin, chunk.end - chunk.begin);
        write_anchors(folder, own, {{"hidden_layer_2", states_of(own, 4)}});
        ++made;
      }
    }
  }
  write_file_atomic(anchor_manifest(folder),
                    R"({"num_hidden_layers": 2, "hidden_size": 4, "layers": [2]})");
  return made;
}

TEST(AnchorCache, GivesEachChunkItsStates) {
  const auto data = data_of({"abcdefghijkl", "xy", "the cat", "abc", "q"});
  for (const Json& settings :
       {Json{{"pack", true}}, Json{{"pack", false}}, Json{{"pack", false}, {"pad_side", "left"}}}) {
    const Scratch folder;
    EXPECT_GT(write_all(folder.path(), *loader_of(data, settings)), 3);
    Json own = settings;
    own["arrays"] = folder.path();
    const auto loader = loader_of(data, own);
    while (const auto batch = loader->try_next()) {
      const Tensor &ids = batch->at("ids"), &segments = batch->at("segments");
      const Tensor& states = batch->at("hidden_layer_2");
      ASSERT_EQ(states.shape(), (Shape{ids.shape()[0], 8, 4}));
      Tensor wanted(DType::f32, states.shape());
      std::ranges::fill(wanted.mutable_as<float>(), 0.0f);
      for (int64_t row = 0; row < ids.shape()[0]; ++row) {
        const size_t at = static_cast<size_t>(row) * 8;
        for (const AnchorChunk& chunk : chunks_of(segments.as<int32_t>().subspan(at, 8))) {
          const auto tokens = ids.as<int32_t>().subspan(at + chunk.begin, chunk.end - chunk.begin);
          const Tensor part = states_of(tokens, 4);
          std::ranges::copy(part.as<float>(),
                            wanted.mutable_as<float>().begin() +
                                static_cast<std::ptrdiff_t>((at + chunk.begin) * 4));
        }
      }
      EXPECT_TRUE(std::ranges::equal(states.as<float>(), wanted.as<float>())) << settings.dump();
    }
  }
}

TEST(AnchorCache, NamesWhatIsWrong) {
  const Scratch folder;
  const auto data = data_of({"abcdef", "the cat"}), other = data_of({"abcdef", "a stranger"});
  const Json own{{"pack", false}, {"shuffle", false}, {"arrays", folder.path()}};
  EXPECT_NE(test::error_text([&] { loader_of(data, own); }).find("has no manifest.json"),
            std::string::npos);
  write_all(folder.path(), *loader_of(data, {{"pack", false}}));
  EXPECT_EQ(test::error_text([&] { loader_of(data, own)->next(); }), "no error");
  const std::string miss = test::error_text([&] { loader_of(other, own)->next(); });
  EXPECT_NE(miss.find("has no anchors of row 1 \"a strang\": 8 tokens ["), std::string::npos)
      << miss;

  const auto loader = loader_of(data, {{"pack", false}, {"shuffle", false}});
  const Batch batch = loader->next();
  const AnchorChunk chunk = chunks_of(batch.at("segments").as<int32_t>().first(8))[0];
  const auto ids = batch.at("ids").as<int32_t>().first(chunk.end); // with the end of the text
  const auto damaged = [&](ckpt::NamedTensors arrays) {
    write_anchors(folder.path(), ids, std::move(arrays));
    return test::error_text([&] { loader_of(data, own)->next(); });
  };
  EXPECT_NE(damaged({{"hidden_layer_1", states_of(ids, 4)}}).find("hidden_layer_2"),
            std::string::npos);
  EXPECT_NE(damaged({{"hidden_layer_2", states_of(ids, 5)}}).find("expected (7, 4)"),
            std::string::npos);
  EXPECT_NE(damaged({{"hidden_layer_2", states_of(ids.first(5), 4)}}).find("expected (7, 4)"),
            std::string::npos);
  PackedStates packed = pack_states(states_of(ids, 4), 2);
  EXPECT_EQ(damaged({{"hidden_layer_2", packed.numbers}, {"hidden_layer_2.scale", packed.scales}}),
            "no error");
  EXPECT_NE(damaged({{"hidden_layer_2", packed.numbers}}).find("hidden_layer_2.scale"),
            std::string::npos);
  EXPECT_NE(damaged({{"hidden_layer_2", packed.numbers},
                     {"hidden_layer_2.scale", Tensor(DType::f32, {7, 3})}})
                .find("expected (7, groups)"),
            std::string::npos);
  write_anchors(folder.path(), ids.first(5), {{"hidden_layer_2", states_of(ids.first(5), 4)}});
  rename_path(anchor_path(folder.path(), anchor_key(ids.first(5))),
              anchor_path(folder.path(), anchor_key(ids)));
  EXPECT_NE(test::error_text([&] { loader_of(data, own)->next(); }).find("has other tokens"),
            std::string::npos);
  folder.write("manifest.json", R"({"layers": "all"})");
  EXPECT_NE(test::error_text([&] { loader_of(data, own); }).find("expected layers"),
            std::string::npos);
  folder.write("manifest.json", R"({"layers": [1], "hidden_size": 4, "dllm": {"top": "many"}})");
  EXPECT_NE(test::error_text([&] { loader_of(data, own); }).find("dllm.top is not a number"),
            std::string::npos);
}

} // namespace
} // namespace dllm::text
