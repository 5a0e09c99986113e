#include "ckpt/commit_file.h"

#include "base/error.h"
#include "base/json.h"
#include "ckpt/safe_path.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace dllm::ckpt {
namespace {

constexpr int64_t kFormat = 1;

int64_t number(const Json& object, const char* key, std::string_view what, int64_t max) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > static_cast<uint64_t>(max)) {
    fail(Code::data_loss, "{}: {} is missing or not a number from 0 to {}", what, key, max);
  }
  return found->get<int64_t>();
}

CommitEntry parse_entry(const Json& file, std::string_view what) {
  if (!file.is_object()) fail(Code::data_loss, "{}: an entry of files is no object", what);
  const auto path = file.find("path");
  if (path == file.end() || !path->is_string())
    fail(Code::data_loss, "{}: an entry of files has no path", what);
  CommitEntry entry;
  entry.path = path->get<std::string>();
  if (!is_safe_path(entry.path) || entry.path == kCommitName) {
    fail(Code::data_loss, "{}: \"{}\" is no file of a checkpoint", what, entry.path);
  }
  entry.size = number(file, "size", what, std::numeric_limits<int64_t>::max());
  entry.crc32 =
      static_cast<uint32_t>(number(file, "crc32", what, std::numeric_limits<uint32_t>::max()));
  return entry;
}

} // namespace

std::string commit_text(const Commit& commit) {
  Json files = Json::array();
  for (const CommitEntry& entry : commit.files) {
    files.push_back({{"path", entry.path}, {"size", entry.size}, {"crc32", entry.crc32}});
  }
  const Json root = {{"format", kFormat}, {"step", commit.step}, {"files", std::move(files)}};
  return root.dump(1) + "\n";
}

Commit parse_commit(std::string_view text, std::string_view what) {
  const Json root = parse_json(text, what);
  if (!root.is_object()) fail(Code::data_loss, "{} is no JSON object", what);
  const int64_t format = number(root, "format", what, std::numeric_limits<int64_t>::max());
  if (format != kFormat)
    fail(Code::unimplemented, "{} has format {}, expected {}", what, format, kFormat);
  Commit commit;
  commit.step = number(root, "step", what, std::numeric_limits<int64_t>::max());
  const auto files = root.find("files");
  if (files == root.end() || !files->is_array())
    fail(Code::data_loss, "{}: there is no list of files", what);
  for (const Json& file : *files) commit.files.push_back(parse_entry(file, what));
  const auto by_path = [](const CommitEntry& a, const CommitEntry& b) { return a.path < b.path; };
  std::sort(commit.files.begin(), commit.files.end(), by_path);
  for (size_t i = 1; i < commit.files.size(); ++i) {
    if (commit.files[i].path != commit.files[i - 1].path) continue;
    fail(Code::data_loss, "{}: {} is listed twice", what, commit.files[i].path);
  }
  return commit;
}

} // namespace dllm::ckpt
