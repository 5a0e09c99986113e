// Layouts of arrays on a mesh, and the groups of its ranks.

#include "graph/mesh.h"

#include "base/error.h"
#include "tensor/weight_format.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dllm::graph {
namespace {

Tensor counting(const Shape& shape) {
  Tensor made(DType::i32, shape);
  auto values = made.mutable_as<int32_t>();
  std::iota(values.begin(), values.end(), 0);
  return made;
}

std::vector<int32_t> numbers(const Tensor& tensor) {
  const auto values = tensor.as<int32_t>();
  return {values.begin(), values.end()};
}

template <class F> std::string error_of(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

TEST(Layout, CutsDimensions) {
  const Mesh mesh = Mesh().set(Axis::fsdp, 2).set(Axis::tensor, 2);
  const Tensor whole = counting({4, 4});
  const Layout rows = Layout().cut(Axis::fsdp, 0);
  EXPECT_EQ(numbers(rows.part(whole, {mesh, 2})),
            (std::vector<int32_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(numbers(rows.part(whole, {mesh, 3})),
            numbers(rows.part(whole, {mesh, 2}))); // equal over tensor
  const Layout blocks = Layout().cut(Axis::fsdp, 0).cut(Axis::tensor, 1);
  EXPECT_EQ(numbers(blocks.part(whole, {mesh, 1})), (std::vector<int32_t>{2, 3, 6, 7}));
  // Two axes along one dimension: the later axis changes faster.
  const Layout both = Layout().cut(Axis::tensor, 1).cut(Axis::fsdp, 1);
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(numbers(both.part(whole, {mesh, rank}))[0], static_cast<int32_t>(rank));
  EXPECT_EQ(both.part_shape({4, 4}, mesh), (Shape{4, 1}));
  EXPECT_EQ(both.whole_shape({4, 1}, mesh), (Shape{4, 4}));
  EXPECT_EQ(blocks.text(), "{fsdp: 0, tensor: 1}");
  EXPECT_EQ(blocks.axes().text(), "{fsdp, tensor}");
}

TEST(Layout, WholeIsFree) {
  const Tensor whole = counting({3, 5});
  const Mesh mesh = Mesh().set(Axis::data, 3);
  EXPECT_TRUE(Layout().is_whole());
  EXPECT_EQ(Layout().part(whole, {mesh, 1}).bytes(), whole.bytes());
  // On a mesh of one rank a part is the array.
  EXPECT_EQ(Layout().cut(Axis::data, 0).part(whole, {}).bytes(), whole.bytes());
  EXPECT_EQ(Layout().text(), "whole");
}

TEST(Layout, JoiningThePartsGivesTheWhole) {
  const Mesh mesh = Mesh().set(Axis::data, 2).set(Axis::fsdp, 2).set(Axis::tensor, 3);
  const Tensor whole = counting({3, 4, 6, 2});
  const Layout layouts[] = {Layout(),
                            Layout().cut(Axis::fsdp, 1),
                            Layout().cut(Axis::tensor, 2),
                            Layout().cut(Axis::tensor, 0).cut(Axis::fsdp, 3),
                            Layout().cut(Axis::fsdp, 2).cut(Axis::tensor, 2),
                            Layout().cut(Axis::data, 1).cut(Axis::fsdp, 1).cut(Axis::tensor, 2)};
  for (const Layout& layout : layouts) {
    std::vector<Tensor> parts;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      parts.push_back(layout.part(whole, {mesh, rank}));
    const Tensor joined = layout.join(parts, mesh);
    EXPECT_EQ(joined.shape(), whole.shape());
    EXPECT_EQ(numbers(joined), numbers(whole)) << layout.text();
  }
}

TEST(Mesh, PlacesAlongSeveralAxes) {
  const Mesh mesh = Mesh::parse("data=2,fsdp=2,tensor=3");
  EXPECT_EQ(mesh, Mesh().set(Axis::data, 2).set(Axis::fsdp, 2).set(Axis::tensor, 3));
  const AxisSet rows = AxisSet(Axis::data).with(AxisSet(Axis::fsdp));
  EXPECT_EQ(mesh.size(rows), 4);
  for (int64_t rank = 0; rank < 12; ++rank) EXPECT_EQ(mesh.index(rank, rows), rank / 3);
  EXPECT_EQ(mesh.index(7, AxisSet()), 0);
  EXPECT_EQ(Mesh::parse("").ranks(), 1);
}

TEST(Layout, WhatDoesNotFitIsAnError) {
  const Mesh mesh = Mesh().set(Axis::data, 2);
  EXPECT_EQ(error_of([&] {
              Layout().cut(Axis::data, 0).part_shape({3, 2}, mesh);
            }),
            "dimension 0 of (3, 2) does not divide by 2 ranks (layout {data: 0})");
  EXPECT_EQ(error_of([&] {
              Layout().cut(Axis::data, 2).part_shape({3, 2}, mesh);
            }),
            "layout {data: 2} cuts dimension 2, the array (3, 2) has 2");
  EXPECT_EQ(error_of([] { Layout().cut(Axis::data, 0).cut(Axis::data, 1); }),
            "mesh axis data cuts dimension 0 already and cannot cut 1 too");
  EXPECT_EQ(error_of([] { Layout().cut(Axis::data, -1); }),
            "mesh axis data cannot cut dimension -1");
}

TEST(Mesh, GroupOfARank) {
  const Mesh mesh = Mesh().set(Axis::data, 2).set(Axis::tensor, 3);
  EXPECT_EQ(mesh.group_of(4, AxisSet(Axis::tensor)), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(mesh.group_of(4, AxisSet(Axis::data)), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(mesh.group_of(4, AxisSet(Axis::expert)), (std::vector<int64_t>{4}));
  EXPECT_EQ(mesh.group_of(4, {}), (std::vector<int64_t>{4}));
  EXPECT_EQ(mesh.text(), "2 x 3 ranks (data, tensor)");
  EXPECT_EQ(Mesh().text(), "1 rank");
  EXPECT_EQ(error_of([&] { mesh.group_of(6, {}); }),
            "rank 6 is not in a mesh of 2 x 3 ranks (data, tensor)");
  EXPECT_TRUE(Placement{}.is_single());
  EXPECT_EQ((Placement{mesh, 4}.index(Axis::tensor)), 1);
}

TEST(Layout, CutsWeightFormatsBetweenBlocks) {
  const WeightFormat& format = weight_format("q8_0");
  const Mesh mesh = Mesh().set(Axis::tensor, 2);
  const Layout columns = Layout().cut(Axis::tensor, 1);
  Tensor whole(DType::u8, {2, 4 * format.block_bytes});
  whole.set_format(&format);
  EXPECT_EQ(columns.part(whole, {mesh, 1}).format(), &format);
  EXPECT_EQ(Layout().cut(Axis::tensor, 0).part(whole, {mesh, 1}).format(), &format);
  Tensor odd(DType::u8, {2, format.block_bytes});
  odd.set_format(&format);
  EXPECT_EQ(error_of([&] {
              columns.part(odd, {mesh, 0});
            }),
            "17 bytes of a row are not whole blocks of 34 bytes (q8_0)");
}

} // namespace
} // namespace dllm::graph
