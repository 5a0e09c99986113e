#include "ckpt/checkpoint_folder.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/address.h"

#include <algorithm>
#include <map>
#include <set>

namespace dllm::ckpt {
namespace {

constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kTrash = ".trash";
// Stands in a folder from its first moment until COMMIT takes its place, so that the next writer
// distinguishes what a killed one left from a folder of the user's. It is the name under which COMMIT is
// written.
constexpr const char* kMark = "COMMIT.partial";

// Lists every file below `folder` in `files`, and every folder, deepest first, in `folders`. A link
// is a file, whatever its target.
void walk(const std::string& folder, const std::string& relative, std::vector<std::string>* files,
          std::vector<std::string>* folders) {
  for (const std::string& name : list_directory(folder)) {
    const std::string below = relative.empty() ? name : relative + "/" + name;
    const std::string path = join_path(folder, name);
    if (is_directory(path) && !is_link(path))
      walk(path, below, files, folders);
    else
      files->push_back(below);
  }
  folders->push_back(folder);
}

// What another process wrote and described, compared with what is there.
void check_described(const CommitEntry& entry, const std::string& path) {
  const int64_t size = file_size(path);
  if (size == entry.size) return;
  fail(Code::data_loss, "{} has {} bytes, the process that wrote it says {}", path, size,
       entry.size);
}

// Makes all content durable and describes it.
Commit seal(const std::string& folder, int64_t step, const std::vector<CommitEntry>& described,
            const Task* task) {
  std::vector<std::string> files, folders;
  walk(folder, "", &files, &folders);
  std::sort(files.begin(), files.end());
  Commit commit;
  commit.step = step;
  std::map<std::string_view, const CommitEntry*> known;
  for (const CommitEntry& entry : described) known[entry.path] = &entry;
  for (const std::string& relative : files) {
    check_task(task);
    if (relative == kMark) continue;
    const std::string path = join_path(folder, relative);
    if (!is_safe_path(relative) || is_link(path)) {
      fail(Code::invalid_argument, "the file name \"{}\" cannot stand in a checkpoint", relative);
    }
    if (const auto found = known.extract(relative); !found.empty()) {
      check_described(*found.mapped(), path);
      commit.files.push_back(*found.mapped());
      continue;
    }
    sync_path(path);
    const ContentRef file = open_content(path);
    commit.files.push_back({relative, file->size(), file_checksum(*file, task)});
  }
  if (!known.empty())
    fail(Code::data_loss, "{} is not there any more", join_path(folder, known.begin()->first));
  for (const std::string& path : folders) sync_path(path);
  return commit;
}

// Removes a folder that a save wrote. COMMIT and the mark go last, so that a kill halfway leaves a
// folder that is still known for what it is.
void remove_save(const std::string& folder) {
  for (const std::string& name : list_directory(folder)) {
    if (name != kCommitName && name != kMark) remove_all(join_path(folder, name));
  }
  remove_all(folder);
}

// A folder that a save began, or that another save was removing: empty, marked or committed.
bool is_leftover(const std::string& folder) {
  if (is_link(folder) || !is_directory(folder)) return false;
  return list_directory(folder).empty() || file_exists(join_path(folder, kMark)) ||
         file_exists(join_path(folder, kCommitName));
}

// Of "step_000500.partial" and "step_000500.trash".
bool is_leftover_name(const std::string& name) {
  for (const std::string_view end : {kPartial, kTrash}) {
    if (!name.ends_with(end)) continue;
    const auto step = checkpoint_step(std::string_view(name).substr(0, name.size() - end.size()));
    if (step && name == checkpoint_name(*step) + std::string(end)) return true;
  }
  return false;
}

void clean_leftovers(const std::string& root) {
  for (const std::string& name : list_directory(root)) {
    const std::string path = join_path(root, name);
    if (!is_leftover_name(name)) continue;
    if (is_leftover(path))
      remove_save(path);
    else
      log(LogLevel::warn, "{} stays: no save wrote it", path);
  }
}

// The first file below `folder` that its COMMIT does not name; "" when there is none. No COMMIT:
// the first file.
std::string foreign_file(const std::string& folder) {
  std::vector<std::string> files, folders;
  if (is_link(folder) || !is_directory(folder)) return "(it is no folder)";
  walk(folder, "", &files, &folders);
  std::sort(files.begin(), files.end());
  std::set<std::string> own;
  const std::string path = join_path(folder, kCommitName);
  if (file_exists(path) && !is_link(path)) {
    try {
      for (CommitEntry& entry : parse_commit(read_text(path, kMaxCommitBytes), path).files)
        own.insert(std::move(entry.path));
      own.insert(kCommitName);
    } catch (const Error&) {
      return kCommitName; // damaged: what the folder holds is not known
    }
  }
  own.insert(kMark);
  for (const std::string& file : files) {
    if (!own.contains(file) || is_link(join_path(folder, file))) return file;
  }
  return "";
}

// Renamed first: a kill halfway leaves a folder that no reader takes for a checkpoint.
void delete_checkpoint(const std::string& folder) {
  const std::string foreign = foreign_file(folder);
  const std::string trash = folder + std::string(kTrash);
  if (!foreign.empty() || (file_exists(trash) && !is_leftover(trash))) {
    log(LogLevel::warn, "{} is kept: {} was not written by a save", folder,
        foreign.empty() ? trash : foreign);
    return;
  }
  if (file_exists(trash)) remove_save(trash);
  rename_path(folder, trash);
  remove_save(trash);
}

// Puts `partial` in the place of `final`, which may hold an older checkpoint of the same step.
void publish(const std::string& partial, const std::string& final) {
  if (!file_exists(final)) return rename_path(partial, final);
  if (swap_paths(partial, final)) {
    sync_path(parent_path(final));
    return remove_save(partial);
  }
  fail_with_hint("save at another step, or remove the folder first", Code::already_exists,
                 "{} is there already and this file system cannot replace a folder in one step",
                 final);
}

// A folder without a COMMIT holds files that no save finished: a model folder of that name, notes.
void check_replaceable(const std::string& folder) {
  if (!file_exists(folder) && !is_link(folder)) return;
  const std::string foreign = foreign_file(folder);
  if (foreign.empty()) return;
  fail_with_hint("move it away, or save elsewhere", Code::already_exists,
                 "{} is not replaced: no save wrote {}", folder, foreign);
}

} // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("step_{:06}", step);
}

std::string partial_folder(const std::string& root, int64_t step) {
  return join_path(root, checkpoint_name(step)) + std::string(kPartial);
}

CheckpointWriter::CheckpointWriter(std::string root, int64_t step, const Task* task)
    : root_(std::move(root)), step_(step) {
  if (step < 0)
    fail(Code::invalid_argument, "a checkpoint's step must not be negative, got {}", step);
  const std::string place = root_;
  if (is_store_path(place)) root_ = staging_folder(place);
  make_directories(root_);
  sync_path(parent_path(root_));
  lock_ = std::make_unique<FolderLock>(root_, task);
  if (is_store_path(place)) objects_ = std::make_unique<ObjectCheckpoint>(place, step, task);
  clean_leftovers(root_);
  final_ = join_path(root_, checkpoint_name(step));
  check_replaceable(final_);
  partial_ = partial_folder(root_, step);
  check_replaceable(partial_); // ours was removed above
  make_directories(partial_);
  FileWriter(join_path(partial_, kMark)).close();
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  try {
    remove_save(partial_);
  } catch (const Error& e) {
    log(LogLevel::warn, "{} stays behind: {}", partial_, e.text());
  }
}

std::string CheckpointWriter::path(const std::string& relative) const {
  if (!is_safe_path(relative) || relative == kCommitName || relative == kMark) {
    fail(Code::invalid_argument, "\"{}\" is no file name inside a checkpoint", relative);
  }
  const std::string path = join_path(partial_, relative);
  make_directories(parent_path(path));
  return path;
}

std::string CheckpointWriter::commit(int64_t keep_last, const Task* task,
                                     const std::vector<CommitEntry>& described) {
  if (committed_) fail(Code::failed_precondition, "checkpoint {} is committed already", final_);
  const Commit commit = seal(partial_, step_, described, task);
  check_task(task);
  if (objects_ != nullptr) { // the destructor removes the local files
    objects_->begin(task);
    objects_->upload(partial_, task);
    objects_->seal(commit_text(commit), keep_last, task);
    return objects_->folder();
  }
  write_file_atomic(join_path(partial_, kCommitName), commit_text(commit));
  publish(partial_, final_);
  committed_ = true;
  if (keep_last <= 0) return final_;
  std::vector<CheckpointEntry> all = list_checkpoints(root_);
  // A run that was set back to an earlier step keeps what it has just written, whatever lies ahead
  // of it.
  std::erase_if(all, [&](const CheckpointEntry& entry) { return entry.step == step_; });
  for (size_t i = 0; i + static_cast<size_t>(keep_last) < all.size() + 1; ++i)
    delete_checkpoint(all[i].folder);
  return final_;
}

} // namespace dllm::ckpt
