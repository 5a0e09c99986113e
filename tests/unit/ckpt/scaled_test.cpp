// Matrices of 8 bits with scales: the numbers that torch has (tests/data/make_scaled.py).

#include "ckpt/safetensors/safetensors_writer.h"
#include "ckpt/scaled/scaled.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

namespace dllm::ckpt {
namespace {

using test::expect_error;

WeightFiles files_at(const std::string& path) {
  return WeightFiles(*open_source(path));
}

Tensor numbers_of(const WeightFiles& files, const ScaledForms& forms, const std::string& name,
                  const Box& box) {
  const ScaledMatrix matrix(files, name, *forms.find(name), box, nullptr);
  Tensor made(DType::f32, box.shape);
  matrix.read_numbers(made.mutable_as<float>().data(), nullptr);
  return made;
}

struct ScaledFile {
  const char* name;
  Json quantization;
};
const std::vector<ScaledFile>& scaled_files() {
  static const std::vector<ScaledFile> files = {
      {"plain", nullptr},
      {"usual", Json::object()},
      {"blocks", {{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}}},
      {"blocks",
       {{"config_groups", {{"group_0", {{"weights", {{"block_structure", {16, 32}}}}}}}}}},
      {"groups", {{"config_groups", {{"group_0", {{"weights", {{"group_size", 32}}}}}}}}}};
  return files;
}

// The expected numbers of a file are those of the last rows and columns.
TEST(ScaledMatrices, HaveTheNumbersOfTorch) {
  for (const ScaledFile& file : scaled_files()) {
    const WeightFiles files =
        files_at(test::data_path("scaled/" + std::string(file.name) + ".safetensors"));
    const ScaledForms forms(files, file.quantization, file.name);
    int found = 0;
    for (const std::string& name : files.names()) {
      if (!name.ends_with(".expected")) continue;
      const std::string weight = name.substr(0, name.rfind('.')) + ".weight";
      const Tensor expected = files.tensor(name);
      ASSERT_NE(forms.find(weight), nullptr) << weight;
      const Shape whole = forms.find(weight)->shape;
      const Box box{
          {whole.dim(0) - expected.shape().dim(0), whole.dim(1) - expected.shape().dim(1)},
          expected.shape()};
      const Tensor got = numbers_of(files, forms, weight, box);
      for (size_t i = 0; i < got.as<float>().size(); ++i) {
        const float a = got.as<float>()[i], b = expected.as<float>()[i];
        EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << weight << ' ' << i;
      }
      ++found;
    }
    EXPECT_GT(found, 0) << file.name;
  }
}

TEST(ScaledMatrices, Int8KeepsItsBytesAndScales) {
  const WeightFiles files = files_at(test::data_path("scaled/plain.safetensors"));
  const ScaledForms forms(files, nullptr, "plain");
  for (const char* name : {"integers.weight", "flat.weight"}) {
    const ScaledForm& form = *forms.find(name);
    ASSERT_TRUE(form.has_row_scales());
    const ScaledMatrix matrix(files, name, form, {{3, 5}, {7, 11}}, nullptr);
    const Tensor whole = numbers_of(files, forms, name, Box::whole(form.shape));
    for (int64_t row = 0; row < 7; ++row) {
      for (int64_t column = 0; column < 11; ++column) {
        const auto at = static_cast<size_t>((row + 3) * form.shape.dim(1) + column + 5);
        const auto q = matrix.values().as<int8_t>()[static_cast<size_t>(row * 11 + column)];
        EXPECT_EQ(static_cast<float>(q) * matrix.row_scales().as<float>()[static_cast<size_t>(row)],
                  whole.as<float>()[at]);
      }
    }
  }
  EXPECT_FALSE(forms.find("rows.weight")->has_row_scales());
  EXPECT_TRUE(forms.owns("tensor.weight_scale"));
  EXPECT_TRUE(forms.owns("tensor.input_scale"));
  EXPECT_FALSE(forms.owns("tensor.weight"));
  EXPECT_EQ(forms.find("tensor.weight_scale"), nullptr);
}

TEST(ScaledMatrices, WhatDoesNotFitIsNamed) {
  const test::TempFolder folder;
  const auto opened = [&](const NamedTensors& tensors, const Json& quantization = nullptr) {
    const std::string path = folder.path("x.safetensors");
    write_safetensors(path, tensors);
    const ScaledForms forms(files_at(path), quantization, "x");
  };
  const Tensor weight(DType::i8, {20, 48}), row_scales(DType::f32, {20, 1});
  expect_error(Code::data_loss, "do not fit a.weight", [&] {
    opened({{"a.weight", weight}, {"a.weight_scale", Tensor(DType::f32, {19, 1})}});
  });
  expect_error(Code::data_loss, "do not fit a.weight", [&] {
    opened({{"a.weight", weight}, {"a.weight_scale", Tensor(DType::f32, {2, 2})}},
           {{"weight_block_size", {-1, 0}}});
  });
  expect_error(Code::data_loss, "do not fit a.weight", [&] {
    opened({{"a.weight", Tensor(DType::i8, {20})}, {"a.weight_scale", row_scales}});
  });
  expect_error(Code::unimplemented, "a.weight has zero points", [&] {
    opened({{"a.weight", weight},
            {"a.weight_scale", row_scales},
            {"a.weight_zero_point", Tensor(DType::i8, {20, 1})}});
  });
  expect_error(Code::unimplemented, "a.weight with scales has type F32", [&] {
    opened({{"a.weight", Tensor(DType::f32, {20, 48})}, {"a.weight_scale", row_scales}});
  });
  expect_error(Code::unimplemented, "a.weight_scale has type U8", [&] {
    opened({{"a.weight", weight}, {"a.weight_scale", Tensor(DType::u8, {20, 1})}});
  });
}

} // namespace
} // namespace dllm::ckpt
