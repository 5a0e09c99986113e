// dllm export writes a run for other programs: a folder that transformers reads, or an adapter that
// PEFT reads.

#include "../../command.h"
#include "../../processes/process.h"
#include "../../run_settings.h"
#include "../compile/compile_report.h"
#include "convert.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns the adapters of a run or a checkpoint by its files; no weights are read.
std::vector<std::string> adapters_of(const Context& context, const std::string& path) {
  const Owned<dllm_checkpoint> files = open_checkpoint(context, path);
  const Json about = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_checkpoint_describe(files.get(), out, err);
  }));
  std::vector<std::string> names;
  for (const Json& part : about.value("parts", Json::array())) {
    const auto name = part.at("name").get<std::string>();
    if (part.value("kind", "") == "adapter") names.push_back(name.substr(name.find(':') + 1));
  }
  return names;
}

// Returns the model of the run, in the formats of the run.
Owned<dllm_model> load_run(const Context& context) {
  const auto engine = make<dllm_engine>(
      [](dllm_engine** out, dllm_error* err) { return dllm_engine_new(nullptr, out, err); });
  return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_load(engine.get(), context.text("run").c_str(), nullptr, context.task(), out,
                           err);
  });
}

void print_export(const Context& context, const Json& report, const std::string& sentence) {
  if (context.json())
    std::printf("%s\n", report.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  else
    std::printf("%s: %s\n", context.text("out").c_str(), sentence.c_str());
}

// Returns "attention bidirectional, shift 1 and mask token 31".
std::string use_of(const dllm_model* model) {
  const Json about = Json::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(model, out, err); }));
  int64_t mask = -1; // a next-token model has none
  const bool has_mask = dllm_model_i64(model, "mask_id", &mask, nullptr) == DLLM_OK;
  return "attention " + about.at("attention").get<std::string>() + ", shift " +
         about.at("shift").dump() +
         (has_mask ? " and mask token " + std::to_string(mask) : ", and no mask token");
}

int export_adapter(Context& context, const std::vector<std::string>& names) {
  for (const char* key : {"format", "overwrite", "weights"}) {
    refuse_typed(context, "quantize", key,
                 "the run has an adapter, which is written in f32 to a new folder; --merge writes "
                 "a whole model");
  }
  if (names.size() > 1) {
    throw Failure(DLLM_FAILED_PRECONDITION,
                  context.text("run") + " has several adapters, and a folder of PEFT holds one",
                  "--merge writes the model with all of them; dllm_model_save_adapter saves each");
  }
  Json adapter;
  {
    StatusLine status;
    status.follow(context.task(), copied_text);
    const Owned<dllm_model> model = load_run(context);
    adapter = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                return dllm_model_adapters(model.get(), out, err);
              })).at(0);
    call([&](dllm_error* err) {
      return dllm_model_save_adapter(model.get(), context.text("out").c_str(), names[0].c_str(),
                                     context.task(), err);
    });
    adapter["note"] = "the adapter was trained with " + use_of(model.get()) +
                      ". dllm reads this in dllm.json of the folder, and PEFT does not. --merge "
                      "writes a whole model";
  }
  keep_row_settings(context.text("run"), context.text("out"));
  adapter["out"] = context.text("out");
  const Json& rank = adapter.at("rank");
  const std::string what = rank == 0 ? "adapter of kind " + adapter.at("kind").get<std::string>()
                                     : "adapter of rank " + rank.dump();
  print_export(context, adapter,
               what + ", " + adapter.at("modules").dump() + " matrices, " +
                   bytes_text(adapter.at("bytes").get<double>()));
  if (!context.json()) std::printf("note: %s\n", adapter["note"].get<std::string>().c_str());
  return 0;
}

// Writes the merged model of the run into a folder. Returns a note on its use.
std::string save_merged(Context& context, const std::string& folder, const std::string& format,
                        bool overwrite) {
  StatusLine status;
  status.follow(context.task(), copied_text);
  const Owned<dllm_model> model = load_run(context);
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("save", out, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_str(options.get(), "dtype", format.c_str(), err);
  });
  call([&](dllm_error* err) {
    return dllm_options_set_i64(options.get(), "overwrite", overwrite ? 1 : 0, err);
  });
  call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), "merge", 1, err); });
  call([&](dllm_error* err) {
    return dllm_model_save(model.get(), folder.c_str(), options.get(), context.task(), err);
  });
  return "the model has " + use_of(model.get()) +
         ". transformers computes its class causally and without a shift, unless a mask says "
         "otherwise";
}

// A folder next to a result, which is removed at the end. A command that was killed leaves it.
class MergedFolder {
public:
  explicit MergedFolder(std::string path) : path_(std::move(path)) {
    if (std::filesystem::exists(path_)) {
      throw Failure(DLLM_ALREADY_EXISTS, path_ + " is there already",
                    "a merge that was killed leaves it: remove it, or choose another name");
    }
  }
  const std::string& path() const { return path_; }
  ~MergedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MergedFolder(const MergedFolder&) = delete;
  MergedFolder& operator=(const MergedFolder&) = delete;

private:
  std::string path_;
};

// Writes the merged model in a format of codes, or as a GGUF file: first as f32 next to it, so that
// each number is rounded once.
int export_merged_as(Context& context, const std::string& out) {
  if (std::filesystem::exists(out) && context.option("quantize", "overwrite") != "true") {
    throw Failure(DLLM_ALREADY_EXISTS, out + " is there already",
                  "choose another name, or --overwrite true");
  }
  const MergedFolder merged(out.substr(0, out.find_last_not_of('/') + 1) + ".merging");
  save_merged(context, merged.path(), "f32", false);
  keep_row_settings(context.text("run"), merged.path());
  return write_form(context, merged.path(), out);
}

int export_merged(Context& context, const std::vector<std::string>& names) {
  if (names.empty()) {
    throw Failure(DLLM_FAILED_PRECONDITION, context.text("run") + " has no adapter to merge",
                  "leave --merge out");
  }
  refuse_typed(context, "quantize", "weights", "moving averages of an adapter are not merged");
  const auto format = Json::parse(context.option("quantize", "format")).get<std::string>();
  const std::string out = context.text("out");
  const bool is_plain = format == "auto" || format == "f32" || format == "bf16" || format == "f16";
  if (out.ends_with(".gguf") || !is_plain) return export_merged_as(context, out);
  const bool overwrite = context.option("quantize", "overwrite") == "true";
  const std::string note = save_merged(context, out, format, overwrite);
  keep_row_settings(context.text("run"), out);
  const char* what = names.size() == 1 ? "its adapter" : "its adapters";
  print_export(context, Json{{"out", context.text("out")}, {"merged", names}, {"note", note}},
               std::string("the model with ") + what + " in the weights");
  if (!context.json()) std::printf("note: %s\n", note.c_str());
  return 0;
}

int export_run(Context& context) {
  const std::string to = context.text("out");
  if (to.ends_with(".gguf") && !context.flag("merge"))
    throw UsageFailure("dllm export writes a folder, not " + to, "dllm convert writes a GGUF file");
  const std::vector<std::string> adapters = adapters_of(context, context.text("run"));
  if (context.flag("merge")) return export_merged(context, adapters);
  if (!adapters.empty()) return export_adapter(context, adapters);
  return write_form(context, context.text("run"), to);
}

} // namespace

Command export_command() {
  using Kind = Argument::Kind;
  return {"export",
          "write a run or a checkpoint as a folder that transformers reads, or an adapter for PEFT",
          "dllm export runs/quickstart quickstart-hf --format bf16",
          {{Kind::positional, "run", "", "a run, a checkpoint or any model", true},
           {Kind::positional, "out", "", "the folder to create", true},
           {Kind::flag, "merge", "",
            "add the adapter of the run to the weights, and write the whole model; without it only "
            "the adapter of such a run is written"}},
          {"quantize"},
          export_run,
          false,
          {{"quantize", "format", "auto"}}};
}

} // namespace dllm::cli
