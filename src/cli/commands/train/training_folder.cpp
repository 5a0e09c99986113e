// This file finds the folder of a run, and the files of earlier starts in it.

#include "training.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

} // namespace

bool is_checkpoint(const std::string& folder) {
  const fs::path path = folder;
  std::error_code ignored;
  return path.filename().string().rfind("step_", 0) == 0 && fs::is_directory(path, ignored) &&
         !fs::is_symlink(path, ignored) &&
         (fs::exists(path / "COMMIT", ignored) || fs::exists(path / "COMMIT.partial", ignored));
}

bool is_in_store(const std::string& path) {
  return path.rfind("s3://", 0) == 0 || path.rfind("gs://", 0) == 0;
}

std::string run_folder(const Context& context) {
  const std::string out = context.text("out");
  if (!is_in_store(out)) return out;
  std::string folder = environment("DLLM_STAGING");
  if (folder.empty()) { // the folder in which the library stages checkpoints
    const std::string cache = environment("XDG_CACHE_HOME");
    folder = (cache.empty() ? environment("HOME") + "/.cache" : cache) + "/dllm/staging";
  }
  return folder + "/" + out.substr(0, 2) + "/" + out.substr(5);
}

std::string latest_checkpoint(const Context& context, const std::string& root) {
  const Owned<dllm_buffer> dir(dllm_buffer_new());
  try { // an unreachable store must not look empty: the run would begin again
    call([&](dllm_error* err) {
      return dllm_checkpoint_latest_task(root.c_str(), context.task(), dir.get(), err);
    });
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_NOT_FOUND) return {};
    throw;
  }
  return static_cast<const char*>(dllm_buffer_data(dir.get()));
}

int64_t step_of(const std::string& checkpoint) {
  constexpr size_t kPrefix = sizeof "step_" - 1;
  return std::strtoll(fs::path(checkpoint).filename().c_str() + kPrefix, nullptr, 10);
}

std::string metrics_file(const std::string& out, const std::string& kind) {
  return out + (kind == "tensorboard" ? "/tensorboard" : "/metrics." + kind);
}

std::string best_root(const Context& context) {
  return context.text("out") + "/best";
}

std::string best_place(const Context& context, const Run& run) {
  const bool is_newest =
      std::none_of(run.best.kept().begin(), run.best.kept().end(),
                   [&](const auto& kept) { return kept.second > run.best.step(); });
  if (is_newest) return best_root(context);
  char name[32];
  std::snprintf(name, sizeof name, "/step_%06lld", static_cast<long long>(run.best.step()));
  return best_root(context) + name;
}

void remove_best_after(const std::string& out, int64_t step) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out + "/best", ignored)) {
    if (is_checkpoint(entry.path()) && step_of(entry.path()) > step)
      fs::remove_all(entry.path(), ignored);
  }
}

} // namespace dllm::cli
