// Reports on compiled programs and checks that their state changes in place.

#include "pjrt/engine_state.h"

#include "base/error.h"
#include "graph/passes.h"
#include "pjrt/plugin/compile.h"

#include <utility>

namespace dllm::pjrt {

namespace {

int64_t type_bytes(const graph::ValueType& type) {
  return type.shape.count() * dtype_size(type.dtype);
}

} // namespace

graph::CompiledReport compiler_report(const Compiled& compiled) {
  graph::CompiledReport report;
  report.known = true;
  report.fingerprint = compiled.fingerprint();
  if (const auto memory = compiled.memory()) {
    report.argument_bytes = memory->arguments;
    report.output_bytes = memory->outputs;
    report.alias_bytes = memory->aliased;
    report.temporary_bytes = memory->temporaries;
    report.code_bytes = memory->code;
    report.peak_bytes = memory->peak;
  }
  const NamedValues costs = compiled.costs();
  if (const float* flops = find_value<float>(costs, "flops")) report.flops = *flops;
  return report;
}

graph::PlanReport make_report(const graph::Graph& source, graph::CompiledReport compiled) {
  graph::PlanReport report;
  for (const graph::GraphInput& input : source.inputs())
    report.input_bytes += type_bytes(source.type(input.value));
  for (const graph::GraphOutput& output : source.outputs()) {
    if (output.donated_input < 0) report.output_bytes += type_bytes(source.type(output.value));
  }
  report.arena_bytes = compiled.temporary_bytes;
  report.peak_bytes = report.input_bytes + report.output_bytes + report.arena_bytes;
  report.flops = graph::count_flops(source);
  report.compiled = std::move(compiled);
  return report;
}

graph::PlanReport make_report(const graph::Graph& source, const Built& built,
                              const Device& device) {
  graph::CompiledReport compiled = compiler_report(built.executable->compiled());
  compiled.from_cache = built.from_cache;
  compiled.seconds = built.seconds;
  if (const auto use = device.memory_use()) compiled.device_bytes = use->limit;
  return make_report(source, std::move(compiled));
}

void check_aliases(const graph::Graph& source, const graph::CompiledReport& compiled) {
  int64_t given_up = 0;
  for (const graph::GraphOutput& output : source.outputs()) {
    if (output.donated_input >= 0) given_up += type_bytes(source.type(output.value));
  }
  const bool reported = compiled.argument_bytes > 0 || compiled.output_bytes > 0;
  if (!reported || compiled.alias_bytes >= given_up) return;
  fail_with_hint("this is a mistake of the plugin's compiler or of dllm, please report it",
                 Code::internal,
                 "graph {} changes {} bytes of state, its compiled form changes {} in place",
                 source.name(), given_up, compiled.alias_bytes);
}

} // namespace dllm::pjrt
