// The definitions of fused operations against formulas written out by hand.

#include "graph/ops.h"
#include "unit/graph/case_builder.h"
#include "unit/graph/op_cases.h"
#include "unit/graph/reference_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace dllm::graph::test {
namespace {

// Runs the cases of one operation against fn(case, inputs as doubles) -> expected outputs.
using Numbers = std::vector<double>;
using Expected = std::vector<Numbers>;
using Formula = std::function<Expected(const OpCase&, const std::vector<Numbers>&)>;

void check_cases(const std::string& op, const Formula& formula) {
  int checked = 0;
  for (const OpCase& c : op_cases()) {
    if (c.op != op) continue;
    std::vector<Numbers> inputs;
    for (const Tensor& x : c.inputs) {
      const Tensor wide = x.to(DType::f64);
      inputs.emplace_back(wide.as<double>().begin(), wide.as<double>().end());
    }
    const Expected wanted = formula(c, inputs);
    if (wanted.empty()) continue;
    const auto got = evaluate(*c.graph, c.inputs);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Tensor wide = got[i].to(DType::f64);
      const auto values = wide.as<double>();
      ASSERT_EQ(values.size(), wanted[i].size()) << c.label;
      for (size_t e = 0; e < values.size(); ++e) {
        if (values[e] == wanted[i][e]) continue; // infinities
        EXPECT_NEAR(values[e], wanted[i][e], 1e-6)
            << c.label << " output " << i << " element " << e;
      }
    }
    ++checked;
  }
  EXPECT_GT(checked, 0) << op;
}

size_t at(size_t i, size_t n, size_t j) {
  return i * n + j;
}

TEST(Definitions, RmsNorm) {
  check_cases("rms_norm", [](const OpCase&, const std::vector<Numbers>& in) {
    Numbers y(in[0].size());
    for (size_t row = 0; row < y.size() / 17; ++row) {
      double square = 0;
      for (size_t j = 0; j < 17; ++j) square += in[0][at(row, 17, j)] * in[0][at(row, 17, j)];
      const double r = 1 / std::sqrt(square / 17 + 1e-5);
      for (size_t j = 0; j < 17; ++j)
        y[at(row, 17, j)] = in[0][at(row, 17, j)] * r * (in.size() > 1 ? in[1][j] : 1);
    }
    return Expected{y};
  });
}

TEST(Definitions, LayerNorm) {
  check_cases("layer_norm", [](const OpCase&, const std::vector<Numbers>& in) {
    Numbers y(in[0].size());
    for (size_t row = 0; row < y.size() / 17; ++row) {
      const double* x = in[0].data() + row * 17;
      const double mean = std::accumulate(x, x + 17, 0.0) / 17;
      double variance = 0;
      for (size_t j = 0; j < 17; ++j) variance += (x[j] - mean) * (x[j] - mean) / 17;
      for (size_t j = 0; j < 17; ++j) {
        y[at(row, 17, j)] = (x[j] - mean) / std::sqrt(variance + 1e-5);
        if (in.size() > 1) y[at(row, 17, j)] = y[at(row, 17, j)] * in[1][j] + in[2][j];
      }
    }
    return Expected{y};
  });
}

TEST(Definitions, Linear) {
  check_cases("linear", [](const OpCase& c, const std::vector<Numbers>& in) {
    const auto k = static_cast<size_t>(c.inputs[1].shape().dim(1)),
               n = static_cast<size_t>(c.inputs[1].shape().dim(0));
    const size_t rows = in[0].size() / k;
    Numbers y(rows * n);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t p = 0; p < k; ++p) sum += in[0][at(r, k, p)] * in[1][at(j, k, p)];
        if (in.size() > 3) sum *= in[3][j];
        y[at(r, n, j)] = sum + (in.size() > 2 ? in[2][j] : 0);
      }
    }
    return Expected{y};
  });
}

double activation_at(double x, const std::string& kind) {
  if (kind == "silu") return x / (1 + std::exp(-x));
  if (kind == "gelu") return x / 2 * std::erfc(-x / std::sqrt(2.0));
  if (kind == "gelu_tanh")
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return std::max(x, 0.0);
}

TEST(Definitions, Activations) {
  for (const bool gated : {false, true}) {
    check_cases(gated ? "gated_activation" : "activation",
                [&](const OpCase& c, const std::vector<Numbers>& in) {
                  const std::string kind = c.label.substr(c.label.find('/') + 1);
                  Numbers y;
                  for (size_t i = 0; i < in[0].size(); ++i)
                    y.push_back(activation_at(in[0][i], kind) * (gated ? in[1][i] : 1));
                  return Expected{y};
                });
  }
}

TEST(Definitions, RopeTurnsPairs) {
  Graph graph;
  const Value x = graph.input("x", DType::f32, {1, 1, 1, 6}),
              p = graph.input("p", DType::i32, {1, 1});
  const Value freq = graph.input("f", DType::f32, {2});
  graph.output("half", rope(x, p, freq));
  graph.output("interleaved", rope(x, p, freq, true, 2.0f));
  const auto out =
      evaluate(graph, {Tensor::from(Shape{1, 1, 1, 6}, std::vector<float>{1, 2, 3, 4, 5, 6}),
                       Tensor::from(Shape{1, 1}, std::vector<int32_t>{3}),
                       Tensor::from(Shape{2}, std::vector<float>{0.5f, 0.25f})});
  const double c0 = std::cos(1.5), s0 = std::sin(1.5), c1 = std::cos(0.75), s1 = std::sin(0.75);
  const Numbers half{c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1, 5, 6};
  const Numbers pairs{
      2 * (c0 - 2 * s0), 2 * (2 * c0 + s0), 2 * (3 * c1 - 4 * s1), 2 * (4 * c1 + 3 * s1), 5, 6};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(out[0].as<double>()[i], half[i], 1e-12);
    EXPECT_NEAR(out[1].as<double>()[i], pairs[i], 1e-12);
  }
}

// Visibility written out per pair, from the sentences of mask.h.
bool sees(const std::string& label, const std::vector<Numbers>& in, size_t b, int q, int k) {
  const auto param = [&](size_t i, size_t e) { return static_cast<int>(in[i][e]); };
  if (label.find("causal+start") == 0) return k <= q + param(3, b);
  if (label.find("causal+window+segments") == 0) {
    return k <= q && q - k <= param(3, 0) &&
           param(4, b * 5 + static_cast<size_t>(q)) == param(5, b * 6 + static_cast<size_t>(k));
  }
  if (label.find("causal") == 0) return k <= q;
  if (label.find("block_causal") == 0) return k / 2 <= q / 2;
  if (label.find("two_stream") == 0) {
    const bool noised_q = q < 3, noised_k = k < 3;
    const int block_q = (noised_q ? q : q - 3) / 2, block_k = (noised_k ? k : k - 3) / 2;
    if (noised_q) return noised_k ? block_k == block_q : block_k < block_q;
    return !noised_k && block_k <= block_q;
  }
  if (label.find("key_range") == 0) return k >= param(3, b) && k < param(4, b);
  if (label.find("key_limit") == 0) return k < param(3, b * 5 + static_cast<size_t>(q));
  if (label.find("key_keep") == 0) return in[3][b * 6 + static_cast<size_t>(k)] != 0;
  if (label.find("dense") == 0)
    return in[3][(b * 5 + static_cast<size_t>(q)) * 6 + static_cast<size_t>(k)] != 0;
  return true;
}

TEST(Definitions, Attention) {
  check_cases("attention", [](const OpCase& c, const std::vector<Numbers>& in) {
    const std::string label = c.label.substr(c.label.find('/') + 1);
    if (label == "long" || label.rfind("log sum exp", 0) == 0) return Expected{}; // other shapes
    const bool average = label.find("average") != std::string::npos;
    constexpr size_t kQueries = 5, kKeys = 6, kHeads = 4, kKvHeads = 2, kDim = 3, kVdim = 5;
    Numbers out(2 * kQueries * kHeads * kVdim), lse(2 * kHeads * kQueries);
    for (size_t b = 0; b < 2; ++b) {
      for (size_t h = 0; h < kHeads; ++h) {
        for (size_t q = 0; q < kQueries; ++q) {
          Numbers weight(kKeys);
          double total = 0;
          for (size_t k = 0; k < kKeys; ++k) {
            double s = 0;
            for (size_t d = 0; d < kDim; ++d) {
              s += in[0][((b * kQueries + q) * kHeads + h) * kDim + d] *
                   in[1][((b * kKeys + k) * kKvHeads + h / 2) * kDim + d];
            }
            s *= static_cast<double>(0.4f);
            if (average) s = 3 * std::tanh(s / 3);
            weight[k] =
                sees(label, in, b, static_cast<int>(q), static_cast<int>(k)) ? std::exp(s) : 0;
            total += weight[k];
          }
          lse[(b * kHeads + h) * kQueries + q] = std::log(total);
          for (size_t k = 0; k < kKeys; ++k) {
            const double p = total > 0 ? weight[k] / total : average ? 1.0 / kKeys : 0;
            for (size_t d = 0; d < kVdim; ++d) {
              out[((b * kQueries + q) * kHeads + h) * kVdim + d] +=
                  p * in[2][((b * kKeys + k) * kKvHeads + h / 2) * kVdim + d];
            }
          }
        }
      }
    }
    return Expected{out, lse};
  });
}

// Logits of a head case: x, weight, then bias, scale in the order of the builder (bias before
// scale).
std::vector<Numbers> logits_of(const OpCase& c, const std::vector<Numbers>& in) {
  const bool bias =
      c.label.find("bias") != std::string::npos || c.label.find("i8") != std::string::npos;
  const bool scale = c.label.find("i8") != std::string::npos;
  std::vector<Numbers> rows(6, Numbers(11));
  for (size_t r = 0; r < 6; ++r) {
    for (size_t v = 0; v < 11; ++v) {
      for (size_t d = 0; d < 3; ++d) rows[r][v] += in[0][r * 3 + d] * in[1][v * 3 + d];
      if (scale) rows[r][v] *= in[3][v];
      if (bias) rows[r][v] += in[2][v];
      if (c.label.find("softcap") != std::string::npos) rows[r][v] = 3 * std::tanh(rows[r][v] / 3);
    }
  }
  return rows;
}

double log_sum(const Numbers& logits) {
  double sum = 0;
  for (double l : logits) sum += std::exp(l);
  return std::log(sum);
}

bool has_count(const OpCase& c) {
  for (const char* label : {"count", "bf16", "softcap"}) {
    if (c.label.find(label) != std::string::npos) return true;
  }
  return false;
}

TEST(Definitions, LinearCrossEntropy) {
  check_cases("linear_cross_entropy", [](const OpCase& c, const std::vector<Numbers>& in) {
    const auto logits = logits_of(c, in);
    const int targets[] = {0, 10, -1, 4, 11, 7};
    Numbers nll(6), lse(6);
    for (size_t r = 0; r < 6; ++r) {
      if (targets[r] < 0 || targets[r] > 10 || (has_count(c) && r >= 5)) continue;
      lse[r] = log_sum(logits[r]);
      nll[r] = lse[r] - logits[r][static_cast<size_t>(targets[r])];
    }
    return Expected{nll, lse};
  });
}

struct Draw {
  double temperature;
  int top_k;
  double top_p, uniform;
  bool nucleus_first = false;
};

// What the filters leave, in ascending order, with the weight of every id.
struct Kept {
  std::vector<size_t> ids;
  Numbers weight;
};

// The procedure of ops/README.md, step by step; temperature <= 0 counts as 1.
Kept kept_of(const Numbers& logits, size_t best, const Draw& d) {
  const double temperature = d.temperature > 0 ? d.temperature : 1;
  std::vector<size_t> order;
  for (size_t v = 0; v < logits.size(); ++v) {
    if (std::isfinite(logits[v])) order.push_back(v);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const auto cut = [&] {
    if (d.top_k > 0 && order.size() > static_cast<size_t>(d.top_k))
      order.resize(static_cast<size_t>(d.top_k));
  };
  if (!d.nucleus_first) cut();
  Numbers weight(logits.size());
  double total = 0;
  for (size_t v : order) total += weight[v] = std::exp((logits[v] - logits[best]) / temperature);
  if (d.top_p < 1) {
    double before = 0;
    size_t kept = 0;
    for (size_t v : order) {
      if (kept > 0 && before / total >= d.top_p) break;
      before += weight[v];
      ++kept;
    }
    order.resize(kept);
  }
  if (d.nucleus_first) cut();
  std::sort(order.begin(), order.end());
  return {order, weight};
}

size_t draw_of(const Kept& kept, double uniform) {
  const auto& [order, weight] = kept;
  double mass = 0, running = 0;
  for (size_t v : order) mass += weight[v];
  for (size_t v : order) {
    running += weight[v];
    if (running > uniform * mass) return v;
  }
  return order.back();
}

TEST(Definitions, TokenStatistics) {
  check_cases("token_statistics", [](const OpCase& c, const std::vector<Numbers>& in) {
    auto logits = logits_of(c, in);
    const bool count = has_count(c);
    const double temperature[] = {0, 1, static_cast<double>(0.7f), 1.5, 1, 1};
    const int top_k[] = {0, 0, 3, 0, 4, 1};
    const double top_p[] = {1, 1, 1, 0.5, static_cast<double>(0.8f), static_cast<double>(0.01f)};
    const Numbers& uniform = in[in.size() - (count ? 2 : 1)];
    Numbers best_ids(6), best_p(6), lses(6), entropies(6), top_ids(18), top_probs(18), draws(6),
        draw_p(6), shaped_p(6), margin(6), shaped_entropy(6);
    const bool nucleus_first =
        c.label.find("bias") != std::string::npos || c.label.find("i8") != std::string::npos;
    for (size_t r = 0; r < 6; ++r) {
      if (count && r >= 5) continue;
      if (count) {
        for (size_t v : {1, 4, 5, 9}) logits[r][v] = -INFINITY;
        if (c.label.find("own bans") != std::string::npos) logits[r][r + 2] = -INFINITY;
      }
      const Numbers& l = logits[r];
      const auto best = static_cast<size_t>(std::max_element(l.begin(), l.end()) - l.begin());
      lses[r] = log_sum(l);
      best_ids[r] = static_cast<double>(best);
      best_p[r] = std::exp(l[best] - lses[r]);
      std::vector<size_t> order(11);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return l[a] > l[b]; });
      for (size_t i = 0; i < 3; ++i) {
        top_ids[r * 3 + i] = static_cast<double>(order[i]);
        top_probs[r * 3 + i] = std::exp(l[order[i]] - lses[r]);
      }
      for (double logit : l) {
        const double p = std::exp(logit - lses[r]);
        if (p > 0) entropies[r] -= p * std::log(p);
      }
      const Kept kept =
          kept_of(l, best, {temperature[r], top_k[r], top_p[r], uniform[r], nucleus_first});
      const size_t draw = temperature[r] <= 0 ? best : draw_of(kept, uniform[r]);
      double mass = 0;
      Numbers p;
      for (size_t v : kept.ids) mass += kept.weight[v];
      for (size_t v : kept.ids) p.push_back(kept.weight[v] / mass);
      shaped_p[r] = kept.weight[draw] / mass;
      for (double x : p) shaped_entropy[r] -= x * std::log(x);
      std::sort(p.rbegin(), p.rend());
      margin[r] = p[0] - (p.size() > 1 ? p[1] : 0);
      draws[r] = static_cast<double>(draw);
      draw_p[r] = std::exp(l[draw] - lses[r]);
    }
    return Expected{best_ids, best_p, lses,     entropies, top_ids,       top_probs,
                    draws,    draw_p, shaped_p, margin,    shaped_entropy};
  });
}

TEST(Definitions, AdamW) {
  check_cases("adamw_update", [](const OpCase& c, const std::vector<Numbers>& in) {
    const bool decay = c.label.find("no decay") == std::string::npos;
    const Numbers& s = in[0];
    Numbers p, m, v;
    for (size_t i = 0; i < in[1].size(); ++i) {
      const double g = in[c.inputs.size() - 3][i] * s[7];
      m.push_back(s[1] * in[c.inputs.size() - 2][i] + (1 - s[1]) * g);
      v.push_back(s[2] * in[c.inputs.size() - 1][i] + (1 - s[2]) * g * g);
      const double x = in[1][i];
      p.push_back(x -
                  s[0] * (m[i] / s[5] / (std::sqrt(v[i] / s[6]) + s[3]) + (decay ? s[4] * x : 0)));
    }
    return Expected{p, m, v};
  });
}

} // namespace
} // namespace dllm::graph::test
