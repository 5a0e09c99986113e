// linear_cross_entropy, its gradient and token_statistics against the definition in double.

#include "cpu/kernel.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::cpu {
namespace {

using Doubles = std::vector<double>;

void expect_near(const Tensor& got, const Doubles& expected, double tolerance,
                 const std::string& what) {
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance * (1.0 + std::abs(expected[i])))
        << what << " element " << i;
  }
}

void expect_invariant(KernelSetup setup) {
  const std::vector<Tensor> first = run_kernel(setup);
  for_each_simd_target([&](const char* target) {
    for (int threads : {1, 2, 4}) {
      setup.threads = threads;
      EXPECT_TRUE(same_bits(run_kernel(setup), first)) << target << ", " << threads << " threads";
    }
  });
}

// x (rows, in), weight (vocab, in) of one storage type, bias, scale (only i8).
struct HeadCase {
  int64_t rows, in, vocab;
  Tensor x, weight, bias, scale;
  bool has_scale;

  HeadCase(int64_t rows_in, int64_t in_in, int64_t vocab_in, DType dtype)
      : rows(rows_in), in(in_in), vocab(vocab_in), x(random_tensor({rows, in}, 1, 2)),
        bias(random_tensor({vocab}, 3)), scale(random_tensor({vocab}, 4, 0.01f)),
        has_scale(dtype == DType::i8) {
    if (!has_scale) {
      weight = random_tensor({vocab, in}, 2).to(dtype);
      return;
    }
    weight = Tensor(DType::i8, {vocab, in});
    auto bytes = weight.mutable_as<int8_t>();
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<int8_t>(static_cast<int>(i * 37 % 255) - 127);
  }

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> made = {x, weight, bias};
    if (has_scale) made.push_back(scale);
    return made;
  }
  Doubles weights() const {
    Doubles w = doubles(weight.to(DType::f32));
    const Doubles s = doubles(scale);
    for (size_t i = 0; has_scale && i < w.size(); ++i) w[i] *= s[i / in];
    return w;
  }
  Doubles logits() const {
    const Doubles v = doubles(x), w = weights(), b = doubles(bias);
    Doubles z(static_cast<size_t>(rows * vocab));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < vocab; ++j) {
        double sum = b[j];
        for (int64_t i = 0; i < in; ++i) sum += v[r * in + i] * w[j * in + i];
        z[r * vocab + j] = sum;
      }
    }
    return z;
  }
};

double log_sum_exp(const double* z, int64_t n) {
  const double most = *std::max_element(z, z + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(z[i] - most);
  return most + std::log(sum);
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::i8};

TEST(LinearCrossEntropy, ValueAndGradientEqualTheDefinition) {
  for (DType dtype : kTypes) {
    for (const auto& [rows, vocab] : {std::pair<int64_t, int64_t>{1, 3}, {23, 100}, {9, 1300}}) {
      const HeadCase head(rows, 20, vocab, dtype);
      const std::string what = std::string(dtype_name(dtype)) + ' ' + std::to_string(vocab);
      std::vector<int32_t> targets;
      for (int64_t r = 0; r < rows; ++r)
        targets.push_back(r % 4 == 2 ? -100 : static_cast<int32_t>(r * 97 % vocab));
      const int64_t count = rows - rows / 5;
      const Doubles z = head.logits(), v = doubles(head.x), w = head.weights(),
                    s = doubles(head.scale);
      const Tensor dnll = random_tensor({rows}, 8);
      const Doubles dn = doubles(dnll);
      Doubles nll(rows), lse(rows), dx(rows * 20), dw(vocab * 20), db(vocab);
      for (int64_t r = 0; r < count; ++r) {
        if (targets[r] < 0) continue;
        lse[r] = log_sum_exp(&z[r * vocab], vocab);
        nll[r] = lse[r] - z[r * vocab + targets[r]];
        for (int64_t j = 0; j < vocab; ++j) {
          const double g = (std::exp(z[r * vocab + j] - lse[r]) - (j == targets[r])) * dn[r];
          db[j] += g;
          for (int64_t i = 0; i < 20; ++i) {
            dx[r * 20 + i] += g * w[j * 20 + i];
            dw[j * 20 + i] += g * v[r * 20 + i] * (head.has_scale ? s[j] : 1.0);
          }
        }
      }
      KernelSetup setup{find_kernel("linear_cross_entropy"),
                        head.inputs(),
                        {f32_type({rows}), f32_type({rows})},
                        {{"has_bias", true},
                         {"has_scale", head.has_scale},
                         {"has_count", true},
                         {"softcap", 0.0}}};
      setup.inputs.push_back(Tensor::from(Shape{rows}, targets));
      setup.inputs.push_back(Tensor::scalar<int32_t>(static_cast<int32_t>(count)));
      const std::vector<Tensor> got = run_kernel(setup);
      expect_near(got[0], nll, 2e-6, what + " nll");
      expect_near(got[1], lse, 2e-6, what + " lse");
      expect_invariant(setup);

      setup.factory = find_kernel("linear_cross_entropy_grad");
      setup.inputs.push_back(got[1]);
      setup.inputs.push_back(dnll);
      setup.outputs = {f32_type({rows, 20}), f32_type({vocab, 20}), f32_type({vocab})};
      setup.attributes.set("want_weight", true);
      setup.attributes.set("want_bias", true);
      const std::vector<Tensor> grads = run_kernel(setup);
      expect_near(grads[0], dx, 5e-6, what + " dx");
      expect_near(grads[1], dw, 5e-6, what + " dweight");
      expect_near(grads[2], db, 5e-6, what + " dbias");
      expect_invariant(setup);
      setup.keeps_forms.assign(setup.inputs.size(), false);
      setup.keeps_forms[1] = true;
      EXPECT_TRUE(same_bits(run_kernel(setup), grads)) << what << " kept forms";
    }
  }
}

TEST(LinearCrossEntropy, ARowDoesNotDependOnItsNeighbours) {
  const HeadCase head(40, 16, 2100, DType::f32);
  std::vector<int32_t> targets(40);
  for (int32_t r = 0; r < 40; ++r) targets[r] = r * 50;
  KernelSetup setup{
      find_kernel("linear_cross_entropy"),
      head.inputs(),
      {f32_type({40}), f32_type({40})},
      {{"has_bias", true}, {"has_scale", false}, {"has_count", false}, {"softcap", 0.0}}};
  setup.inputs.push_back(Tensor::from(Shape{40}, targets));
  const std::vector<Tensor> whole = run_kernel(setup);
  for (int64_t r = 0; r < 40; ++r) {
    KernelSetup one = setup;
    one.inputs[0] = head.x.rows(r, r + 1);
    one.inputs[3] = Tensor::from(Shape{1}, std::vector<int32_t>{targets[r]});
    one.outputs = {f32_type({1}), f32_type({1})};
    const std::vector<Tensor> alone = run_kernel(one);
    EXPECT_TRUE(same_bits(alone[0], whole[0].rows(r, r + 1))) << "row " << r;
  }
}

// --- token statistics ---

struct Draw {
  float temperature;
  int32_t top_k;
  float top_p;
  float uniform;
};

// Ids kept by the filters, in ascending order, with the weights of z = logit / temperature.
int64_t draw_id(const Doubles& z, const Draw& d) {
  const int64_t vocab = static_cast<int64_t>(z.size());
  const double most = *std::max_element(z.begin(), z.end());
  if (d.temperature <= 0) return std::max_element(z.begin(), z.end()) - z.begin();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < vocab; ++i) {
    if (std::isfinite(z[i])) ids.push_back(i);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return z[a] > z[b]; });
  if (d.top_k > 0 && d.top_k < static_cast<int64_t>(ids.size())) ids.resize(d.top_k);
  const auto weight = [&](int64_t i) { return std::exp((z[i] - most) / d.temperature); };
  double total = 0, before = 0;
  for (int64_t i : ids) total += weight(i);
  size_t keep = 0;
  while (keep < ids.size() && (keep == 0 || d.top_p >= 1 || before < d.top_p * total))
    before += weight(ids[keep++]);
  ids.resize(keep);
  std::sort(ids.begin(), ids.end());
  total = 0;
  for (int64_t i : ids) total += weight(i);
  double running = 0;
  for (int64_t i : ids) {
    running += weight(i);
    if (running > d.uniform * total) return i;
  }
  return ids.back();
}

TEST(TokenStatistics, EqualTheDefinition) {
  for (DType dtype : kTypes) {
    for (int64_t vocab : {5, 100, 3000}) {
      const int64_t rows = 24, count = 21, top = 7;
      const HeadCase head(rows, 12, vocab, dtype);
      std::vector<Draw> draws;
      for (int64_t r = 0; r < rows; ++r) {
        draws.push_back({r % 5 == 0 ? 0.0f : 0.3f * static_cast<float>(r % 4 + 1),
                         r % 3 == 0 ? 0 : static_cast<int32_t>(r),
                         r % 2 == 0 ? 1.0f : 0.05f * static_cast<float>(r % 19),
                         static_cast<float>(r * 17 % 29) / 29.0f});
      }
      std::vector<float> temperature, top_p, uniform;
      std::vector<int32_t> top_k;
      for (const Draw& d : draws) {
        temperature.push_back(d.temperature), top_k.push_back(d.top_k), top_p.push_back(d.top_p);
        uniform.push_back(d.uniform);
      }
      std::vector<uint8_t> banned(vocab, 0);
      banned[1] = banned[4] = 1;
      KernelSetup setup{find_kernel("token_statistics"),
                        head.inputs(),
                        {},
                        {{"has_bias", true},
                         {"has_scale", head.has_scale},
                         {"has_count", true},
                         {"softcap", 0.0},
                         {"has_noise", false},
                         {"has_banned", true},
                         {"filters", std::string("top_k,top_p")},
                         {"shaped", true},
                         {"top", top}}};
      setup.inputs.push_back(Tensor::scalar<int32_t>(count));
      setup.inputs.push_back(Tensor::from(Shape{rows}, temperature));
      setup.inputs.push_back(Tensor::from(Shape{rows}, top_k));
      setup.inputs.push_back(Tensor::from(Shape{rows}, top_p));
      setup.inputs.push_back(Tensor::from(Shape{rows}, uniform));
      setup.inputs.push_back(Tensor::from(Shape{vocab}, banned));
      setup.outputs = {i32_type({rows}), f32_type({rows}),      f32_type({rows}),
                       f32_type({rows}), i32_type({rows, top}), f32_type({rows, top}),
                       i32_type({rows}), f32_type({rows}),      f32_type({rows}),
                       f32_type({rows}), f32_type({rows})};
      const std::vector<Tensor> got = run_kernel(setup);
      const Doubles all = head.logits();
      Doubles max_prob(rows), lse(rows), entropy(rows), top_probs(rows * top), draw_prob(rows);
      for (int64_t r = 0; r < rows; ++r) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " vocab " << vocab << " row " << r);
        if (r >= count) {
          EXPECT_EQ(got[0].as<int32_t>()[r], 0);
          EXPECT_EQ(got[6].as<int32_t>()[r], 0);
          continue;
        }
        Doubles z(all.begin() + r * vocab, all.begin() + (r + 1) * vocab);
        for (int64_t i = 0; i < vocab; ++i) z[i] = banned[i] ? -INFINITY : z[i];
        lse[r] = log_sum_exp(z.data(), vocab);
        std::vector<int32_t> order;
        for (int64_t i = 0; i < vocab; ++i) {
          if (banned[i]) continue;
          order.push_back(static_cast<int32_t>(i));
          entropy[r] -= std::exp(z[i] - lse[r]) * (z[i] - lse[r]);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return z[a] > z[b]; });
        EXPECT_EQ(got[0].as<int32_t>()[r], order[0]);
        max_prob[r] = std::exp(z[order[0]] - lse[r]);
        for (size_t i = 0; i < static_cast<size_t>(top); ++i) {
          EXPECT_EQ(got[4].as<int32_t>()[r * top + i], i < order.size() ? order[i] : 0) << i;
          top_probs[r * top + i] = i < order.size() ? std::exp(z[order[i]] - lse[r]) : 0.0;
        }
        const int64_t id = draw_id(z, draws[r]);
        EXPECT_EQ(got[6].as<int32_t>()[r], id);
        draw_prob[r] = std::exp(z[id] - lse[r]);
      }
      const std::string what = std::string(dtype_name(dtype)) + ' ' + std::to_string(vocab);
      expect_near(got[1], max_prob, 5e-6, what + " max_prob");
      expect_near(got[2], lse, 2e-6, what + " lse");
      expect_near(got[3], entropy, 1e-5, what + " entropy");
      expect_near(got[5], top_probs, 5e-6, what + " top_probs");
      expect_near(got[7], draw_prob, 5e-6, what + " draw_prob");
      expect_invariant(setup);
    }
  }
}

TEST(TokenStatistics, ManyDrawsFollowTheDistribution) {
  const int64_t rows = 4000, vocab = 6;
  const HeadCase one(1, 4, vocab, DType::f32);
  std::vector<float> x, uniform;
  for (int64_t r = 0; r < rows; ++r) {
    for (float value : one.x.as<float>()) x.push_back(value);
    uniform.push_back((static_cast<float>(r) + 0.5f) / rows);
  }
  const Shape column{rows};
  KernelSetup setup{find_kernel("token_statistics"),
                    {Tensor::from(Shape{rows, 4}, x), one.weight, one.bias,
                     Tensor::from(column, std::vector<float>(rows, 1.0f)),
                     Tensor::from(column, std::vector<int32_t>(rows, 0)),
                     Tensor::from(column, std::vector<float>(rows, 1.0f)),
                     Tensor::from(column, uniform)},
                    {i32_type(column), f32_type(column), f32_type(column), f32_type(column),
                     i32_type({rows, 0}), f32_type({rows, 0}), i32_type(column), f32_type(column),
                     f32_type(column), f32_type(column), f32_type(column)},
                    {{"has_bias", true},
                     {"has_scale", false},
                     {"has_count", false},
                     {"softcap", 0.0},
                     {"has_noise", false},
                     {"has_banned", false},
                     {"filters", std::string("top_k,top_p")},
                     {"shaped", false},
                     {"top", int64_t{0}}}};
  const std::vector<Tensor> got = run_kernel(setup);
  const Doubles z = one.logits();
  const double lse = log_sum_exp(z.data(), vocab);
  Doubles seen(vocab);
  for (int32_t id : got[6].as<int32_t>()) seen[id] += 1.0 / rows;
  for (int64_t i = 0; i < vocab; ++i)
    EXPECT_NEAR(seen[i], std::exp(z[i] - lse), 1.0 / rows) << "id " << i;
}

TEST(TokenStatistics, EveryIdBannedGivesZeros) {
  const HeadCase head(2, 4, 20, DType::f32);
  const Shape column{2};
  const KernelSetup setup{find_kernel("token_statistics"),
                          {head.x, head.weight, Tensor::from(column, std::vector<float>{1, 0}),
                           Tensor::from(column, std::vector<int32_t>{0, 0}),
                           Tensor::from(column, std::vector<float>{1, 1}),
                           Tensor::from(column, std::vector<float>{0.5f, 0.5f}),
                           Tensor::from(Shape{20}, std::vector<uint8_t>(20, 1))},
                          {i32_type(column), f32_type(column), f32_type(column), f32_type(column),
                           i32_type({2, 3}), f32_type({2, 3}), i32_type(column), f32_type(column),
                           f32_type(column), f32_type(column), f32_type(column)},
                          {{"has_bias", false},
                           {"has_scale", false},
                           {"has_count", false},
                           {"softcap", 0.0},
                           {"has_noise", false},
                           {"has_banned", true},
                           {"filters", std::string("top_k,top_p")},
                           {"shaped", true},
                           {"top", int64_t{3}}}};
  for (const Tensor& result : run_kernel(setup)) {
    for (int64_t i = 0; i < result.byte_size(); ++i) EXPECT_EQ(result.bytes()[i], std::byte{0});
  }
}

} // namespace
} // namespace dllm::cpu
