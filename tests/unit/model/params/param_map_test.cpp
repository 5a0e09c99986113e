#include "model/params/param_map.h"

#include "../model_tools.h"
#include "base/random.h"
#include "model/families/family.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace dllm::model {
namespace {

Tensor counted(Shape shape, float from) {
  Tensor tensor(DType::f32, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.mutable_as<float>()[static_cast<size_t>(i)] = from + static_cast<float>(i);
  return tensor;
}

ParamSpec concatenated() {
  ParamSpec spec;
  spec.name = "layers.qkv";
  spec.layers = 2;
  spec.first_layer = 5;
  spec.element = {5, 3};
  spec.pieces = {{"h.{}.q", 2, false}, {"h.{}.kv", 3, true}};
  return spec;
}

TEST(ParamMap, ConcatenatesTransposesAndStacks) {
  const ParamSpec spec = concatenated();
  EXPECT_EQ(spec.logical_name(spec.pieces[1], 1), "h.6.kv");
  EXPECT_EQ(spec.logical_shape(spec.pieces[1]), (Shape{3, 3}));
  std::map<std::string, Tensor> logical = {{"h.5.q", counted({2, 3}, 0)},
                                           {"h.5.kv", counted({3, 3}, 100)},
                                           {"h.6.q", counted({2, 3}, 200)},
                                           {"h.6.kv", counted({3, 3}, 300)}};
  const Tensor physical = join_logical(
      spec, DType::f32, [&](const std::string& name, size_t) { return logical.at(name); });
  EXPECT_EQ(physical.shape(), (Shape{2, 5, 3}));
  // layer 1, row 2 = column 0 of h.6.kv
  EXPECT_EQ(physical.as<float>()[15 + 6 + 0], 300.0f);
  EXPECT_EQ(physical.as<float>()[15 + 6 + 1], 303.0f);
  for (const auto& [name, tensor] : split_physical(spec, physical)) {
    EXPECT_TRUE(test::same_bytes(tensor, logical.at(name))) << name;
  }
}

TEST(ParamMap, RefusesAnotherShape) {
  const ParamSpec spec = concatenated();
  Tensor physical(DType::f32, spec.shape());
  test::expect_error(Code::invalid_argument, "h.5.q: shape (3, 2), expected (2, 3)", [&] {
    write_piece(spec, 0, 0, counted({3, 2}, 0), physical);
  });
}

TEST(ParamMap, EveryFamilyNamesEveryTensorOnce) {
  for (const char* type :
       {"llama", "qwen2", "qwen3", "gpt2", "Dream", "llada", "nano-dlm", "qwen3_moe", "dllm_moe",
        "lladamoe", "llada2_moe", "gemma2", "gemma3_text"}) {
    const ModelConfig config = config_from_json(test::small_config(type), "config.json");
    std::map<std::string, int> seen;
    for (const ParamSpec& spec : find_family(config.family).params(config)) {
      int64_t rows = 0;
      for (const ParamPiece& piece : spec.pieces) rows += piece.rows;
      EXPECT_EQ(rows, spec.element[0]) << type << " " << spec.name;
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces)
          EXPECT_EQ(++seen[spec.logical_name(piece, layer)], 1);
      }
    }
  }
}

TEST(ParamForm, Int8IsWithinHalfAStep) {
  ParamSpec spec;
  spec.name = "w";
  spec.element = {3, 4};
  spec.pieces = {{"w", 3, true}};
  const Tensor logical = counted({4, 3}, -5);
  ParamForm form(spec, DType::i8);
  form.put(spec, 0, 0, logical);
  EXPECT_LE(form.rounding, 0.5 / 127 + 1e-6);
  const Tensor back = read_piece(spec, 0, 0, dequantize(form.values, form.scale));
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(back.as<float>()[i], logical.as<float>()[i], 6.0 / 127 * 0.51);
}

TEST(Normal, IsTheInverseOfTheDistribution) {
  for (const double p : {1e-7, 1e-4, 0.01, 0.07, 0.2, 0.5, 0.75, 0.95, 0.999, 1 - 1e-7}) {
    const double back = 0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0));
    EXPECT_NEAR(back / p, 1.0, 1e-5) << p;
  }
}

} // namespace
} // namespace dllm::model
