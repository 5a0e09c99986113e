// dllm trajectories writes the order in which a teacher reveals the tokens of rows.

#include "../command.h"
#include "../open_dataset.h"
#include "../processes/process.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Fails for a typed option of the engine or the model, which a command without a model ignores.
void refuse_model_options(const Context& context) {
  for (const char* kind : {"engine", "model"}) {
    const Json schema = Json::parse(text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_options_schema(kind, out, err); }));
    for (const Json& key : schema.at("keys")) {
      refuse_typed(context, kind, key.at("name").get<std::string>(),
                   "method left_to_right reads no model");
    }
  }
}

int trajectories(Context& context) {
  set_template(context, "dataset");
  const std::string place = context.text("model"), out = context.text("out");
  const bool reads_model = context.option("trajectories", "method") != "\"left_to_right\"";
  if (!reads_model) refuse_model_options(context);
  refuse_typed(context, "model", "cache_dtype", "no row of a trajectory is read from a cache");
  const auto tokenizer = open_tokenizer(context, place);
  const auto data = open_dataset(context, context.text("data"), tokenizer.get(), context.json());
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  if (reads_model) {
    engine = open_engine(context);
    model = open_model(context, engine.get(), place);
  }
  int64_t rows = 0;
  {
    StatusLine status(context.json());
    status.follow(context.task(), [](int64_t done, int64_t total) {
      return std::to_string(done) + " of " + std::to_string(total) + " rows";
    });
    call([&](dllm_error* err) {
      return dllm_dataset_extract_trajectories(data.get(), model.get(), out.c_str(),
                                               context.options("trajectories"), context.task(),
                                               &rows, err);
    });
  }
  if (context.json())
    std::printf("%s\n", Json{{"rows", rows}, {"out", out}}.dump().c_str());
  else
    std::fprintf(stderr, "%lld new rows in %s\n", static_cast<long long>(rows), out.c_str());
  return 0;
}

} // namespace

Command trajectories_command() {
  using Kind = Argument::Kind;
  return {
      "trajectories",
      "write the order in which a model reveals the tokens of rows, for dllm train "
      "--trajectories; a file that exists is continued with the same settings",
      "dllm trajectories runs/quickstart --data corpus.txt --out corpus.trajectories",
      {{Kind::positional, "model", "", "the teacher: a model folder, a run or a GGUF file", true},
       {Kind::text, "data", "", "the rows, as for dllm train", true},
       {Kind::text, "out", "", "the file to write or to continue", true},
       {Kind::text, "template", "",
        "chat template of conversations: chatml, llama3, qwen, alpaca, or a file that holds "
        "one; default: the model's own"}},
      {"trajectories", "dataset", "engine", "model"},
      trajectories};
}

} // namespace dllm::cli
