// scan: runs a body over a range of stacked arrays, with carried values, for a fixed number of
// steps.

#include "graph/ops/scan.h"
#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

void expect_scan_operands(const OpCall& call, const ScanPlan& plan, const Graph& body) {
  expect_inputs(call, plan.inputs());
  if (body.inputs().size() != plan.inputs()) {
    fail_op(call, fmt::format("body {} takes {} inputs, but carry, per_layer and consts are {}",
                              body.name(), body.inputs().size(), plan.inputs()));
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueType& given = call.inputs[i];
    ValueType wanted = body.type(body.inputs()[i].value);
    if (plan.is_per_layer(i)) wanted.shape = wanted.shape.with_front(plan.count);
    if (given == wanted) continue;
    fail_op(call, fmt::format("body {} wants {} for {}, got {}", body.name(), wanted.text(),
                              body.inputs()[i].name, given.text()));
  }
}

Types scan_types(const OpCall& call) {
  const ScanPlan plan(call.attributes);
  if (call.bodies.size() != 1 || call.bodies[0] == nullptr) fail_op(call, "takes one body");
  const Graph& body = *call.bodies[0];
  if (plan.count < 0 || plan.begin < 0 || plan.begin > plan.end || plan.end > plan.count) {
    fail_op(call,
            fmt::format("range {} to {} is not inside 0 to {}", plan.begin, plan.end, plan.count));
  }
  expect_scan_operands(call, plan, body);
  if (body.outputs().size() < plan.carry) {
    fail_op(call, fmt::format("body {} gives {} results for {} carries", body.name(),
                              body.outputs().size(), plan.carry));
  }
  Types results;
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    ValueType result = body.type(body.outputs()[i].value);
    if (i < plan.carry && !(result == call.inputs[i])) {
      fail_op(call, fmt::format("carry {} of body {} enters as {} and leaves as {}",
                                body.inputs()[i].name, body.name(), call.inputs[i].text(),
                                result.text()));
    }
    if (i >= plan.carry) result.shape = result.shape.with_front(plan.count);
    results.push_back(std::move(result));
  }
  return results;
}

constexpr OpDef kScanOps[] = {
    {.name = "scan", .infer = scan_types, .vjp = scan_vjp, .own_axes = true}};

int64_t size_of(const std::vector<Value>& values) {
  return static_cast<int64_t>(values.size());
}

} // namespace

namespace ops {
std::span<const OpDef> scan_ops() {
  return kScanOps;
}
} // namespace ops

ScanResult scan(std::shared_ptr<const Graph> body, const std::vector<Value>& carry,
                const std::vector<Value>& per_layer, const std::vector<Value>& consts,
                int64_t count, const ScanOptions& options) {
  std::vector<Value> inputs = carry;
  inputs.insert(inputs.end(), per_layer.begin(), per_layer.end());
  inputs.insert(inputs.end(), consts.begin(), consts.end());
  if (inputs.empty()) fail(Code::invalid_argument, "[scan] body {} has no operands", body->name());
  for (size_t i = 0; i < inputs.size() && i < body->inputs().size(); ++i) {
    inputs[i] = vary(inputs[i], body->type(body->inputs()[i].value).axes);
  }
  Attributes attributes{
      {"carry", size_of(carry)},        {"per_layer", size_of(per_layer)},
      {"consts", size_of(consts)},      {"count", count},
      {"begin", options.begin},         {"end", options.end < 0 ? count : options.end},
      {"reverse", options.reverse},     {"remat", options.remat},
      {"recompute", options.recompute}, {"round_kept", options.round_kept}};
  const auto made =
      inputs[0].graph->add(find_op("scan"), inputs, std::move(attributes), {std::move(body)});
  const auto middle = made.begin() + static_cast<std::ptrdiff_t>(carry.size());
  return {{made.begin(), middle}, {middle, made.end()}};
}

} // namespace dllm::graph
