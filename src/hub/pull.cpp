#include "hub/pull.h"

#include "base/error.h"
#include "base/files.h"
#include "base/http/transfers.h"
#include "base/store/address.h"
#include "base/threads/meter.h" // machine_memory
#include "hub/cache/cache.h"
#include "hub/loading/transfer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::hub {
namespace {

Client client_of(std::string_view text, const Options& options) {
  Settings settings = settings_of_environment();
  settings.attempts = static_cast<int>(options.i64("attempts"));
  settings.is_offline = settings.is_offline || options.boolean("offline");
  return {std::move(settings), name_with(text, options)};
}

void load_missing(const Client& client, const Plan& plan, Task* task) {
  const RepoCache cache(client.settings().cache, client.name());
  std::vector<RemoteFile> missing;
  int64_t total = 0;
  for (const Plan::File& file : plan.files) {
    if (file.is_cached) continue;
    missing.push_back(file.remote);
    total += std::max<int64_t>(0, file.remote.size);
  }
  Progress progress(task, total);
  const auto count = static_cast<int64_t>(missing.size());
  http::run_transfers(count, task, [&](int64_t index, const Task* own) {
    load_file(client, cache, plan.commit, missing[static_cast<size_t>(index)], progress, own);
  });
}

} // namespace

const Schema& hub_schema() {
  static const Schema schema(
      "hub",
      {option_str("file", "",
                  "A file of the repository, a pattern with * and ?, or a word in the name of one "
                  "GGUF file (Q4_K_M); empty: the files that are usually needed."),
       option_str("revision", "",
                  "Branch, tag or commit; empty: the revision in the name, else main."),
       option_bool("dataset", false, "The name is the name of a data set."),
       option_bool(
           "weights", true,
           "false: only the descriptions of a model: config, tokenizer, chat template; of a "
           "data set the list of its files, and the result is its address."),
       option_bool("offline", false,
                   "true: only the cache is used, as with the variable HF_HUB_OFFLINE."),
       option_i64("attempts", 5, 1, 100,
                  "Attempts for one request; bytes that arrive begin the count anew.")});
  return schema;
}

Name name_with(std::string_view text, const Options& options) {
  Name name = need_name(text, options.boolean("dataset") ? RepoKind::dataset : RepoKind::model);
  for (const auto& [key, to] : {std::pair{"file", &name.file}, {"revision", &name.revision}}) {
    const std::string& value = options.str(key);
    if (value.empty()) continue;
    if (!is_safe_path(value)) {
      fail_with_hint("write it as the pages of the hub show it", Code::invalid_argument,
                     "{} \"{}\" is not a path below a repository", key, value.substr(0, 200));
    }
    *to = value;
  }
  return name;
}

Plan plan_pull(std::string_view text, const Options& options, const Task* task) {
  return plan_of(client_of(text, options), options.boolean("weights"), task);
}

Json to_json(const Plan& plan) {
  Json files = Json::array();
  int64_t bytes = 0;
  for (const Plan::File& file : plan.files) {
    bytes += std::max<int64_t>(0, file.remote.size);
    files.push_back({{"path", file.remote.path},
                     {"size", file.remote.size},
                     {"cached", file.is_cached},
                     {"weights", file.is_weights}});
  }
  return {{"name", text_of(plan.name)},
          {"commit", plan.commit},
          {"path", plan.path},
          {"bytes", bytes},
          {"missing", missing_bytes(plan)},
          {"free", plan.free},
          {"memory", machine_memory()},
          {"files", files}};
}

std::string pull(std::string_view text, const Options& options, Task* task) {
  const Client client = client_of(text, options);
  const bool weights = options.boolean("weights");
  const Plan plan = plan_of(client, weights, task);
  const bool is_data = plan.name.kind == RepoKind::dataset;
  if (is_data) keep_list(client, plan.known, task);
  if (is_data && !weights) {
    Name pinned = plan.name;
    pinned.revision = plan.commit;
    return address_of(pinned);
  }
  check_whole(plan);
  check_space(shown(plan.name), missing_bytes(plan), client.settings().cache);
  load_missing(client, plan, task);
  // A reference to a snapshot without its weights would look like a pull that ended.
  if (weights) keep_revision(client, plan.commit, task);
  return plan.path;
}

std::optional<std::string> cached_path(const Name& name) {
  const std::optional<Plan> plan = cached_plan(cache_folder(), name);
  return plan ? std::optional(plan->path) : std::nullopt;
}

std::string local_path(const std::string& path) {
  if (is_store_path(path) || file_exists(path)) return path;
  const std::optional<Name> name = parse_name(path);
  if (!name) return path;
  if (const auto found = cached_path(*name)) return *found;
  // A text in a folder of this machine is not a name.
  const bool is_local = file_exists(path.substr(0, path.find('/')));
  fail_with_hint(is_local ? std::string("check the path")
                          : fmt::format("if it is a name of the hub: dllm pull {}", path),
                 Code::not_found, "there is no file or folder {}", path);
}

} // namespace dllm::hub
