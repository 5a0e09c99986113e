// dllm anchors writes what a teacher computes from the rows of a training, for --teacher of dllm
// train.

#include "../command.h"
#include "../commands/train/training.h"
#include "../processes/process.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

void refuse_others(const Context& context) {
  for (const char* key : {"arrays", "row_keys", "trajectories"})
    refuse_typed(context, "loader", key, "the anchors are made of the tokens of the rows");
  for (const char* key : {"epochs", "seed", "shuffle", "order"})
    refuse_typed(context, "loader", key, "each row is read once, in any order");
  for (const char* key : {"rank", "ranks"})
    refuse_typed(context, "loader", key, "--shard and --shards divide the work");
  refuse_typed(context, "model", "cache_dtype", "no row of a pass is read from a cache");
}

int anchors(Context& context) {
  refuse_others(context);
  set_template(context, "dataset");
  const std::string place = context.text("model"), out = context.text("out");
  Run run; // a training has the same rows
  run.engine = open_engine(context);
  run.tokenizer = open_tokenizer(context, place);
  open_rows(context, run);
  run.model = open_model(context, run.engine.get(), place);
  int64_t chunks = 0;
  {
    StatusLine status(context.json());
    status.follow(context.task(), [](int64_t done, int64_t total) {
      return std::to_string(done) + " of " + std::to_string(total) + " rows";
    });
    call([&](dllm_error* err) {
      return dllm_loader_write_anchors(run.loader.get(), run.model.get(), out.c_str(),
                                       context.options("anchors"), context.task(), &chunks, err);
    });
  }
  const bool complete = std::filesystem::exists(out + "/manifest.json");
  if (context.json()) {
    const nlohmann::ordered_json line = {{"chunks", chunks}, {"complete", complete}, {"out", out}};
    std::printf("%s\n", line.dump().c_str());
    return 0;
  }
  std::fprintf(stderr, "%lld new anchors in %s%s\n", static_cast<long long>(chunks), out.c_str(),
               complete ? "" : ": the last shard writes manifest.json");
  return 0;
}

} // namespace

Command anchors_command() {
  using Kind = Argument::Kind;
  return {
      "anchors",
      "write what a teacher computes from the rows of a training, for dllm train --teacher; a "
      "folder that exists is continued with the same settings",
      "dllm anchors runs/quickstart --data corpus.txt --out corpus.anchors",
      {{Kind::positional, "model", "", "the teacher: a model folder, a run or a GGUF file", true},
       {Kind::text, "data", "", "the rows, as for dllm train", true},
       {Kind::text, "out", "", "the folder to write or to continue", true},
       {Kind::text, "template", "",
        "chat template of conversations: chatml, llama3, qwen, alpaca, or a file that holds "
        "one; default: the model's own"}},
      {"anchors", "dataset", "loader", "engine", "model"},
      anchors};
}

} // namespace dllm::cli
