#include "handles.h"

#include "base/named_table.h"
#include "cpu/engine.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "generate/generator.h"
#include "generate/request_options.h"
#include "graph/engine.h"
#include "hub/pull.h"
#include "model/adapters/adapter.h"
#include "model/files/quantize.h"
#include "model/model.h"
#include "model/plan.h"
#include "noise/objective.h"
#include "noise/schedules/schedule.h"
#include "text/answer/answer.h"
#include "text/chat/chat.h"
#include "text/data/dataset.h"
#include "text/data/loader.h"
#include "text/tokenizer.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dllm;
using namespace dllm::abi;

Options dllm::abi::options_of(const dllm_options* opts, std::string_view kind) {
  const dllm_options* given = optional(opts, "opts");
  if (given == nullptr) return Options(schema_of(kind));
  const std::string& own = given->object.schema().kind();
  const std::string_view own_base = std::string_view(own).substr(0, own.find(':'));
  const std::string_view wanted_base = kind.substr(0, kind.find(':'));
  const bool fits =
      own == kind || (own_base == wanted_base && (own == own_base || kind == wanted_base));
  if (!fits) {
    fail_with_hint(fmt::format("make them with dllm_options_new(\"{}\")", kind),
                   Code::invalid_argument, "opts are of kind {}, this call takes {}", own, kind);
  }
  return given->object;
}

dllm_status dllm_options_new(const char* kind, dllm_options** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_options(schema_of(need_text(kind, "kind")));
  });
}

void dllm_options_release(dllm_options* opts) {
  release(opts);
}

dllm_status dllm_options_set_i64(dllm_options* opts, const char* key, int64_t value,
                                 dllm_error* err) {
  return guard(err, [&] { need(opts, "opts").object.set_i64(need_text(key, "key"), value); });
}

dllm_status dllm_options_set_f64(dllm_options* opts, const char* key, double value,
                                 dllm_error* err) {
  return guard(err, [&] { need(opts, "opts").object.set_f64(need_text(key, "key"), value); });
}

dllm_status dllm_options_set_str(dllm_options* opts, const char* key, const char* value,
                                 dllm_error* err) {
  return guard(err, [&] {
    need(opts, "opts").object.set_str(need_text(key, "key"), need_text(value, "value"));
  });
}

dllm_status dllm_options_set_json(dllm_options* opts, const char* json, int64_t size,
                                  dllm_error* err) {
  return guard(err, [&] {
    Options& object = need(opts, "opts").object;
    try {
      object.set_json(parse_json(need_content(json, size, "json"), "json"));
    } catch (const Error& e) {
      if (e.code() != Code::data_loss) throw;
      fail(Code::invalid_argument, "{}", e.text());
    }
  });
}

dllm_status dllm_options_to_json(const dllm_options* opts, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(opts, "opts").object.to_json()); });
}

dllm_status dllm_options_schema(const char* kind, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    const std::string_view wanted = need_text(kind, "kind");
    Json made = schema_of(wanted).to_json();
    constexpr std::string_view kObjective = "objective:";
    if (wanted.starts_with(kObjective)) {
      const std::string name(wanted.substr(kObjective.size()));
      made["about"] = noise::to_json(noise::objective_facts(name));
    }
    fill_json(out, made);
  });
}

namespace dllm::abi {

// The table of all kinds of options and their schemas.

namespace {

const Schema& lua_schema() {
  static const Schema schema(
      "lua",
      {option_choice("sandbox", "safe", {"safe", "files", "full"},
                     "safe: no files, processes or native code; files: the library's files below "
                     "roots too; full: "
                     "everything, with the standard libraries of Lua."),
       option_list("roots", {}, "Folders that level files reaches, with all below them."),
       option_i64("memory_limit", -1, -1, int64_t{1} << 50,
                  "Most bytes of the script's heap and of the library's objects that it makes; 0: "
                  "no limit; -1: 1 GiB, no limit at level full."),
       option_i64("step_limit", 0, 0, INT64_MAX,
                  "Most instructions of one call, including the steps that library functions "
                  "charge for their work; 0: no limit."),
       option_str("path", "", "Folders of modules for require, separated by ';' (full level)."),
       option_i64("seed", 0, INT64_MIN, INT64_MAX,
                  "Seed of math.random, which gives the same numbers everywhere.")});
  return schema;
}

struct KindRow {
  std::string kind;
  const Schema* schema;
};

void add_named(std::vector<KindRow>& rows, const std::string& base, const Schema& general,
               const std::vector<std::string>& names, const Schema& (*schema)(const std::string&)) {
  rows.push_back({base, &general});
  for (const std::string& name : names) rows.push_back({base + ":" + name, &schema(name)});
}

const std::vector<KindRow>& kinds() {
  static const std::vector<KindRow> table = [] {
    std::vector<KindRow> rows = {
        {"adapter", &model::adapter_schema()},
        {"answer", &text::answer_schema()},
        {"chat", &text::chat_schema()},
        {"checkpoint", &train::checkpoint_schema()},
        {"dataset", &text::dataset_schema()},
        {"engine", &graph::engine_schema()},
        {"forward", &model::forward_schema()},
        {"generator", &generate::generator_schema()},
        {"hub", &hub::hub_schema()},
        {"loader", &text::loader_schema()},
        {"lua", &lua_schema()},
        {"model", &model::model_schema()},
        {"plan", &model::plan_schema()},
        {"quantize", &model::quantize_schema()},
        {"save", &model::save_schema()},
        {"sink", &train::sink_schema()},
        {"slot", &decode::request_schema()},
        {"tokenizer", &text::tokenizer_schema()},
        {"tokenizer_train", &text::tokenizer_train_schema()},
        {"trainer", &train::trainer_schema()},
    };
    add_named(rows, "decoder", decode::decoder_schema(""), decode::policy_names(),
              decode::decoder_schema);
    add_named(rows, "objective", noise::objective_schema(""), noise::objective_names(),
              noise::objective_schema);
    add_named(rows, "request", generate::request_schema(), decode::policy_names(),
              generate::request_schema);
    add_named(rows, "schedule", noise::schedule_schema(""), noise::schedule_names(),
              noise::schedule_schema);
    return rows;
  }();
  return table;
}

} // namespace

const Schema& schema_of(std::string_view kind) {
  // A name after a known base has its own table, so the error lists the names of that table.
  const size_t colon = std::min(kind.find(':'), kind.size());
  const std::string_view base = kind.substr(0, colon);
  if (const std::string name(kind.substr(std::min(colon + 1, kind.size()))); !name.empty()) {
    if (base == "decoder") return decode::decoder_schema(name);
    if (base == "request") return generate::request_schema(name);
    if (base == "objective") return noise::objective_schema(name);
    if (base == "schedule") return noise::schedule_schema(name);
  }
  const Lookup lookup{"kind of options", "", "dllm_registry_name(\"options\", i) lists the kinds"};
  return *need_named(kinds(), kind, &KindRow::kind, lookup).schema;
}

const char* option_kind_name(int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(kinds().size())) return nullptr;
  return kinds()[static_cast<size_t>(index)].kind.c_str();
}

} // namespace dllm::abi
