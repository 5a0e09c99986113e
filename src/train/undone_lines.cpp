#include "train/undone_lines.h"

#include "base/files.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace dllm::train {
namespace {

bool is_undone(std::string_view line, int64_t step) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto found = object.find("step");
  return found != object.end() && found->is_number_integer() && found->get<int64_t>() > step;
}

} // namespace

std::string without_undone_lines(std::string_view text, int64_t step) {
  std::string kept;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string_view::npos; at = end + 1) {
    if (!is_undone(text.substr(at, end - at), step)) kept += text.substr(at, end + 1 - at);
  }
  return kept;
}

bool drop_undone_lines(const std::string& path, int64_t step) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  const std::string file = std::filesystem::canonical(path, failed).string();
  if (failed) return false;
  const std::string text = read_text(file, INT64_MAX); // ours, and as long as the run was
  const std::string kept = without_undone_lines(text, step);
  if (kept.size() == text.size()) return false;
  write_file_atomic(file, kept);
  return true;
}

} // namespace dllm::train
