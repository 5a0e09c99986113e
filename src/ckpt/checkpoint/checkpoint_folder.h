#pragma once
// The checkpoints of a run are folders step_000500 in a root folder. A save writes the folder
// step_000500.partial, makes it durable, writes COMMIT last and renames the folder in one step. So
// a kill at any moment leaves the old checkpoint or the new one. COMMIT lists the path, size and
// CRC-32 (of zlib) of every other file. A folder without a valid COMMIT is not a checkpoint.
//
// The root may be a folder of an object store ("s3://bucket/runs/first"), see object_checkpoint.h.

#include "base/files.h"
#include "base/task.h"
#include "ckpt/checkpoint/object_checkpoint.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {

struct CommitEntry {
  std::string path; // relative to the checkpoint, with '/' between parts
  int64_t size = 0;
  uint32_t crc32 = 0;
};

struct Commit {
  int64_t step = 0;
  std::vector<CommitEntry> files; // sorted by path
};

inline constexpr const char* kCommitName = "COMMIT";
inline constexpr int64_t kMaxCommitBytes = int64_t{64} << 20;

// Returns the content of the file COMMIT, a JSON object.
std::string commit_text(const Commit& commit);
// Parses a COMMIT. `what` names the file in errors. Fails with data_loss for a text of another
// form, a path that leaves the folder and a path that is listed twice. Fails with unimplemented for
// another version of the format.
Commit parse_commit(std::string_view text, std::string_view what);

// File names that are read from a file (an index, a COMMIT) must stay in the folder of this file.

// Returns true for a relative path of at most 1024 bytes with '/' between parts. It must not
// contain an empty, "." or ".." part, a backslash or a control character.
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

// Returns true for a safe path without a folder. Shards are stored in the folder of their index.
inline bool is_safe_name(std::string_view name) {
  return is_safe_path(name) && name.find('/') == std::string_view::npos;
}

// Writes one checkpoint. For a root in an object store it writes the files to a local staging
// folder, and commit() uploads them. The constructor waits for all other writers of `root`, in any
// process (FolderLock). Then it removes folders that a killed writer left (step_000500.partial,
// step_000500.trash) and nothing else. It fails with already_exists if the folder of this step
// holds a file that no save wrote. Without commit() the destructor removes all files. Not
// synchronised.
class CheckpointWriter {
public:
  CheckpointWriter(std::string root, int64_t step, const Task* task = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns the path at which to write the file `relative` ("model/config.json"), and makes its
  // folders. The caller may use base/files.h or the writers of src/ckpt. Fails with
  // invalid_argument for a name that leaves the checkpoint.
  std::string path(const std::string& relative) const;
  // Returns the folder that is being written, for code that fills a whole folder.
  const std::string& folder() const { return partial_; }
  // Syncs every file and folder, writes COMMIT, renames the folder and returns its final path.
  // Replaces a committed checkpoint of the same step. Then deletes the committed checkpoints of the
  // root that `kept` leaves out. Keeps a checkpoint that holds other files. A cancelled task leaves
  // the root unchanged. described: files that other processes made durable and described
  // (checkpoint_parts.h).
  std::string commit(const KeptCheckpoints& kept, const Task* task = nullptr,
                     const std::vector<CommitEntry>& described = {});

private:
  std::unique_ptr<ObjectCheckpoint> objects_; // null for a local root
  std::string root_;                          // a local folder; the staging folder of objects
  std::unique_ptr<FolderLock> lock_;
  std::string final_;
  std::string partial_;
  int64_t step_;
  bool committed_ = false;
};

std::string checkpoint_name(int64_t step); // "step_000500"
// Returns the folder in which a checkpoint of a local root is written, CheckpointWriter::folder().
std::string partial_folder(const std::string& root, int64_t step);
// Returns the step of a name such as "step_000500"; empty for other names.
std::optional<int64_t> checkpoint_step(std::string_view name);
// Returns the CRC-32 of a file. Checks the task before every piece (Content::piece()).
uint32_t file_checksum(const Content& file, const Task* task);

// Reads COMMIT and compares the size of every file. Fails with not_found without a COMMIT, with
// data_loss for a missing file, another size or a symbolic link in the folder.
Commit open_checkpoint(const std::string& folder);
// Does what open_checkpoint() does, then reads every byte to compare the checksums. If several
// processes share the work, process `part` of `parts` reads its share of the files.
void verify_checkpoint(const std::string& folder, Task* task, int64_t part = 0, int64_t parts = 1);

struct CheckpointEntry {
  int64_t step = 0;
  std::string folder;
};
// Returns the valid checkpoints of `root`, oldest first; none if there is no root. Leaves out
// folders without a valid COMMIT. Fails when an object store cannot be reached.
std::vector<CheckpointEntry> list_checkpoints(const std::string& root);
std::optional<CheckpointEntry> latest_checkpoint(const std::string& root);

} // namespace dllm::ckpt
