// dllm graph prints the program of a model and the memory it needs, without loading weights.

#include "../../command.h"
#include "../train/training.h"
#include "compile_report.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void row(const char* name, double bytes, const char* what) {
  if (bytes > 0) std::printf("  %-12s %10s   %s\n", name, bytes_text(bytes).c_str(), what);
}

void print_page(const Context& context, const Json& plan) {
  const auto figure = [&](const char* key) { return plan.value(key, 0.0); };
  std::printf("%s: %s, batch %s: needs %s\n", context.text("model").c_str(),
              plan.value("what", "").c_str(), plan.value("batch", Json(1)).dump().c_str(),
              bytes_text(figure("peak")).c_str());
  if (figure("trained") > 0) {
    std::printf("  %-12s %10s   of %s parameters\n", "trained",
                numbers_text(figure("trained")).c_str(),
                numbers_text(figure("parameters")).c_str());
  }
  row("weights", figure("weights"), "parameters of the model");
  row("adapter", figure("adapter"), "of them in the adapter; the rest is the frozen base");
  row("loading", figure("loading"), "most bytes of them while a model is loaded");
  row("moments", figure("moments"), "state of the optimizer and the moving average");
  row("offloaded", figure("offloaded"), "of them outside of the engine (--offload)");
  row("window", figure("window"), "slices of them during an update");
  row("cache", figure("cache"), "keys and values of decided positions");
  row("inputs", figure("inputs"), "arrays that go in, weights included");
  row("outputs", figure("outputs"), "arrays that come out");
  row("constants", figure("constants"), "");
  row("temporaries", figure("arena"), "memory that the engine reuses while it runs");
  std::printf("  %-12s %10.3g   floating-point operations of one run\n", "operations",
              figure("flops"));
  if (figure("recomputed") > 0)
    std::printf(
        "  %-12s %10.0f   values of a layer that the backward pass computes again, to fit memory\n",
        "recomputed", figure("recomputed"));
  if (plan.contains("hint"))
    std::printf("it does not fit: %s\n", plan["hint"].get<std::string>().c_str());
  std::printf("--json prints every figure, --format graph the program itself\n");
}

// Sets the adapter of --lora or --adapter.kind in the plan.
void set_adapter(Context& context) {
  check_adapter_options(context);
  if (!wants_adapter(context)) return;
  refuse_typed(context, "plan", "adapter", "the options of kind adapter say which one");
  set_rank(context);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("plan"), "adapter",
                                planned_adapter(context).c_str(), err);
  });
}

int graph(Context& context) {
  set_adapter(context);
  const auto engine = open_engine(context);
  const std::string report = text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_plan(engine.get(), context.text("model").c_str(), context.options("plan"),
                            context.task(), out, err);
  });
  const Json plan = Json::parse(report, nullptr, false);
  if (plan.is_object() && !context.json() && !context.typed("plan", "format")) {
    print_page(context, plan);
    return 0;
  }
  std::printf("%s\n", report.c_str());
  if (plan.is_object() && plan.contains("hint")) {
    std::fprintf(stderr, "it does not fit: %s\n", plan["hint"].get<std::string>().c_str());
  }
  return 0;
}

} // namespace

Command graph_command() {
  using Kind = Argument::Kind;
  return {"graph",
          "show the program of a model and the memory that it needs, without loading weights",
          "dllm graph runs/quickstart --what train --batch 8 --length 128",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
           {Kind::number, "lora", "",
            "train: plan a LoRA adapter of this rank on a frozen base of --dtype"}},
          {"engine", "plan", "adapter"},
          graph,
          false,
          {},
          {"model"}};
}

} // namespace dllm::cli
