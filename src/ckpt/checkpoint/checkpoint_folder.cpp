#include "ckpt/checkpoint/checkpoint_folder.h"

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
// A folder holds the mark from its creation until COMMIT replaces it. By the mark the next writer
// distinguishes a folder that a killed writer left from a folder of the user. COMMIT is written
// under this name and renamed.
constexpr const char* kMark = "COMMIT.partial";

// Appends every file below `folder` to `files`, and every folder to `folders`, deepest first. A
// link counts as a file, whatever its target is.
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

// Compares a file with the description of the process that wrote it. Fails with data_loss.
void check_described(const CommitEntry& entry, const std::string& path) {
  const int64_t size = file_size(path);
  if (size == entry.size) return;
  fail(Code::data_loss, "{} has {} bytes, the process that wrote it says {}", path, size,
       entry.size);
}

// Makes all files and folders durable and returns their description.
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
      fail(Code::invalid_argument, "\"{}\" cannot be the name of a file in a checkpoint", relative);
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
    fail(Code::data_loss, "{} was removed while the checkpoint was written",
         join_path(folder, known.begin()->first));
  for (const std::string& path : folders) sync_path(path);
  return commit;
}

// Removes a folder that a save wrote. Removes COMMIT and the mark last, so that after a kill the
// next writer recognizes the folder.
void remove_save(const std::string& folder) {
  for (const std::string& name : list_directory(folder)) {
    if (name != kCommitName && name != kMark) remove_all(join_path(folder, name));
  }
  remove_all(folder);
}

// Returns true for a folder that a save began or was removing: it is empty or has the mark or
// COMMIT.
bool is_leftover(const std::string& folder) {
  if (is_link(folder) || !is_directory(folder)) return false;
  return list_directory(folder).empty() || file_exists(join_path(folder, kMark)) ||
         file_exists(join_path(folder, kCommitName));
}

// Returns true for "step_000500.partial" and "step_000500.trash".
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

// Returns the first file below `folder` that its COMMIT does not name, or "". Without a COMMIT
// every file counts, except the mark.
std::string foreign_file(const std::string& folder) {
  std::vector<std::string> files, folders;
  if (is_link(folder) || !is_directory(folder)) return "(it is not a folder)";
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
      return kCommitName; // a damaged COMMIT does not show whose the files are
    }
  }
  own.insert(kMark);
  for (const std::string& file : files) {
    if (!own.contains(file) || is_link(join_path(folder, file))) return file;
  }
  return "";
}

// Deletes a checkpoint, or logs why not. Renames the folder first, so that after a kill no reader
// takes it for a checkpoint.
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

// Renames `partial` to `final` and replaces an older checkpoint of the same step. Fails with
// already_exists if the file system cannot replace a folder in one step.
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

// Fails with already_exists if `folder` holds files that no save wrote, such as a user's model
// folder or notes.
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
  check_replaceable(partial_); // a folder that a save left was removed above
  make_directories(partial_);
  FileWriter(join_path(partial_, kMark)).close();
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  try {
    remove_save(partial_);
  } catch (const Error& e) {
    log(LogLevel::warn, "{} could not be removed: {}", partial_, e.text());
  }
}

std::string CheckpointWriter::path(const std::string& relative) const {
  if (!is_safe_path(relative) || relative == kCommitName || relative == kMark) {
    fail(Code::invalid_argument, "\"{}\" cannot be the name of a file in a checkpoint", relative);
  }
  const std::string path = join_path(partial_, relative);
  make_directories(parent_path(path));
  return path;
}

std::string CheckpointWriter::commit(const KeptCheckpoints& kept, const Task* task,
                                     const std::vector<CommitEntry>& described) {
  if (committed_) fail(Code::failed_precondition, "checkpoint {} is committed already", final_);
  const Commit commit = seal(partial_, step_, described, task);
  check_task(task);
  if (objects_ != nullptr) { // the destructor will remove the local files
    objects_->begin(task);
    objects_->upload(partial_, task);
    objects_->seal(commit_text(commit), kept, task);
    return objects_->folder();
  }
  write_file_atomic(join_path(partial_, kCommitName), commit_text(commit));
  publish(partial_, final_);
  committed_ = true;
  if (kept.last <= 0) return final_;
  std::vector<CheckpointEntry> all = list_checkpoints(root_);
  // This checkpoint is kept even if later steps exist, because the run may have been set back to an
  // earlier step.
  std::erase_if(all, [&](const CheckpointEntry& entry) { return entry.step == step_; });
  for (size_t i = 0; i + static_cast<size_t>(kept.last) < all.size() + 1; ++i)
    if (!kept.steps.contains(all[i].step)) delete_checkpoint(all[i].folder);
  return final_;
}

} // namespace dllm::ckpt
