// Reads COMMIT and lists the checkpoints of a run.
#include "ckpt/checkpoint/checkpoint_folder.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/store/objects.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <memory>

namespace dllm::ckpt {

namespace {

constexpr int64_t kFormat = 1;
constexpr std::string_view kPrefix = "step_";

int64_t number(const Json& object, const char* key, std::string_view what, int64_t max) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > static_cast<uint64_t>(max)) {
    fail(Code::data_loss, "{}: {} is missing or not a number from 0 to {}", what, key, max);
  }
  return found->get<int64_t>();
}

CommitEntry parse_entry(const Json& file, std::string_view what) {
  if (!file.is_object()) fail(Code::data_loss, "{}: an entry of files is not an object", what);
  const auto path = file.find("path");
  if (path == file.end() || !path->is_string())
    fail(Code::data_loss, "{}: an entry of files has no path", what);
  CommitEntry entry;
  entry.path = path->get<std::string>();
  if (!is_safe_path(entry.path) || entry.path == kCommitName) {
    fail(Code::data_loss, "{}: \"{}\" cannot be the name of a file in a checkpoint", what,
         entry.path);
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
  if (!root.is_object()) fail(Code::data_loss, "{} is not a JSON object", what);
  const int64_t format = number(root, "format", what, std::numeric_limits<int64_t>::max());
  if (format != kFormat)
    fail(Code::unimplemented, "{} has format {}, expected {}", what, format, kFormat);
  Commit commit;
  commit.step = number(root, "step", what, std::numeric_limits<int64_t>::max());
  const auto files = root.find("files");
  if (files == root.end() || !files->is_array())
    fail(Code::data_loss, "{}: files is missing or not a list", what);
  for (const Json& file : *files) commit.files.push_back(parse_entry(file, what));
  const auto by_path = [](const CommitEntry& a, const CommitEntry& b) { return a.path < b.path; };
  std::sort(commit.files.begin(), commit.files.end(), by_path);
  for (size_t i = 1; i < commit.files.size(); ++i) {
    if (commit.files[i].path != commit.files[i - 1].path) continue;
    fail(Code::data_loss, "{}: {} is listed twice", what, commit.files[i].path);
  }
  return commit;
}

uint32_t file_checksum(const Content& file, const Task* task) {
  const int64_t chunk = file.piece();
  const auto room = static_cast<size_t>(std::min(chunk, file.size()));
  const auto buffer = std::make_unique<Bytef[]>(room);
  const store::TransferTask transfers(task);
  uLong crc = crc32(0, nullptr, 0);
  for (int64_t at = 0; at < file.size(); at += chunk) {
    check_task(task);
    const int64_t size = std::min(chunk, file.size() - at);
    file.read_to(at, size, buffer.get());
    crc = crc32(crc, buffer.get(), static_cast<uInt>(size));
  }
  return static_cast<uint32_t>(crc);
}

std::optional<int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

namespace {

// Fails with data_loss if the path or one of its folders is a symbolic link.
void check_no_link(const std::string& folder, const std::string& relative) {
  for (size_t end = 0; end != std::string::npos;) {
    end = relative.find('/', end + 1);
    const std::string path = join_path(folder, relative.substr(0, end));
    if (!is_link(path)) continue;
    fail_with_hint("copy the file itself into the checkpoint", Code::data_loss,
                   "{}: {} is a symbolic link, which no save writes", folder,
                   relative.substr(0, end));
  }
}

// The sizes of the files of a checkpoint. In an object store one request lists all of them.
class FileSizes {
public:
  explicit FileSizes(const std::string& folder)
      : folder_(folder), is_local_(!is_store_path(folder)) {
    if (is_local_) return;
    for (store::Object& object : store::list_objects(folder, store::TransferTask::current()))
      listed_[std::move(object.path)] = object.size;
  }
  // Returns nothing if the file does not exist.
  std::optional<int64_t> find(const std::string& relative) const {
    if (!is_local_) {
      const auto found = listed_.find(relative);
      return found == listed_.end() ? std::nullopt : std::optional(found->second);
    }
    check_no_link(folder_, relative);
    const std::string path = join_path(folder_, relative);
    return file_exists(path) ? std::optional(file_size(path)) : std::nullopt;
  }

private:
  const std::string& folder_;
  const bool is_local_;
  std::map<std::string, int64_t> listed_;
};

// Returns true if the error shows that the folder is not a checkpoint. Other errors of an object
// store, such as a lost connection, do not show it.
bool is_no_checkpoint(const std::string& folder, const Error& error) {
  return !is_store_path(folder) || error.code() == Code::data_loss ||
         error.code() == Code::not_found || error.code() == Code::unimplemented ||
         error.code() == Code::invalid_argument;
}

} // namespace

Commit open_checkpoint(const std::string& folder) {
  const std::string path = join_path(folder, kCommitName);
  const FileSizes sizes(folder);
  if (!sizes.find(kCommitName)) {
    fail_with_hint("a checkpoint folder is named step_000500 and holds a file COMMIT",
                   Code::not_found, "{} is not a finished checkpoint: it holds no COMMIT", folder);
  }
  Commit commit = parse_commit(read_text(path, kMaxCommitBytes), path);
  for (const CommitEntry& entry : commit.files) {
    const std::optional<int64_t> size = sizes.find(entry.path);
    if (!size) {
      fail(Code::data_loss, "{}: {} is missing, expected {} bytes", folder, entry.path, entry.size);
    }
    if (*size != entry.size) {
      fail(Code::data_loss, "{}: {} has {} bytes, expected {}", folder, entry.path, *size,
           entry.size);
    }
  }
  return commit;
}

namespace {

// Returns the files of one part. Each file goes to the part that has the fewest bytes so far.
std::vector<CommitEntry> files_of_part(const Commit& commit, int64_t part, int64_t parts) {
  std::vector<CommitEntry> own;
  std::vector<int64_t> bytes(static_cast<size_t>(parts));
  for (const CommitEntry& entry : commit.files) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += entry.size;
    if (least - bytes.begin() == part) own.push_back(entry);
  }
  return own;
}

} // namespace

void verify_checkpoint(const std::string& folder, Task* task, int64_t part, int64_t parts) {
  const store::TransferTask transfers(task);
  const std::vector<CommitEntry> files = files_of_part(open_checkpoint(folder), part, parts);
  int64_t done = 0, total = 0;
  for (const CommitEntry& entry : files) total += entry.size;
  for (const CommitEntry& entry : files) {
    if (task != nullptr) task->set_progress(done, total);
    const ContentRef file = open_content(join_path(folder, entry.path));
    const uint32_t found = file_checksum(*file, task);
    if (found != entry.crc32 || file->size() != entry.size) {
      fail_with_hint("move this folder away: a run then goes on from its checkpoint before it",
                     Code::data_loss, "{}: {} has the checksum {:08x}, expected {:08x}", folder,
                     entry.path, found, entry.crc32);
    }
    done += entry.size;
  }
  if (task != nullptr) task->set_progress(total, total);
}

namespace {

std::vector<std::string> names_in(const std::string& root) {
  return is_directory(root) ? list_directory(root) : std::vector<std::string>();
}

// Returns the valid checkpoints, newest first, at most `most`.
std::vector<CheckpointEntry> newest_checkpoints(const std::string& root, size_t most) {
  std::vector<CheckpointEntry> found;
  std::vector<CheckpointEntry> named;
  for (const std::string& name : names_in(root)) {
    if (const auto step = checkpoint_step(name)) named.push_back({*step, join_path(root, name)});
  }
  std::stable_sort(named.begin(), named.end(),
                   [](const auto& a, const auto& b) { return a.step > b.step; });
  for (CheckpointEntry& entry : named) {
    if (found.size() >= most) break;
    try {
      if (open_checkpoint(entry.folder).step == entry.step) found.push_back(std::move(entry));
    } catch (const Error& e) {
      if (!is_no_checkpoint(entry.folder, e)) throw;
      if (is_directory(entry.folder)) // else a training has just removed it
        log(LogLevel::warn, "{} is skipped: {}", entry.folder, e.text());
    }
  }
  return found;
}

} // namespace

std::vector<CheckpointEntry> list_checkpoints(const std::string& root) {
  std::vector<CheckpointEntry> found = newest_checkpoints(root, std::numeric_limits<size_t>::max());
  std::reverse(found.begin(), found.end());
  return found;
}

// A training that keeps few checkpoints may remove the listed ones before they are read. Then the
// folder holds newer ones.
std::optional<CheckpointEntry> latest_checkpoint(const std::string& root) {
  constexpr int kMostTries = 10;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::vector<std::string> names = names_in(root);
    std::vector<CheckpointEntry> newest = newest_checkpoints(root, 1);
    if (!newest.empty()) return std::move(newest.front());
    if (names_in(root) == names) break;
  }
  return std::nullopt;
}

} // namespace dllm::ckpt
