#include "pjrt/emit/emit.h"

#include "base/error.h"
#include "pjrt/emit/scope.h"
#include "pjrt/emit/writer.h"

#include <cctype>
#include <fmt/format.h>

namespace dllm::pjrt {
namespace {

using namespace hlo;

// Names of modules show in profiles; MLIR allows letters, digits and _.
std::string module_name(const std::string& name) {
  std::string safe;
  for (const char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return safe.empty() || std::isdigit(static_cast<unsigned char>(safe[0])) ? "graph_" + safe : safe;
}

// The output whose memory is an argument's, or -1.
int64_t aliased_output(const graph::Graph& graph, size_t input) {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    if (graph.outputs()[i].donated_input == static_cast<int32_t>(input))
      return static_cast<int64_t>(i);
  }
  return -1;
}

std::string signature(const graph::Graph& graph, const Ssas& arguments) {
  std::string text = "  func.func public @main(";
  for (size_t i = 0; i < arguments.size(); ++i) {
    text +=
        fmt::format("{}%{}: {}", i > 0 ? ", " : "", arguments[i].number, arguments[i].type.text());
    const int64_t output = aliased_output(graph, i);
    if (output >= 0) text += fmt::format(" {{tf.aliasing_output = {} : i32}}", output);
  }
  text += ") -> (";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const graph::ValueType& type = graph.type(graph.outputs()[i].value);
    text += (i > 0 ? ", " : "") + Type{element_of(type.dtype), type.shape}.text();
  }
  return text + ") {\n";
}

void check(const EmitOptions& options) {
  if (options.compute != DType::f32 && options.compute != DType::bf16) {
    fail(Code::invalid_argument, "products compute in f32 or bf16, not {}",
         dtype_name(options.compute));
  }
  const std::string& p = options.precision;
  if (p != "highest" && p != "high" && p != "default") {
    fail_with_hint("use highest, high or default", Code::invalid_argument, "no precision named {}",
                   p);
  }
}

} // namespace

std::string emit(const graph::Graph& graph, const EmitOptions& options) {
  check(options);
  Writer writer;
  Ssas arguments;
  std::vector<Slot> slots;
  for (const graph::GraphInput& input : graph.inputs()) {
    const graph::ValueType& type = graph.type(input.value);
    arguments.push_back(writer.argument({element_of(type.dtype), type.shape}));
    slots.push_back({arguments.back(), {}, {}, {}});
  }
  Scope scope(graph, writer, options);
  scope.write(slots);
  writer.end_function(scope.plain_outputs());
  return "module @" + module_name(graph.name()) + " {\n" + signature(graph, arguments) +
         writer.take_text() + "  }\n}\n";
}

} // namespace dllm::pjrt
