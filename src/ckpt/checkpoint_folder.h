#pragma once
// Checkpoints of a run: folders step_000500 under a root. One is written as step_000500.partial, made durable, sealed by
// COMMIT and renamed in one step, so that a kill at any moment leaves the former checkpoint or the new one. COMMIT is the
// last file, with every other file's path, size and CRC-32 (zlib's). A folder without a valid one is no checkpoint.
//
// root may be a place in an object store ("s3://bucket/runs/first"): object_checkpoint.h.

#include "base/files.h"
#include "base/task.h"
#include "ckpt/object_checkpoint.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

struct CommitEntry {
  std::string path; // relative to the checkpoint, '/' between parts
  int64_t size = 0;
  uint32_t crc32 = 0;
};

struct Commit {
  int64_t step = 0;
  std::vector<CommitEntry> files; // sorted by path
};

inline constexpr const char* kCommitName = "COMMIT";
inline constexpr int64_t kMaxCommitBytes = int64_t{64} << 20;

std::string commit_text(const Commit& commit);
// `what` names the file in errors. data_loss for anything that is not exactly what commit_text
// writes: paths must stay inside the folder and be named once.
Commit parse_commit(std::string_view text, std::string_view what);

// File names that come from inside a file (an index, a COMMIT): they must stay in the folder they
// were read from.

// Relative, '/' between parts, no empty, "." or ".." part, no backslash, no control character, at
// most 1024 bytes.
inline bool is_safe_path(std::string_view path) {
  constexpr size_t kMaxLength = 1024;
  if (path.empty() || path.size() > kMaxLength) return false;
  for (const char c : path) {
    if (c == '\\' || static_cast<unsigned char>(c) < 0x20) return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = path.find('/', begin);
    if (end == std::string_view::npos) end = path.size();
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

// The same without a folder: shards lie in the folder of their index.
inline bool is_safe_name(std::string_view name) {
  return is_safe_path(name) && name.find('/') == std::string_view::npos;
}

// Writes one checkpoint. Of a root in an object store the files are written to its local staging folder, and commit()
// uploads them. The constructor waits until no other writer of `root`, in any process, is left (FolderLock),
// then removes what a killed one left (step_000500.partial, step_000500.trash) and nothing else. It fails with
// already_exists when the place of this step holds a file that no save wrote. Without commit() the destructor removes
// everything again. Not synchronised.
class CheckpointWriter {
public:
  CheckpointWriter(std::string root, int64_t step, const Task* task = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where to write the file `relative` ("model/config.json"); its folders are made. Use
  // base/files.h or the writers of this folder. A name that leaves the checkpoint is
  // invalid_argument.
  std::string path(const std::string& relative) const;
  // The folder while it is being written, for code that fills a whole folder.
  const std::string& folder() const { return partial_; }
  // Syncs every file and folder, writes COMMIT and renames. A committed checkpoint of the same step
  // is replaced. Then deletes all but the newest `keep_last` committed checkpoints of the root (0
  // or less keeps all; one that holds other files is kept). Returns the final folder. A cancelled task leaves the root as it was.
  // described: files of other processes, durable and described by them (checkpoint_parts.h).
  std::string commit(int64_t keep_last, const Task* task = nullptr,
                     const std::vector<CommitEntry>& described = {});

private:
  std::unique_ptr<ObjectCheckpoint> objects_; // null: root is a local folder
  std::string root_;                          // local; of objects the folder they come from
  std::unique_ptr<FolderLock> lock_;
  std::string final_;
  std::string partial_;
  int64_t step_;
  bool committed_ = false;
};

std::string checkpoint_name(int64_t step); // "step_000500"
// Where a checkpoint is while it is being written: CheckpointWriter::folder() of a local root.
std::string partial_folder(const std::string& root, int64_t step);
// The step of such a name; empty for other names.
std::optional<int64_t> checkpoint_step(std::string_view name);
// CRC-32 of a file, with a check of the task every 4 MB.
uint32_t file_checksum(const Content& file, const Task* task);

// Reads COMMIT and compares the size of every file. data_loss names the file, expected and found,
// or a symbolic link inside the folder; not_found when there is no COMMIT.
Commit open_checkpoint(const std::string& folder);
// open_checkpoint, and reads every byte to compare the checksums. Of `parts` processes that share the work, this one reads
// the files that are its part.
void verify_checkpoint(const std::string& folder, Task* task, int64_t part = 0, int64_t parts = 1);

struct CheckpointEntry {
  int64_t step = 0;
  std::string folder;
};
// Valid checkpoints of `root`, oldest first. Anything without a valid COMMIT is passed over. No
// root: none. An object store that cannot be reached is an error, not an empty list.
std::vector<CheckpointEntry> list_checkpoints(const std::string& root);
std::optional<CheckpointEntry> latest_checkpoint(const std::string& root);

// What a path stands for where a model is wanted.

// The folder or file that holds the model of `path`: of a run folder its latest checkpoint's model folder, of a
// checkpoint folder its model folder, any other path as it is. Fails with not_found for a run without a whole checkpoint.
std::string model_folder(const std::string& path);
// The same for a tokenizer: a run without a whole checkpoint still has its own tokenizer.json.
std::string tokenizer_folder(const std::string& path);

} // namespace dllm::ckpt
