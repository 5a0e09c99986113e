#include "pulling.h"

#include "../commands/compile/compile_report.h"
#include "../options/names.h"
#include "../processes/process.h"
#include "fit.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// The line that shows a pull: file, bytes, rate, remaining time.
class TransferLine {
public:
  explicit TransferLine(const Json& plan) {
    size_t count = 0;
    for (const Json& file : plan.at("files")) {
      if (file.value("cached", false) || !file.value("weights", false)) continue;
      what_ = short_path(file.value("path", ""));
      ++count;
    }
    if (count > 1) what_ = std::to_string(count) + " files"; // several are loaded at once
  }

  std::string text(int64_t done, int64_t total) {
    if (total <= 0) return "";
    const auto now = Clock::now();
    if (first_ < 0 && done > 0) first_ = static_cast<double>(done), start_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate =
        first_ >= 0 && seconds > 1 ? (static_cast<double>(done) - first_) / seconds : 0;
    std::string line = what_ + "  " + bytes_text(static_cast<double>(done)) + " of " +
                       bytes_text(static_cast<double>(total));
    if (rate <= 0) return line;
    return line + "  " + bytes_text(rate) + "/s  " +
           time_text(static_cast<double>(total - done) / rate) + " left";
  }

private:
  static std::string short_path(const std::string& path) {
    constexpr size_t kMost = 40;
    return path.size() <= kMost ? path : "..." + path.substr(path.size() - kMost + 3);
  }

  static std::string time_text(double seconds) {
    const auto whole = static_cast<int64_t>(std::min(seconds, 1e9));
    if (whole < 60) return std::to_string(whole) + " s";
    if (whole < 3600)
      return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
    return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
  }

  std::string what_ = "descriptions";
  double first_ = -1; // bytes at the first look, which an earlier pull may have loaded
  Clock::time_point start_;
};

Json describe(const std::string& name, const dllm_options* options, dllm_task* task) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_hub_describe(name.c_str(), options, task, out, err);
  }));
}

void set_weights(dllm_options* options, bool weights) {
  call([&](dllm_error* err) {
    return dllm_options_set_i64(options, "weights", weights ? 1 : 0, err);
  });
}

bool has_option(const dllm_options* options, const char* key) {
  const Json all = Json::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_options_to_json(options, out, err); }));
  return all.value(key, false);
}

bool has_file(const Json& plan, const char* path) {
  const Json& files = plan.at("files");
  return std::any_of(files.begin(), files.end(),
                     [&](const Json& file) { return file.value("path", "") == path; });
}

// Loads the descriptions of a model and plans its decoding.
Json plan_fit(const std::string& name, const Json& plan, dllm_options* options, dllm_task* task,
              bool quiet, bool is_used) {
  if (!has_file(plan, "config.json") || has_file(plan, "adapter_config.json")) return nullptr;
  set_weights(options, false);
  const std::string folder = pull_path(name, options, task);
  set_weights(options, true);
  const Fit fit = fit_of(folder, plan.value("memory", 0.0), task);
  if (is_used && !fit.is_readable) {
    throw Failure(DLLM_UNIMPLEMENTED, name + ": " + fit.unknown,
                  "its weights were not loaded; dllm pull " + shell_word(name) + " loads them");
  }
  if (!quiet) std::fprintf(stderr, "%s %s\n", name.c_str(), fit_text(fit).c_str());
  return fit_json(fit);
}

std::string pull_with_line(const std::string& name, const Json& plan, const dllm_options* options,
                           dllm_task* task, bool quiet) {
  TransferLine line(plan); // outlives the thread of the status line, which reads it
  StatusLine status(quiet);
  status.follow(task, [&line](int64_t done, int64_t total) { return line.text(done, total); });
  try {
    return pull_path(name, options, task);
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_CANCELLED) throw;
    int64_t done = 0, total = 0;
    dllm_task_progress(task, &done, &total);
    throw Failure(DLLM_CANCELLED,
                  "the pull of " + name +
                      " was interrupted: " + bytes_text(static_cast<double>(done)) + " of " +
                      bytes_text(static_cast<double>(total)) + " are kept",
                  "the same command goes on from there");
  }
}

} // namespace

std::string pull_path(const std::string& name, const dllm_options* options, dllm_task* task) {
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_hub_pull(name.c_str(), options, task, out, err);
  });
}

Owned<dllm_options> hub_options(bool is_offline) {
  auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("hub", out, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_i64(options.get(), "offline", is_offline ? 1 : 0, err);
  });
  return options;
}

Json pull_name(const std::string& name, dllm_options* options, dllm_task* task, bool quiet,
               bool is_used) {
  if (has_option(options, "offline"))
    return {{"name", name}, {"path", pull_path(name, options, task)}, {"missing", 0}};
  Json plan = describe(name, options, task);
  const double missing = plan.value("missing", 0.0);
  if (!quiet && missing > 0) {
    std::fprintf(stderr, "%s: %s in %zu files, of which %s are to be loaded\n", name.c_str(),
                 bytes_text(plan.value("bytes", 0.0)).c_str(), plan.at("files").size(),
                 bytes_text(missing).c_str());
  }
  const bool has_room = missing <= plan.value("free", 0.0); // else the pull says the numbers
  if (has_room && has_option(options, "weights"))
    plan["fit"] = plan_fit(name, plan, options, task, quiet, is_used);
  plan["path"] = pull_with_line(name, plan, options, task, quiet);
  for (const char* key : {"files", "free", "memory"}) plan.erase(key);
  return plan;
}

} // namespace dllm::cli
