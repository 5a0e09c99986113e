#pragma once
// Models with experts in plain loops of doubles, written from the formulas alone: what the engine's
// logits are held against where there is no golden file.

#include "unit/model/model_tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace dllm::model {

// One row of tokens through the formulas of Hugging Face's code, weights by their names in the
// file.
class PlainModel {
public:
  using Row = std::vector<double>;

  explicit PlainModel(const Model& model)
      : model_(model), c_(model.config()),
        shared_(c_.family == "llada-moe" ? "shared_expert." : "mlp.shared_expert.") {}

  // (seq, vocab)
  std::vector<Row> logits(std::span<const int32_t> ids) {
    std::vector<Row> x;
    for (const int32_t id : ids) x.push_back(row("model.embed_tokens.weight", id));
    for (int64_t layer = 0; layer < c_.layers; ++layer)
      step(fmt::format("model.layers.{}.", layer), layer, x);
    std::vector<Row> out;
    for (const Row& state : x) out.push_back(product("lm_head.", norm("model.norm.weight", state)));
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
  // With a bias where the model has one: name is without "weight".
  Row product(const std::string& name, const Row& x, bool bias = false) {
    const auto& w = weight(name + "weight");
    Row y(w.size() / x.size(), 0.0);
    if (bias) y.assign(weight(name + "bias").begin(), weight(name + "bias").end());
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
      Row x(flat.begin() + static_cast<int64_t>(h), flat.begin() + static_cast<int64_t>(h + dim));
      if (c_.qk_norm) x = norm(name, x);
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
    Row gate = product(name + "gate_proj.", x);
    const Row up = product(name + "up_proj.", x);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return product(name + "down_proj.", gate);
  }
  Row experts(const std::string& name, const Row& x) {
    Row scores = product(name + "gate.", x);
    double total = 0;
    for (double& s : scores) total += s = std::exp(s);
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    Row y(x.size(), 0.0);
    double chosen = 0;
    for (int64_t k = 0; k < c_.experts.per_token; ++k) {
      const size_t e = order[static_cast<size_t>(k)];
      add(y, network(fmt::format("{}experts.{}.", name, e), x), scores[e] / total);
      chosen += scores[e] / total;
    }
    for (double& value : y) value /= c_.experts.normalize ? chosen : 1.0;
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
      const auto projected = [&](const char* name) {
        return product(at + "self_attn." + name + "_proj.", z, c_.qkv_bias);
      };
      q.push_back(heads(at + "self_attn.q_norm.weight", projected("q"), p));
      k.push_back(heads(at + "self_attn.k_norm.weight", projected("k"), p));
      v.push_back(projected("v"));
    }
    const auto group = static_cast<size_t>(c_.heads / c_.kv_heads);
    for (size_t p = 0; p < x.size(); ++p) {
      Row seen;
      for (size_t h = 0; h < q[p].size(); ++h) {
        Row weights, mixed(dim, 0.0);
        double total = 0;
        const size_t seen_by = c_.attention == AttentionKind::causal ? p + 1 : x.size();
        for (size_t o = 0; o < seen_by; ++o) {
          const Row& key = k[o][h / group];
          const double score = std::inner_product(key.begin(), key.end(), q[p][h].begin(), 0.0);
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
          total += weights.back();
        }
        for (size_t o = 0; o < seen_by; ++o) {
          for (size_t i = 0; i < dim; ++i)
            mixed[i] += weights[o] / total * v[o][h / group * dim + i];
        }
        seen.insert(seen.end(), mixed.begin(), mixed.end());
      }
      add(x[p], product(at + "self_attn.o_proj.", seen));
    }
    for (Row& state : x) {
      const Row z = norm(at + "post_attention_layernorm.weight", state);
      const bool sparse = c_.sparse[static_cast<size_t>(layer)];
      add(state, sparse ? experts(at + "mlp.", z) : network(at + "mlp.", z));
      if (sparse && c_.experts.shared > 0) add(state, network(at + shared_, z), shared_part(at, z));
    }
  }

  double shared_part(const std::string& at, const Row& x) {
    if (!c_.experts.shared_gate) return 1;
    return 1 / (1 + std::exp(-product(at + "mlp.shared_expert_gate.", x).front()));
  }

  const Model& model_;
  const ModelConfig& c_;
  const std::string shared_;
  std::map<std::string, std::vector<float>> weights_;
};

// The engine's logits of a row are those of the formulas.
inline void expect_plain(const char* what, Model& model) {
  const Batch batch = test::small_ids(1, 7, 23);
  const Tensor logits = forward(model, batch).at("logits");
  const auto wanted = PlainModel(model).logits(batch.at("ids").as<int32_t>());
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

} // namespace dllm::model
