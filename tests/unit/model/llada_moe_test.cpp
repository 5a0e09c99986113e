// LLaDA-MoE outside the published configuration, against its formulas in plain loops of doubles:
// dense layers, shared experts, fewer heads of K and V, and a router that never divides by the sum.

#include "model_tools.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace dllm::model {
namespace {

using test::expect_error;
using test::model_options;
using test::small_config;
using test::small_engine;
using test::small_ids;

using Row = std::vector<double>;

// One row of tokens through the original's formulas, weights by their names in the file.
class Original {
public:
  explicit Original(const Model& model) : model_(model), c_(model.config()) {}

  // (seq, vocab)
  std::vector<Row> logits(std::span<const int32_t> ids) {
    std::vector<Row> x;
    for (const int32_t id : ids) x.push_back(row("model.embed_tokens.weight", id));
    for (int64_t layer = 0; layer < c_.layers; ++layer)
      step(fmt::format("model.layers.{}.", layer), layer, x);
    std::vector<Row> out;
    for (const Row& state : x)
      out.push_back(product("lm_head.weight", norm("model.norm.weight", state)));
    return out;
  }

private:
  const std::vector<float>& weight(const std::string& name) {
    std::vector<float>& kept = weights_[name];
    if (kept.empty()) {
      const Tensor tensor = model_.params().read(name).to(DType::f32);
      kept.assign(tensor.as<float>().begin(), tensor.as<float>().end());
    }
    return kept;
  }
  Row row(const std::string& name, int64_t index) {
    const auto& all = weight(name);
    const auto first = all.begin() + index * c_.hidden_size;
    return {first, first + c_.hidden_size};
  }
  Row product(const std::string& name, const Row& x) {
    const auto& w = weight(name);
    Row y(w.size() / x.size(), 0.0);
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
    }
    return y;
  }
  Row norm(const std::string& name, const Row& x) {
    const double mean =
        std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size());
    Row y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= weight(name)[i] / std::sqrt(mean + c_.norm_eps);
    return y;
  }
  // Heads of one position, normed and turned.
  std::vector<Row> heads(const std::string& name, const Row& flat, size_t position) {
    const auto dim = static_cast<size_t>(c_.head_dim), half = dim / 2;
    std::vector<Row> made;
    for (size_t h = 0; h < flat.size(); h += dim) {
      Row x = norm(name, Row(flat.begin() + static_cast<int64_t>(h),
                             flat.begin() + static_cast<int64_t>(h + dim)));
      Row y = x;
      for (size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(c_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        y[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
        y[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
      }
      made.push_back(y);
    }
    return made;
  }
  Row network(const std::string& name, const Row& x) {
    Row gate = product(name + "gate_proj.weight", x);
    const Row up = product(name + "up_proj.weight", x);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return product(name + "down_proj.weight", gate);
  }
  Row experts(const std::string& name, const Row& x) {
    Row scores = product(name + "gate.weight", x);
    double total = 0;
    for (double& s : scores) total += s = std::exp(s);
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    Row y(x.size(), 0.0);
    for (int64_t k = 0; k < c_.experts.per_token; ++k) {
      const size_t e = order[static_cast<size_t>(k)];
      add(y, network(fmt::format("{}experts.{}.", name, e), x), scores[e] / total);
    }
    return y;
  }
  static void add(Row& y, const Row& x, double factor = 1) {
    for (size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
  }

  void step(const std::string& at, int64_t layer, std::vector<Row>& x) {
    const auto dim = static_cast<size_t>(c_.head_dim);
    std::vector<std::vector<Row>> q, k;
    std::vector<Row> v;
    for (size_t p = 0; p < x.size(); ++p) {
      const Row z = norm(at + "input_layernorm.weight", x[p]);
      q.push_back(
          heads(at + "self_attn.q_norm.weight", product(at + "self_attn.q_proj.weight", z), p));
      k.push_back(
          heads(at + "self_attn.k_norm.weight", product(at + "self_attn.k_proj.weight", z), p));
      v.push_back(product(at + "self_attn.v_proj.weight", z));
    }
    const auto group = static_cast<size_t>(c_.heads / c_.kv_heads);
    for (size_t p = 0; p < x.size(); ++p) {
      Row seen;
      for (size_t h = 0; h < q[p].size(); ++h) {
        Row weights, mixed(dim, 0.0);
        double total = 0;
        for (size_t o = 0; o < x.size(); ++o) { // full attention
          const Row& key = k[o][h / group];
          const double score = std::inner_product(key.begin(), key.end(), q[p][h].begin(), 0.0);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          total += weights.back();
        }
        for (size_t o = 0; o < x.size(); ++o) {
          for (size_t i = 0; i < dim; ++i)
            mixed[i] += weights[o] / total * v[o][h / group * dim + i];
        }
        seen.insert(seen.end(), mixed.begin(), mixed.end());
      }
      add(x[p], product(at + "self_attn.o_proj.weight", seen));
    }
    for (Row& state : x) {
      const Row z = norm(at + "post_attention_layernorm.weight", state);
      const bool sparse = c_.sparse[static_cast<size_t>(layer)];
      add(state, sparse ? experts(at + "mlp.", z) : network(at + "mlp.", z));
      if (sparse && c_.experts.shared > 0) add(state, network(at + "shared_expert.", z));
    }
  }

  const Model& model_;
  const ModelConfig& c_;
  std::map<std::string, std::vector<float>> weights_;
};

void expect_original(const char* what, const Json& changes) {
  Json config = small_config("lladamoe");
  config["initializer_range"] = 0.6;
  config["shared_expert_intermediate_size"] = nullptr;
  config["num_key_value_heads"] = 4;
  config.update(changes);
  const auto model = new_model(small_engine(), config, model_options({{"seed", "3"}}));
  const Batch batch = small_ids(1, 7, 23);
  const Tensor logits = forward(*model, batch).at("logits");
  const auto wanted = Original(*model).logits(batch.at("ids").as<int32_t>());
  double size = 0, far = 0;
  for (size_t p = 0; p < wanted.size(); ++p) {
    for (size_t i = 0; i < wanted[p].size(); ++i) {
      size = std::max(size, std::abs(wanted[p][i]));
      far = std::max(far, std::abs(logits.as<float>()[p * wanted[p].size() + i] - wanted[p][i]));
    }
  }
  EXPECT_GT(size, 1.0) << what;
  EXPECT_LT(far, 2e-5 * size) << what; // f32 against doubles
}

TEST(LladaMoe, EveryConfigurationIsTheOriginal) {
  const Json dense = {{"moe_layer_freq", {0, 1, 1}}, {"dense_intermediate_size", 20}};
  const Json shared = {{"shared_expert_intermediate_size", 7}};
  expect_original("as published", Json::object());
  expect_original("a dense first layer", dense);
  expect_original("dense in between",
                  {{"moe_layer_freq", {1, 0, 1}}, {"dense_intermediate_size", 12}});
  expect_original("shared experts", shared);
  expect_original("fewer heads of K and V", {{"num_key_value_heads", 2}});
  expect_original("one head of K and V", {{"num_key_value_heads", 1}});
  expect_original("norm_topk_prob", {{"norm_topk_prob", true}});
  Json all = dense;
  all.update(shared);
  all.update({{"num_key_value_heads", 1}, {"norm_topk_prob", true}, {"num_experts_per_tok", 3}});
  expect_original("all of them", all);
}

// The original ignores norm_topk_prob; the key stays in the file.
TEST(LladaMoe, DefaultsAndKeysAreTheOriginals) {
  Json words = small_config("lladamoe");
  words["norm_topk_prob"] = true;
  words.erase("max_position_embeddings");
  const ModelConfig config = config_from_json(words, "config.json");
  EXPECT_FALSE(config.experts.normalize);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_EQ(config.max_positions, 4096);
  EXPECT_EQ(config_to_json(config)["norm_topk_prob"], true);
}

TEST(LladaMoe, WhatTheOriginalDoesNotHaveIsRefused) {
  const auto refused = [](const char* key, const Json& value) {
    Json config = small_config("lladamoe");
    config[key] = value;
    const Error error = test::error_of([&] { config_from_json(config, "config.json"); });
    EXPECT_NE(error.text().find(key), std::string::npos) << error.text();
  };
  refused("head_dim", 6);
  refused("moe_router_enable_expert_bias", true);
  refused("moe_router_score_function", "sigmoid");
  refused("clip_qkv", 8.0);
  refused("router_num_group", 2);
  refused("routed_scaling_factor", 2.5);
}

} // namespace
} // namespace dllm::model
