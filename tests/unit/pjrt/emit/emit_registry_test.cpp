// Every operation has a form in StableHLO: an emitter, or a definition in operations that have.

#include "graph/ops.h"
#include "unit/graph/op_cases.h"
#include "unit/pjrt/emit/run_emitted.h"

#include <gtest/gtest.h>

#include <set>

namespace dllm::pjrt {
namespace {

TEST(EmitRegistry, EveryOperationHasAForm) {
  for (const graph::OpDef* op : graph::all_ops()) {
    EXPECT_TRUE(hlo::find_emitter(op->name) != nullptr || op->decompose != nullptr)
        << op->name << " has neither emitter nor definition";
  }
  EXPECT_EQ(hlo::find_emitter("no_such_operation"), nullptr);
  EXPECT_EQ(hlo::find_emitter("zzz"), nullptr);
  EXPECT_EQ(hlo::find_emitter(""), nullptr);
}

TEST(EmitRegistry, EveryCaseIsWrittenTheSameTwice) {
  std::set<std::string> written;
  for (const auto& c : graph::test::op_cases()) {
    const auto graph = plain(*c.graph);
    const std::string text = emit(*graph, {});
    EXPECT_EQ(text, emit(*graph, {})) << c.label;
    written.insert(c.op);
  }
  EXPECT_EQ(written.size(), graph::all_ops().size());
}

TEST(EmitRegistry, WhatHasNoFormIsNamed) {
  graph::Graph graph;
  const graph::Value x = graph.input("x", DType::f32, {3});
  graph.output("y", graph::rms_norm(x, {}, 1e-5f));
  test::expect_error(Code::unimplemented, "operation rms_norm has no StableHLO form",
                     [&] { emit(graph, {}); });
  EmitOptions options;
  options.precision = "best";
  test::expect_error(Code::invalid_argument, "no precision named \"best\"",
                     [&] { emit(graph, options); });
  options = {};
  options.compute = DType::f16;
  test::expect_error(Code::invalid_argument, "not f16", [&] { emit(graph, options); });
}

} // namespace
} // namespace dllm::pjrt
