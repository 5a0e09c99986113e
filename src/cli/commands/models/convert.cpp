// dllm convert writes the same weights in another form.

#include "convert.h"
#include "../../command.h"
#include "../../processes/process.h"
#include "../../run_settings.h"
#include "../compile/compile_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace dllm::cli {

using Json = nlohmann::ordered_json;

std::string copied_text(int64_t done, int64_t total) {
  return total > 0 ? bytes_text(static_cast<double>(done)) + " of " +
                         bytes_text(static_cast<double>(total))
                   : "";
}

int write_form(Context& context, const std::string& from, const std::string& to) {
  Json report;
  {
    StatusLine status;
    status.follow(context.task(), copied_text);
    report = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_model_quantize(from.c_str(), to.c_str(), context.options("quantize"),
                                 context.task(), out, err);
    }));
  }
  keep_row_settings(from, to);
  if (context.json()) {
    report["out"] = to;
    std::printf("%s\n", report.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return 0;
  }
  for (const Json& note : report.at("notes"))
    std::printf("note: %s\n", note.get<std::string>().c_str());
  double error = 0; // the largest of a kind of tensors
  for (const Json& kind : report.at("kinds")) error = std::max(error, kind.value("error", 0.0));
  std::printf("%s: %lld tensors, matrices %s, %s, error up to %.3f%% of the largest number of a "
              "block\n",
              to.c_str(), report.value("tensors", 0LL), report.value("format", "").c_str(),
              bytes_text(report.value("bytes_after", 0.0)).c_str(), 100 * error);
  return 0;
}

namespace {

int convert(Context& context) {
  return write_form(context, context.text("model"), context.text("out"));
}

} // namespace

Command convert_command() {
  using Kind = Argument::Kind;
  return {
      "convert",
      "write a model in another form: Hugging Face folder, PyTorch file, checkpoint or GGUF in, "
      "folder or GGUF out",
      "dllm convert runs/quickstart quickstart.gguf",
      {{Kind::positional, "model", "",
        "a model folder (safetensors or pytorch_model.bin), a run, a checkpoint or a GGUF file",
        true},
       {Kind::positional, "out", "", "a file that ends in .gguf, or a folder to create", true}},
      {"quantize"},
      convert,
      false,
      {{"quantize", "format", "auto"}}};
}

} // namespace dllm::cli
