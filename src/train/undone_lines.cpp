#include "train/undone_lines.h"

#include "base/files.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace dllm::train {
namespace {

bool is_undone(const std::string& line, int64_t step) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return false;
  const auto found = object.find("step");
  return found != object.end() && found->is_number_integer() && found->get<int64_t>() > step;
}

} // namespace

bool drop_undone_lines(const std::string& path, int64_t step) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const std::string text = read_text(path);
  std::string kept;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (!is_undone(line, step)) kept += line + "\n";
  }
  if (kept.size() == text.size()) return false;
  write_file_atomic(path, kept);
  return true;
}

} // namespace dllm::train
