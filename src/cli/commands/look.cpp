// dllm inspect, dllm graph: look without changing anything.

#include "../session.h"
#include "registry.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void print_tree(const Json& node, int depth) {
  for (const auto& [key, value] : node.items()) {
    const std::string indent(static_cast<size_t>(2 * depth), ' ');
    if (value.is_object()) {
      std::printf("%s%s\n", indent.c_str(), key.c_str());
      print_tree(value, depth + 1);
    } else {
      std::printf("%s%-*s %s\n", indent.c_str(), 28 - 2 * depth, key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    }
  }
}

// Tensors are a long list: a line each, the biggest figures first in the summary.
void print_description(Json description) {
  Json tensors;
  if (description.contains("tensors")) {
    tensors = description["tensors"];
    description.erase("tensors");
  }
  print_tree(description, 0);
  for (const Json& tensor : tensors) {
    std::printf("  %-56s %-5s %s\n", tensor.value("name", "").c_str(), tensor.value("dtype", "").c_str(),
                tensor.contains("shape") ? tensor["shape"].dump().c_str() : "");
  }
}

int inspect(Context& context) {
  const std::string path = context.text("path");
  const auto checkpoint = make<dllm_checkpoint>(
      [&](dllm_checkpoint** out, dllm_error* err) { return dllm_checkpoint_open(path.c_str(), out, err); });
  if (context.flag("verify")) {
    call([&](dllm_error* err) { return dllm_checkpoint_verify(checkpoint.get(), context.task(), err); });
  }
  const std::string description =
      text([&](dllm_buffer* out, dllm_error* err) { return dllm_checkpoint_describe(checkpoint.get(), out, err); });
  if (context.json()) std::printf("%s\n", description.c_str());
  else print_description(Json::parse(description));
  return 0;
}

int graph(Context& context) {
  const auto engine = open_engine(context);
  const std::string report = text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_plan(engine.get(), context.text("model").c_str(), context.options("plan"), context.task(), out, err);
  });
  std::printf("%s\n", report.c_str());
  const Json plan = Json::parse(report, nullptr, false);
  if (plan.is_object() && plan.contains("hint")) {
    std::fprintf(stderr, "it does not fit: %s\n", plan["hint"].get<std::string>().c_str());
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  using Kind = Argument::Kind;
  return {"inspect", "show what a model file, folder or checkpoint holds", "dllm inspect model.safetensors",
          {{Kind::positional, "path", "", "a safetensors or GGUF file, a model folder, a checkpoint or a run", true},
           {Kind::flag, "verify", "", "check every file against its checksum"}},
          {},
          inspect};
}

Command graph_command() {
  using Kind = Argument::Kind;
  return {"graph", "show the program of a model and what it needs, without loading weights",
          "dllm graph --model runs/quickstart --what train --format json",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true}},
          {"engine", "plan"},
          graph};
}

}  // namespace dllm::cli
