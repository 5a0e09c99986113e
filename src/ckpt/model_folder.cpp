#include "ckpt/model_folder.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint_folder.h"

#include <algorithm>

namespace dllm::ckpt {
namespace {

bool is_step(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

bool holds_tokenizer(const std::string& folder) {
  return file_exists(join_path(folder, "tokenizer.json")) || file_exists(join_path(folder, "vocab.json"));
}

} // namespace

std::string model_folder(const std::string& path) {
  if (!is_directory(path) || file_exists(join_path(path, "config.json"))) return path;
  const std::string inner = join_path(path, "model");
  if (file_exists(join_path(inner, "config.json"))) return inner;
  const std::vector<std::string> names = list_directory(path);
  if (std::none_of(names.begin(), names.end(), is_step)) return path;
  const auto latest = latest_checkpoint(path);
  if (!latest) {
    fail_with_hint(fmt::format("dllm verify {} prints what is wrong with each", path), Code::not_found,
                   "{}: no whole checkpoint is left", path);
  }
  return join_path(latest->folder, "model");
}

std::string tokenizer_folder(const std::string& path) {
  if (!is_directory(path)) return path;
  std::string found = path;
  try {
    found = model_folder(path);
  } catch (const Error& error) {
    if (error.code() != Code::not_found || !holds_tokenizer(path)) throw;
  }
  return holds_tokenizer(found) || !holds_tokenizer(path) ? found : path;
}

} // namespace dllm::ckpt
