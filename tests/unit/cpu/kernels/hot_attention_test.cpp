// attention and its gradient against the definition in double, for every kind of mask; a query
// alone, in a batch, on any instruction set and thread count gives the same bits.

#include "cpu/kernel.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace dllm::cpu {
namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
};

// A mask as the node says it, and as a test of single (batch, query, key).
struct MaskCase {
  std::string kinds;
  std::vector<Tensor> params;
  std::function<bool(int64_t, int64_t, int64_t)> sees;
  bool has_query_start = false;
};

Tensor scalar(int32_t value) {
  return Tensor::scalar<int32_t>(value);
}

std::vector<int32_t> pattern(int64_t count, int32_t modulus) {
  std::vector<int32_t> made;
  for (int64_t i = 0; i < count; ++i) made.push_back(static_cast<int32_t>(i * i / 7 % modulus));
  return made;
}

// REQUIRES: batch 2.
std::vector<MaskCase> mask_cases(const Sizes& s) {
  const int32_t length = static_cast<int32_t>(s.keys / 2), block = 5;
  std::vector<MaskCase> cases;
  cases.push_back({"full", {}, [](int64_t, int64_t, int64_t) { return true; }});
  cases.push_back({"causal", {}, [](int64_t, int64_t i, int64_t j) { return j <= i; }});
  cases.push_back({"block_causal", {scalar(block)}, [=](int64_t, int64_t i, int64_t j) {
                     return j / block <= i / block;
                   }});
  cases.push_back(
      {"two_stream", {scalar(length), scalar(block)}, [=](int64_t, int64_t i, int64_t j) {
         const bool from_noised = i < length, to_noised = j < length;
         const int64_t own = (from_noised ? i : i - length) / block;
         const int64_t other = (to_noised ? j : j - length) / block;
         if (to_noised) return from_noised && own == other;
         return from_noised ? other < own : other <= own;
       }});
  const std::vector<int32_t> begins = {3, 0}, ends = {static_cast<int32_t>(s.keys) - 2, 1};
  cases.push_back(
      {"causal+key_range",
       {Tensor::from(Shape{2}, begins), Tensor::from(Shape{2}, ends)},
       [=](int64_t b, int64_t i, int64_t j) { return j <= i && j >= begins[b] && j < ends[b]; }});
  cases.push_back(
      {"window", {scalar(6)}, [](int64_t, int64_t i, int64_t j) { return std::abs(i - j) <= 6; }});
  std::vector<int32_t> limits; // of every query: in the middle of a tile, none, all
  for (int64_t i = 0; i < 2 * s.queries; ++i)
    limits.push_back(static_cast<int32_t>(i * 13 % (s.keys + 1)));
  cases.push_back({"key_limit",
                   {Tensor::from(Shape{2, s.queries}, limits)},
                   [=](int64_t b, int64_t i, int64_t j) { return j < limits[b * s.queries + i]; }});
  const std::vector<int32_t> q_segment = pattern(2 * s.queries, 3),
                             k_segment = pattern(2 * s.keys, 3);
  cases.push_back({"window+segments",
                   {scalar(40), Tensor::from(Shape{2, s.queries}, q_segment),
                    Tensor::from(Shape{2, s.keys}, k_segment)},
                   [=](int64_t b, int64_t i, int64_t j) {
                     return std::abs(i - j) <= 40 &&
                            q_segment[b * s.queries + i] == k_segment[b * s.keys + j];
                   }});
  std::vector<uint8_t> kept, table;
  for (int32_t x : pattern(2 * s.keys, 4)) kept.push_back(x != 1);
  for (int64_t i = 0; i < 2 * s.queries * s.keys; ++i) table.push_back(i * 11 / 5 % 3 == 0);
  cases.push_back(
      {"key_keep+dense",
       {Tensor::from(Shape{2, s.keys}, kept), Tensor::from(Shape{2, s.queries, s.keys}, table)},
       [=](int64_t b, int64_t i, int64_t j) {
         return kept[b * s.keys + j] != 0 && table[(b * s.queries + i) * s.keys + j] != 0;
       }});
  const std::vector<int32_t> starts = {7, 0};
  cases.push_back({"causal",
                   {Tensor::from(Shape{2}, starts)},
                   [=](int64_t b, int64_t i, int64_t j) { return j <= i + starts[b]; },
                   true});
  return cases;
}

KernelSetup forward_setup(const Sizes& s, const MaskCase& mask, double softcap,
                          bool empty_average) {
  KernelSetup setup;
  setup.factory = find_kernel("attention");
  setup.inputs = {random_tensor({s.batch, s.queries, s.heads, s.dim}, 1, 2),
                  random_tensor({s.batch, s.keys, s.kv_heads, s.dim}, 2, 2),
                  random_tensor({s.batch, s.keys, s.kv_heads, s.vdim}, 3)};
  setup.inputs.insert(setup.inputs.end(), mask.params.begin(), mask.params.end());
  setup.outputs = {f32_type({s.batch, s.queries, s.heads, s.vdim}),
                   f32_type({s.batch, s.heads, s.queries})};
  setup.attributes = {{"kinds", mask.kinds},
                      {"has_query_start", mask.has_query_start},
                      {"scale", 0.25},
                      {"softcap", softcap},
                      {"empty_average", empty_average}};
  return setup;
}

// The definition, and its gradient for a given dout.
struct Reference {
  std::vector<double> out, lse, dq, dk, dv;

  Reference(const Sizes& s, const MaskCase& mask, const KernelSetup& setup,
            const std::vector<double>& dout) {
    const std::vector<double> q = doubles(setup.inputs[0]), k = doubles(setup.inputs[1]),
                              v = doubles(setup.inputs[2]);
    const double cap = setup.attributes.number("softcap"), scale = 0.25;
    const bool average = setup.attributes.flag("empty_average");
    out.resize(s.batch * s.queries * s.heads * s.vdim), lse.resize(s.batch * s.heads * s.queries);
    dq.resize(q.size()), dk.resize(k.size()), dv.resize(v.size());
    std::vector<double> score(s.keys), p(s.keys), dp(s.keys);
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.queries; ++i) {
          const int64_t kv = h / (s.heads / s.kv_heads);
          const int64_t qi = ((b * s.queries + i) * s.heads + h) * s.dim;
          const int64_t oi = ((b * s.queries + i) * s.heads + h) * s.vdim;
          const auto ki = [&](int64_t j) { return ((b * s.keys + j) * s.kv_heads + kv) * s.dim; };
          const auto vi = [&](int64_t j) { return ((b * s.keys + j) * s.kv_heads + kv) * s.vdim; };
          double most = -INFINITY, sum = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            score[j] = 0;
            for (int64_t d = 0; d < s.dim; ++d) score[j] += q[qi + d] * k[ki(j) + d];
            score[j] *= scale;
            if (cap > 0) score[j] = cap * std::tanh(score[j] / cap);
            if (mask.sees(b, i, j)) most = std::max(most, score[j]);
          }
          for (int64_t j = 0; j < s.keys; ++j) {
            p[j] = mask.sees(b, i, j) ? std::exp(score[j] - most) : 0.0;
            sum += p[j];
          }
          const bool empty = sum == 0;
          lse[(b * s.heads + h) * s.queries + i] = empty ? -INFINITY : most + std::log(sum);
          double inner = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            p[j] = empty ? (average ? 1.0 / s.keys : 0.0) : p[j] / sum;
            dp[j] = 0;
            for (int64_t d = 0; d < s.vdim; ++d) {
              out[oi + d] += p[j] * v[vi(j) + d];
              dp[j] += dout[oi + d] * v[vi(j) + d];
              dv[vi(j) + d] += p[j] * dout[oi + d];
            }
            inner += p[j] * dp[j];
          }
          for (int64_t j = 0; j < s.keys && !empty; ++j) {
            double ds = p[j] * (dp[j] - inner) * scale;
            if (cap > 0) ds *= 1 - std::pow(score[j] / cap, 2);
            for (int64_t d = 0; d < s.dim; ++d) {
              dq[qi + d] += ds * k[ki(j) + d];
              dk[ki(j) + d] += ds * q[qi + d];
            }
          }
        }
      }
    }
  }
};

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  const auto values = got.as<float>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(values[i], static_cast<float>(expected[i])) << what << " element " << i;
    } else {
      ASSERT_NEAR(values[i], expected[i], tolerance * (1.0 + std::abs(expected[i])))
          << what << " element " << i;
    }
  }
}

constexpr Sizes kSizes[] = {
    {2, 21, 21, 4, 2, 8, 8}, {2, 9, 150, 3, 1, 4, 7}, {2, 70, 130, 1, 1, 4, 17}};

TEST(Attention, ForwardAndGradientEqualTheDefinition) {
  for (const Sizes& s : kSizes) {
    for (const MaskCase& mask : mask_cases(s)) {
      for (const double softcap : {0.0, 1.5}) {
        const bool average = softcap > 0;
        const std::string what = mask.kinds + (average ? " capped" : "");
        KernelSetup setup = forward_setup(s, mask, softcap, average);
        const Tensor dout = random_tensor({s.batch, s.queries, s.heads, s.vdim}, 9);
        const Reference expected(s, mask, setup, doubles(dout));
        const std::vector<Tensor> got = run_kernel(setup);
        expect_near(got[0], expected.out, 3e-6, what);
        expect_near(got[1], expected.lse, 3e-6, what + " lse");
        setup.factory = find_kernel("attention_grad");
        setup.inputs.insert(setup.inputs.begin() + 3, {got[0], got[1], dout});
        setup.outputs = {f32_type(setup.inputs[0].shape()), f32_type(setup.inputs[1].shape()),
                         f32_type(setup.inputs[2].shape())};
        const std::vector<Tensor> grads = run_kernel(setup);
        expect_near(grads[0], expected.dq, 1e-5, what + " dq");
        expect_near(grads[1], expected.dk, 1e-5, what + " dk");
        expect_near(grads[2], expected.dv, 1e-5, what + " dv");
      }
    }
  }
}

TEST(Attention, BitsDoNotDependOnTargetOrThreads) {
  const Sizes s{2, 24, 100, 2, 1, 8, 12};
  for (const MaskCase& mask : mask_cases(s)) {
    KernelSetup setup = forward_setup(s, mask, 2.0, false);
    const std::vector<Tensor> first = run_kernel(setup);
    KernelSetup backward = setup;
    backward.factory = find_kernel("attention_grad");
    backward.inputs.insert(backward.inputs.begin() + 3,
                           {first[0], first[1], random_tensor(first[0].shape(), 9)});
    backward.outputs = {f32_type(setup.inputs[0].shape()), f32_type(setup.inputs[1].shape()),
                        f32_type(setup.inputs[2].shape())};
    const std::vector<Tensor> first_grads = run_kernel(backward);
    for_each_simd_target([&](const char* target) {
      for (int threads : {1, 4}) {
        setup.threads = backward.threads = threads;
        EXPECT_TRUE(same_bits(run_kernel(setup), first))
            << mask.kinds << ' ' << target << ' ' << threads;
        EXPECT_TRUE(same_bits(run_kernel(backward), first_grads))
            << mask.kinds << ' ' << target << ' ' << threads;
      }
    });
  }
}

// Queries one by one, and in threes, standing where they stood in the batch.
TEST(Attention, AQueryAloneGivesTheSameBits) {
  const Sizes s{1, 48, 150, 2, 1, 16, 16};
  const MaskCase whole{
      "block_causal", {Tensor::from(Shape{1}, std::vector<int32_t>{90}), scalar(7)}, {}, true};
  const KernelSetup setup = forward_setup(s, whole, 0.0, false);
  const Tensor out = run_kernel(setup)[0];
  for (int64_t size : {1, 3}) {
    for (int64_t first = 0; first < s.queries; first += size) {
      KernelSetup part = setup;
      part.inputs[0] = setup.inputs[0]
                           .row(0)
                           .rows(first, first + size)
                           .reshaped({1, size, s.heads, s.dim})
                           .clone();
      part.inputs[3] =
          Tensor::from(Shape{1}, std::vector<int32_t>{static_cast<int32_t>(90 + first)});
      part.outputs = {f32_type({1, size, s.heads, s.vdim}), f32_type({1, s.heads, size})};
      const Tensor expected = out.row(0).rows(first, first + size);
      EXPECT_TRUE(same_bits(run_kernel(part)[0], expected))
          << "query " << first << ", in groups of " << size;
    }
  }
}

} // namespace
} // namespace dllm::cpu
