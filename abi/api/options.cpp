#include "handles.h"

#include "base/named_table.h"
#include "cpu/engine.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "decode/trajectory/extractor.h"
#include "generate/generator.h"
#include "generate/queue/queue_options.h"
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
#include "train/anchors/anchor_pass.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer.h"

#include <fmt/ranges.h>
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

namespace {

// Fails with the error of an unknown key. The hint names the policies, objectives or schedules that
// have the key.
[[noreturn]] void fail_with_owners(const Error& error, const Options& options,
                                   std::string_view key) {
  const std::string& kind = options.schema().kind();
  const std::string owners = error.code() == Code::not_found ? owners_of(kind, key) : "";
  throw Error(error.code(), error.text(), owners.empty() ? error.hint() : owners);
}

// Returns the first key of an object that the schema lacks; "" when it has all of them.
std::string unknown_key(const Json& object, const Schema& schema) {
  for (const auto& [key, value] : object.items()) {
    if (find_named(schema.specs(), key, &OptionSpec::key) == nullptr) return key;
  }
  return "";
}

// Sets one key of options by `set`.
template <class Set>
dllm_status set_key(dllm_options* opts, const char* key, dllm_error* err, Set set) {
  return guard(err, [&] {
    Options& object = need(opts, "opts").object;
    const std::string_view name = need_text(key, "key");
    try {
      set(object, name);
    } catch (const Error& error) {
      fail_with_owners(error, object, name);
    }
  });
}

} // namespace

dllm_status dllm_options_set_i64(dllm_options* opts, const char* key, int64_t value,
                                 dllm_error* err) {
  return set_key(opts, key, err,
                 [&](Options& o, std::string_view name) { o.set_i64(name, value); });
}

dllm_status dllm_options_set_f64(dllm_options* opts, const char* key, double value,
                                 dllm_error* err) {
  return set_key(opts, key, err,
                 [&](Options& o, std::string_view name) { o.set_f64(name, value); });
}

dllm_status dllm_options_set_str(dllm_options* opts, const char* key, const char* value,
                                 dllm_error* err) {
  return set_key(opts, key, err, [&](Options& o, std::string_view name) {
    o.set_str(name, need_text(value, "value"));
  });
}

dllm_status dllm_options_set_json(dllm_options* opts, const char* json, int64_t size,
                                  dllm_error* err) {
  return guard(err, [&] {
    Options& object = need(opts, "opts").object;
    Json values;
    try {
      values = parse_json(need_content(json, size, "json"), "json");
      object.set_json(values);
    } catch (const Error& e) {
      if (e.code() == Code::data_loss) fail(Code::invalid_argument, "{}", e.text());
      fail_with_owners(e, object, unknown_key(values, object.schema()));
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
        {"anchors", &train::anchor_schema()},
        {"answer", &text::answer_schema()},
        {"chat", &text::chat_schema()},
        {"checkpoint", &train::checkpoint_schema()},
        {"dataset", &text::dataset_schema()},
        {"engine", &graph::engine_schema()},
        {"forward", &model::forward_schema()},
        {"generator", &generate::generator_schema()},
        {"queue", &generate::queue_schema()},
        {"submission", &generate::submission_schema()},
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
        {"trajectories", &decode::trajectory_schema()},
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

std::string owners_of(std::string_view kind, std::string_view key) {
  const std::string base(kind.substr(0, kind.find(':')));
  const bool is_decoding = base == "decoder" || base == "request";
  const std::string noun = is_decoding ? "policy" : base;
  std::vector<std::string> owners;
  for (const KindRow& row : kinds()) {
    if (row.kind.starts_with(base + ":") &&
        find_named(row.schema->specs(), key, &OptionSpec::key) != nullptr)
      owners.push_back(row.kind.substr(base.size() + 1));
  }
  if (owners.empty()) return "";
  return fmt::format("{} is an option of {} {}: name the {}", key, noun, fmt::join(owners, ", "),
                     noun);
}

const char* option_kind_name(int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(kinds().size())) return nullptr;
  return kinds()[static_cast<size_t>(index)].kind.c_str();
}

} // namespace dllm::abi
