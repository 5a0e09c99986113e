#include "run_settings.h"

#include <filesystem>

namespace dllm::cli {

namespace fs = std::filesystem;

std::string run_settings_file(const std::string& model) {
  std::error_code ignored;
  // The names of the folders above "." are known by the full path alone.
  fs::path folder = fs::absolute(model, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path(); // "runs/a/"
  constexpr int kMostLevels = 4;                             // RUN/best/step_000100/model
  for (int level = 0; level < kMostLevels && !folder.empty(); ++level) {
    const fs::path file = folder / "run.json";
    if (fs::is_regular_file(file, ignored)) return file.string();
    const std::string name = folder.filename();
    const bool is_part = name == "best" || name == "model" || name.rfind("step_", 0) == 0;
    if (!is_part) return {};
    folder = folder.parent_path();
  }
  return {};
}

} // namespace dllm::cli
