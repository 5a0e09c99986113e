// dllm quantize writes a model file in another weight format.

#include "../../command.h"
#include "../../processes/process.h"
#include "../../run_settings.h"
#include "../compile/compile_report.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// "12 %  30.0 MiB of 250.0 MiB"
std::string done_text(int64_t done, int64_t total) {
  if (total <= 0) return "";
  return std::to_string(100 * done / total) + " %  " + bytes_text(static_cast<double>(done)) +
         " of " + bytes_text(static_cast<double>(total));
}

void print_report(const std::string& out, const Json& report) {
  std::printf("%-32s %-7s %7s %12s %12s %9s\n", "tensor", "format", "tensors", "before", "after",
              "error");
  for (const Json& kind : report.at("kinds")) {
    std::printf("%-32s %-7s %7lld %12s %12s %8.3f%%\n", kind.value("name", "").c_str(),
                kind.value("format", "").c_str(), kind.value("tensors", 0LL),
                bytes_text(kind.value("bytes_before", 0.0)).c_str(),
                bytes_text(kind.value("bytes_after", 0.0)).c_str(), 100 * kind.value("error", 0.0));
  }
  for (const Json& note : report.at("notes"))
    std::printf("note: %s\n", note.get<std::string>().c_str());
  std::printf("%s: %lld tensors, %s before, %s after\n", out.c_str(), report.value("tensors", 0LL),
              bytes_text(report.value("bytes_before", 0.0)).c_str(),
              bytes_text(report.value("bytes_after", 0.0)).c_str());
}

int quantize(Context& context) {
  const std::string from = context.text("model"), to = context.text("out");
  Json report;
  {
    StatusLine status;
    status.follow(context.task(), done_text);
    report = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_model_quantize(from.c_str(), to.c_str(), context.options("quantize"),
                                 context.task(), out, err);
    }));
  }
  keep_row_settings(from, to);
  if (context.json())
    std::printf("%s\n", report.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  else
    print_report(to, report);
  return 0;
}

} // namespace

Command quantize_command() {
  using Kind = Argument::Kind;
  return {
      "quantize",
      "write a model in another weight format; error is the largest rounding error over the "
      "largest number of a block",
      "dllm quantize runs/quickstart quickstart.gguf --format q4_k",
      {{Kind::positional, "model", "", "a model folder, a run, a checkpoint or a GGUF file", true},
       {Kind::positional, "out", "", "a file that ends in .gguf, or a folder for f32, bf16 and f16",
        true}},
      {"quantize"},
      quantize};
}

} // namespace dllm::cli
