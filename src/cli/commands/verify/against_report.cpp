// This file prints the result of dllm verify --against.

#include "../compile/compile_report.h"
#include "against_model.h"

#include <cmath>
#include <cstdio>

namespace dllm::cli {
namespace {

using TableJson = nlohmann::ordered_json;

std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

void print_difference(const std::string& name, const TableJson& of) {
  const TableJson& kl = of.at("kl");
  std::printf("%-9s %9lld  %9.2e %9.2e %9.2e %9.2e  %7s %7s  %8.4f  %+8.4f +- %.4f\n", name.c_str(),
              of.value("positions", 0LL), kl.value("mean", 0.0), kl.value("median", 0.0),
              kl.value("p99", 0.0), kl.value("max", 0.0),
              percent_text(of.value("top1", 0.0)).c_str(),
              percent_text(of.value("top5", 0.0)).c_str(), of.value("reference_nll", 0.0),
              of.value("change", 0.0), of.value("stderr", 0.0));
}

} // namespace

void print_comparison(const TableJson& result) {
  const TableJson& all = result.at("predictions");
  const auto side = [&](const char* name) {
    const TableJson& own = result.at(name);
    std::printf("%-9s  format %-6s arithmetic %-5s %12s of weights, %8.1f rows/s  %s\n", name,
                own.value("format", "").c_str(), own.value("arithmetic", "").c_str(),
                bytes_text(own.value("bytes", 0.0)).c_str(),
                result.at("rows_per_second").value(name, 0.0), own.value("path", "").c_str());
  };
  side("model");
  side("reference");
  std::printf("\n%-9s %9s  %9s %9s %9s %9s  %7s %7s  %8s  %8s\n", "", "positions", "KL mean",
              "median", "99 %", "max", "top 1", "top 5", "NLL ref.", "change");
  if (all.contains("by_ratio")) {
    for (const TableJson& group : all.at("by_ratio"))
      print_difference(percent_text(group.value("masked", 0.0)), group);
  }
  print_difference("all", all);
  std::printf("\nperplexity %.3f, of the reference %.3f (%+.2f %%)\n", all.value("perplexity", 0.0),
              all.value("reference_perplexity", 0.0),
              100 * (std::exp(all.value("change", 0.0)) - 1));
  const TableJson& generated = result.at("generated");
  if (generated.value("length", 0LL) > 0)
    std::printf("%s of %lld texts with %lld generated tokens each are the same, %s before the "
                "first difference\n",
                percent_text(generated.value("same", 0.0)).c_str(), generated.value("texts", 0LL),
                generated.value("length", 0LL),
                percent_text(generated.value("same_from_start", 0.0)).c_str());
  std::printf("KL(reference || model) and NLL in nats per position; top 5: the mean share of equal "
              "ones\n");
}

} // namespace dllm::cli
