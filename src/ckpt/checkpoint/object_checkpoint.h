#pragma once
// An ObjectCheckpoint is a checkpoint in an object store, the folder s3://bucket/run/step_000500. A
// save writes a local folder first, then uploads its files, and COMMIT last. Objects cannot be
// renamed, so the folder holds a mark (COMMIT.partial) from its first object until COMMIT exists. A
// folder with the mark and without COMMIT was left by a killed save.

#include "base/task.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace dllm::ckpt {

// Returns the local folder for a run at `root` ("s3://..."), the same for equal roots. It is below
// $DLLM_STAGING, else below dllm/staging in $XDG_CACHE_HOME or ~/.cache. Fails with
// invalid_argument for a whole bucket.
std::string staging_folder(const std::string& root);

// The checkpoints of a root that stay after a save, in addition to the saved one.
struct KeptCheckpoints {
  // NOLINTNEXTLINE: a number is enough
  KeptCheckpoints(int64_t newest = 0, std::set<int64_t> always = {})
      : last(newest), steps(std::move(always)) {}
  int64_t last;            // number of the newest, with the saved one; 0 or less: all
  std::set<int64_t> steps; // these stay too
};

class ObjectCheckpoint {
public:
  // Removes folders that killed saves left below root. Fails with already_exists if the folder of
  // this step holds an object that no save wrote.
  ObjectCheckpoint(std::string root, int64_t step, const Task* task);

  const std::string& folder() const { return folder_; }
  // A save calls begin(), upload() and seal() in this order. If several processes have files, one
  // of them calls begin() and seal(), and each calls upload() in between. A save that ends before
  // seal() leaves the mark and its objects. No reader takes them for a checkpoint, and the next
  // save removes them.

  // Deletes a committed checkpoint of the same step, its COMMIT first, and writes the mark.
  void begin(const Task* task);
  // Uploads every file below `local` except COMMIT and the mark.
  void upload(const std::string& local, const Task* task);
  // Writes COMMIT, which lists the files of all processes. Then deletes the committed
  // checkpoints that `kept` leaves out. Keeps a checkpoint that holds other objects. Logs errors of
  // deletions.
  void seal(const std::string& commit, const KeptCheckpoints& kept, const Task* task);

private:
  void delete_older(const KeptCheckpoints& kept);

  std::string root_;
  std::string folder_;
  int64_t step_;
};

} // namespace dllm::ckpt
