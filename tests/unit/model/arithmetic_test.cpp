// A model's logits in the arithmetics of the engine, against f32.

#include "model/model.h"
#include "unit/model/model_tools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dllm::model {
namespace {

Tensor logits_in(const char* arithmetic, const char* dtype, const char* family, int64_t rows,
                 int64_t threads) {
  Options engine(graph::engine_schema());
  engine.set_i64("threads", threads);
  engine.set_str("arithmetic", arithmetic);
  Json config = test::small_config(family);
  config.update({{"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"head_dim", 16},
                 {"tie_word_embeddings", true}});
  const auto model = new_model(cpu::make_engine(engine), config,
                               test::model_options({{"seed", "3"}, {"dtype", dtype}}));
  Tensor ids(DType::i32, {rows, 7});
  for (size_t i = 0; i < ids.as<int32_t>().size(); ++i)
    ids.mutable_as<int32_t>()[i] = static_cast<int32_t>(i * 5 % 19);
  Batch batch;
  batch.set("ids", ids);
  return forward(*model, batch, Options(forward_schema())).at("logits");
}

// Largest KL(f32 || other) of a position.
double worst_kl(const Tensor& f32, const Tensor& other, int64_t vocab) {
  const auto p = f32.as<float>(), q = other.as<float>();
  double worst = 0;
  for (size_t at = 0; at < p.size(); at += static_cast<size_t>(vocab)) {
    const auto log_sum = [&](const auto& z) {
      double sum = 0;
      for (int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(z[at + i]));
      return std::log(sum);
    };
    const double a = log_sum(p), b = log_sum(q);
    double kl = 0;
    for (int64_t i = 0; i < vocab; ++i) {
      const double lp = p[at + i] - a, lq = q[at + i] - b;
      kl += std::exp(lp) * (lp - lq);
    }
    worst = std::max(worst, kl);
  }
  return worst;
}

struct ModelCase {
  const char *arithmetic, *dtype, *family;
  double measured; // largest KL of a position (AVX-512); twice as much fails
};

TEST(Arithmetics, LogitsStayNearThoseOfF32) {
  for (const ModelCase& c : {ModelCase{"bf16", "f32", "qwen2", 5.7e-7},
                             {"bf16", "bf16", "qwen3", 2.5e-7},
                             {"bf16", "q8_0", "llama", 1e-6},
                             {"bf16", "nf4", "qwen2", 1e-6},
                             {"bf16", "int8", "qwen3_moe", 1e-6},
                             {"int8", "int8", "qwen2", 2.6e-6},
                             {"int8", "int8", "qwen3_moe", 2.1e-6},
                             {"int8", "q8_0", "llama", 1.9e-6}}) {
    const Tensor f32 = logits_in("f32", c.dtype, c.family, 3, 1);
    const Tensor got = logits_in(c.arithmetic, c.dtype, c.family, 3, 1);
    const double kl = worst_kl(f32, got, 23);
    EXPECT_LT(kl, 2 * c.measured) << c.arithmetic << ' ' << c.dtype << ' ' << c.family;
    EXPECT_GT(kl, 0) << c.arithmetic << ' ' << c.dtype << ' ' << c.family;
    const Tensor threads = logits_in(c.arithmetic, c.dtype, c.family, 3, 3);
    EXPECT_EQ(std::memcmp(threads.bytes(), got.bytes(), static_cast<size_t>(got.byte_size())), 0)
        << c.arithmetic << ' ' << c.family;
    const Tensor alone = logits_in(c.arithmetic, c.dtype, c.family, 1, 1);
    EXPECT_EQ(std::memcmp(alone.bytes(), got.bytes(), static_cast<size_t>(alone.byte_size())), 0)
        << c.arithmetic << ' ' << c.family << ": other rows change its bits";
  }
}

} // namespace
} // namespace dllm::model
