// Finds the names of the hub among the arguments of a command. This is the one place of the program
// where a name becomes a path.

#include "pulling.h"

#include "../processes/process.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::cli {
namespace {

// Arguments that name a model, an adapter's folder or a tokenizer, in every command that has them.
constexpr std::string_view kModels[] = {"model", "from", "tokenizer", "path", "reference"};

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

// Returns true for a text that may be a name: "org/name" with "@revision" and ":file". A text in a
// local folder ("runs/first") is a path, also when it does not exist.
bool may_be_name(const std::string& text) {
  if (text.empty() || exists(text)) return false;
  const size_t begin = text.rfind("dataset:", 0) == 0 ? sizeof "dataset:" - 1 : 0;
  const size_t slash = text.find('/', begin);
  if (slash == std::string::npos || slash == begin || text.find("://") != std::string::npos)
    return false;
  const std::string org = text.substr(begin, slash - begin);
  const std::string repo = text.substr(slash + 1, text.find_first_of(":@", slash) - slash - 1);
  return org[0] != '.' && org[0] != '~' && repo.find('/') == std::string::npos && !exists(org);
}

// Returns the path of a name that is in the cache as a whole, or nothing.
std::optional<std::string> cached(const std::string& name, dllm_task* task) {
  const auto options = hub_options(true);
  try {
    return pull_name(name, options.get(), task, true, true).at("path").get<std::string>();
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED) throw;
    return std::nullopt;
  }
}

void set(const Owned<dllm_options>& options, const char* key, int64_t value) {
  call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), key, value, err); });
}

// What a name means.
enum class Kind {
  model,
  data,     // a data set whose files are loaded before the command begins
  data_list // a data set whose rows are read while its files are loaded
};

// Returns the path of a text that may be a name, or the address of a data set. A text that the hub
// does not take as a name, and one that it does not have, is a path that does not exist.
std::string path_of(const std::string& name, Kind kind, const Context& context, bool quiet) {
  if (kind == Kind::model) {
    if (const auto found = cached(name, context.task())) return *found;
  }
  const auto options = hub_options();
  if (kind != Kind::model) set(options, "dataset", 1);
  if (kind == Kind::data_list) set(options, "weights", 0);
  try {
    if (kind == Kind::data_list) return pull_path(name, options.get(), context.task());
    return pull_name(name, options.get(), context.task(), quiet, true)
        .at("path")
        .get<std::string>();
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_INVALID_ARGUMENT) return name;
    const bool is_about_name = failure.status() == DLLM_NOT_FOUND ||
                               failure.status() == DLLM_UNAUTHENTICATED ||
                               failure.status() == DLLM_UNAVAILABLE;
    if (!is_about_name) throw;
    throw Failure(failure.status(),
                  "there is no file or folder " + name +
                      ", and as a name of the hub: " + failure.what(),
                  failure.hint());
  }
}

// Returns the place in a part of data where its rows or its times begin: "[...]" and "*2.5".
size_t end_of_place(const std::string& part) {
  size_t end = part.size();
  const size_t star = part.rfind('*');
  const bool has_times = star != std::string::npos && star + 1 < part.size() &&
                         part.find_first_not_of("0123456789.", star + 1) == std::string::npos;
  if (has_times) end = star;
  const size_t open = part.substr(0, end).rfind('[');
  return open != std::string::npos && end > 0 && part[end - 1] == ']' ? open : end;
}

// Replaces the names in data: parts that are joined by '+', each with its rows and times.
std::string data_with_paths(const std::string& data, Kind kind, const Context& context,
                            bool quiet) {
  if (exists(data)) return data;
  std::string made;
  for (size_t begin = 0; begin <= data.size();) {
    const size_t end = std::min(data.find('+', begin), data.size());
    const std::string part = data.substr(begin, end - begin);
    const std::string place = part.substr(0, end_of_place(part));
    made += begin == 0 ? "" : "+";
    made += may_be_name(place) ? path_of(place, kind, context, quiet) + part.substr(place.size())
                               : part;
    begin = end + 1;
  }
  return made;
}

// Returns what an argument may name, or nothing.
std::optional<Kind> kind_of(const std::string& argument, const Command& command,
                            const Context& context) {
  // In dllm tokenize IN OUT --model MODEL the first word is data.
  const bool is_in =
      argument == "tokenizer" && command.name == "tokenize" && context.typed("model");
  if (argument == "data" || is_in) {
    const bool has_rows =
        std::find(command.kinds.begin(), command.kinds.end(), "dataset") != command.kinds.end();
    // Other tasks of eval read the files themselves, as commands without rows do.
    const bool is_text = command.name != "eval" || context.text("task") == "text";
    return has_rows && is_text ? Kind::data_list : Kind::data;
  }
  const bool is_model =
      std::find(std::begin(kModels), std::end(kModels), argument) != std::end(kModels) ||
      (argument == "run" && command.name == "export");
  return is_model ? std::optional(Kind::model) : std::nullopt;
}

// Fails for the folder of a run that has saved no checkpoint. Its tokenizer is there already.
void check_has_checkpoint(const std::string& argument, const Command& command,
                          const std::string& path) {
  namespace fs = std::filesystem;
  const bool needs_weights =
      argument != "tokenizer" && command.name != "tokenize" && command.name != "verify";
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::exists(fs::path(path) / name, ignored); };
  if (!needs_weights || !has("run.json") || has("config.json")) return;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    if (entry.path().filename().string().starts_with("step_")) return;
  }
  throw Failure(DLLM_NOT_FOUND, path + " is a run that has saved no checkpoint yet",
                "dllm train saves one at its end, and earlier ones with --save-every N");
}

} // namespace

void pull_arguments(const Command& command, Context& context) {
  const bool quiet =
      context.json() || job_rank() > 0 || (context.has("quiet") && context.flag("quiet"));
  for (const Argument& argument : command.arguments) {
    const std::optional<Kind> kind = kind_of(argument.name, command, context);
    if (!kind || !context.typed(argument.name)) continue;
    const std::string given = context.text(argument.name);
    if (*kind != Kind::model)
      context.replace(argument.name, data_with_paths(given, *kind, context, quiet));
    else if (may_be_name(given))
      context.replace(argument.name, path_of(given, *kind, context, quiet));
    else
      check_has_checkpoint(argument.name, command, given);
  }
  if (!context.typed("model", "adapter")) return;
  const auto adapter = nlohmann::json::parse(context.option("model", "adapter"));
  if (!adapter.is_string() || !may_be_name(adapter.get<std::string>())) return;
  const std::string path = path_of(adapter.get<std::string>(), Kind::model, context, quiet);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("model"), "adapter", path.c_str(), err);
  });
}

std::string model_path(const std::string& given, const Context& context) {
  if (!may_be_name(given)) return given;
  return path_of(given, Kind::model, context, context.json() || job_rank() > 0);
}

} // namespace dllm::cli
