#include "ckpt/checkpoint/checkpoint_check.h"

#include "base/error.h"
#include "base/files.h"
#include "base/store/objects.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

namespace dllm::ckpt {
namespace {

namespace fs = std::filesystem;

bool is_behind_link(const std::string& folder, const std::string& relative) {
  for (size_t end = 0; end != std::string::npos;) {
    end = relative.find('/', end + 1);
    if (is_link(join_path(folder, relative.substr(0, end)))) return true;
  }
  return false;
}

std::string fault_of(const std::string& folder, const CommitEntry& entry, Task* task) {
  const std::string path = join_path(folder, entry.path);
  if (is_behind_link(folder, entry.path)) return "is a symbolic link, which no save writes";
  if (is_directory(path)) return "is not a regular file";
  if (!file_exists(path)) return fmt::format("is missing, {} bytes expected", entry.size);
  const ContentRef file = open_content(path);
  if (file->size() != entry.size)
    return fmt::format("has {} bytes, {} expected", file->size(), entry.size);
  const uint32_t found = file_checksum(*file, task);
  if (found == entry.crc32) return {};
  return fmt::format("has crc32 {:08x}, {:08x} expected: its content changed", found, entry.crc32);
}

CheckedFile check_file(const std::string& folder, const CommitEntry& entry, Task* task) {
  try {
    return {entry, fault_of(folder, entry, task)};
  } catch (const Error& error) {
    if (error.code() == Code::cancelled || error.code() == Code::deadline_exceeded) throw;
    return {entry, error.text()};
  }
}

std::vector<std::string> unlisted_files(const std::string& folder, const Commit& commit) {
  std::set<std::string> named = {kCommitName};
  for (const CommitEntry& entry : commit.files) named.insert(entry.path);
  std::vector<std::string> found;
  std::error_code error, ignored;
  const auto readable = fs::directory_options::skip_permission_denied;
  // The ++ of a range-for would throw; a folder that goes away meanwhile ends the walk.
  for (fs::recursive_directory_iterator at(folder, readable, error), end; !error && at != end;
       at.increment(error)) {
    std::string path = at->path().lexically_relative(folder).generic_string();
    if (!at->is_directory(ignored) && !named.contains(path)) found.push_back(std::move(path));
  }
  std::ranges::sort(found);
  return found;
}

} // namespace

CheckedFolder check_folder(const std::string& folder, Task* task) {
  const store::TransferTask transfers(task);
  const std::string path = join_path(folder, kCommitName);
  if (!file_exists(path)) {
    fail(Code::not_found, "{} is not a finished checkpoint: it holds no COMMIT", folder);
  }
  const Commit commit = parse_commit(read_text(path, kMaxCommitBytes), path);
  CheckedFolder made;
  made.step = commit.step;
  int64_t done = 0, total = 0;
  for (const CommitEntry& entry : commit.files) total += entry.size;
  for (const CommitEntry& entry : commit.files) {
    if (task != nullptr) task->set_progress(done, total);
    made.files.push_back(check_file(folder, entry, task));
    done += entry.size;
  }
  if (task != nullptr) task->set_progress(total, total);
  if (!is_store_path(folder)) made.unlisted = unlisted_files(folder, commit);
  return made;
}

Json to_json(const CheckedFolder& folder) {
  Json files = Json::array();
  for (const CheckedFile& file : folder.files) {
    files.push_back({{"path", file.entry.path},
                     {"size", file.entry.size},
                     {"crc32", file.entry.crc32},
                     {"fault", file.fault}});
  }
  return {{"step", folder.step}, {"files", std::move(files)}, {"unlisted", folder.unlisted}};
}

} // namespace dllm::ckpt
