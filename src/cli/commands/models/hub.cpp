// dllm pull loads models and data sets by name; dllm models looks at the cache.

#include "../../command.h"
#include "../../processes/process.h"
#include "../../pulling/pulling.h"
#include "../compile/compile_report.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <ctime>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int pull(Context& context) {
  const bool quiet = context.flag("quiet") || context.json();
  const Json report =
      pull_name(context.text("name"), context.options("hub"), context.task(), quiet, false);
  if (context.json())
    std::printf("%s\n", dump(report).c_str());
  else
    std::printf("%s\n", report.at("path").get<std::string>().c_str());
  return 0;
}

std::string date_text(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm local{};
  char text[32] = "";
  if (seconds > 0 && localtime_r(&time, &local) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d", &local);
  return text;
}

// Returns "main, v2" for the revisions of a snapshot, or the first digits of its commit.
std::string revisions_text(const Json& snapshot) {
  std::string made;
  for (const Json& revision : snapshot.at("revisions"))
    made += (made.empty() ? "" : ", ") + revision.get<std::string>();
  return made.empty() ? snapshot.value("commit", "").substr(0, 12) : made;
}

int list(const Context& context) {
  const Json rows = Json::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_hub_list(context.task(), out, err); }));
  if (context.json()) {
    std::printf("%s\n", dump(rows).c_str());
    return 0;
  }
  if (rows.empty()) std::fprintf(stderr, "the cache is empty: dllm pull NAME loads a model\n");
  for (const Json& row : rows) {
    std::string revisions;
    for (const Json& snapshot : row.at("snapshots"))
      revisions += (revisions.empty() ? "" : ", ") + revisions_text(snapshot);
    std::printf("%-48s %10s  %-10s  %s\n", row.value("name", "").c_str(),
                bytes_text(row.value("bytes", 0.0)).c_str(),
                date_text(row.value("used", int64_t{0})).c_str(), revisions.c_str());
    if (row.value("incomplete", 0.0) > 0) {
      std::printf("  %s of a pull that did not end: dllm pull %s goes on with them\n",
                  bytes_text(row.value("incomplete", 0.0)).c_str(), row.value("name", "").c_str());
    }
  }
  return 0;
}

std::string percent_text(int64_t done, int64_t total) {
  return total <= 0 ? "" : std::to_string(100 * done / total) + " %";
}

int verify(const Context& context, const std::string& name) {
  Json report;
  {
    StatusLine status(context.json());
    status.follow(context.task(), percent_text);
    report = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_hub_verify(name.c_str(), context.task(), out, err);
    }));
  }
  const Json& faults = report.at("faults");
  if (context.json()) {
    std::printf("%s\n", dump(report).c_str());
  } else {
    for (const Json& fault : faults)
      std::printf("%s: %s\n", fault.value("path", "").c_str(), fault.value("what", "").c_str());
    std::printf("%s: %lld files, %s read, %lld with a SHA-256, %zu faults\n", name.c_str(),
                report.value("files", 0LL), bytes_text(report.value("bytes", 0.0)).c_str(),
                report.value("checked", 0LL), faults.size());
  }
  if (faults.empty()) return 0;
  throw Failure(DLLM_DATA_LOSS, name + " has " + std::to_string(faults.size()) + " faults",
                "dllm models remove " + name + ", then dllm pull " + name);
}

int remove(const Context& context, const std::string& name) {
  const Json report = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_hub_remove(name.c_str(), context.task(), out, err);
  }));
  if (context.json())
    std::printf("%s\n", dump(report).c_str());
  else if (report.contains("names"))
    std::printf("%s: the name is removed, and %s keeps the files\n", name.c_str(),
                report["names"][0].get<std::string>().c_str());
  else
    std::printf("%s: %s are freed\n", name.c_str(), bytes_text(report.value("freed", 0.0)).c_str());
  return 0;
}

int models(Context& context) {
  const std::string what = context.text("what"), name = context.text("name");
  if (what == "list" && name.empty()) return list(context);
  if (what != "verify" && what != "remove") {
    throw UsageFailure("\"" + (what == "list" ? name : what) +
                           "\" is not something that dllm models does",
                       "write dllm models, dllm models verify NAME or dllm models remove NAME");
  }
  if (name.empty())
    throw UsageFailure("dllm models " + what + " needs a name", "dllm models lists the names");
  return what == "verify" ? verify(context, name) : remove(context, name);
}

} // namespace

Command pull_command() {
  using Kind = Argument::Kind;
  return {"pull",
          "load a model, an adapter or a data set from the hub into the cache",
          "dllm pull HuggingFaceTB/SmolLM2-135M-Instruct",
          {{Kind::positional, "name", "",
            "org/name, org/name@revision or org/name:file; dataset:org/name for a data set", true},
           {Kind::flag, "quiet", "", "print the path alone"}},
          {"hub"},
          pull};
}

Command models_command() {
  using Kind = Argument::Kind;
  return {"models",
          "list, check or remove the models and data sets in the cache of the hub",
          "dllm models verify HuggingFaceTB/SmolLM2-135M-Instruct",
          {{Kind::positional, "what", "list", "list, verify or remove"},
           {Kind::positional, "name", "",
            "of verify and remove: org/name, and org/name@revision to remove one revision"}},
          {},
          models};
}

} // namespace dllm::cli
