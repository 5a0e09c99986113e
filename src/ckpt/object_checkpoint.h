#pragma once
// Checkpoints of a run in an object store, as folders s3://bucket/run/step_000500. One is written into a local folder first,
// then its files become objects and COMMIT the last of them. Nothing can be renamed there, so a mark (COMMIT.partial) stands
// in a folder from its first object until COMMIT is there: a folder with the mark and without COMMIT is what a killed save left.

#include "base/task.h"

#include <cstdint>
#include <string>

namespace dllm::ckpt {

// The local folder for a run at `root` ("s3://..."): below DLLM_STAGING, else XDG_CACHE_HOME or ~/.cache, in
// dllm/staging. Equal for equal roots. invalid_argument for a whole bucket.
std::string staging_folder(const std::string& root);

class ObjectCheckpoint {
public:
  // Removes what killed saves left below root. already_exists when the place of this step holds an object that no save wrote.
  ObjectCheckpoint(std::string root, int64_t step, const Task* task);

  const std::string& folder() const { return folder_; }
  // The steps of a save, in this order. Where several processes have files of their own, one begins and seals, and each uploads
  // what it has in between. A save that ends before seal() leaves the mark and what it had written: no reader takes it for
  // a checkpoint, and the next save removes it.

  // Deletes a committed checkpoint of the same step, its COMMIT first, and puts the mark.
  void begin(const Task* task);
  // Every file below `local` but COMMIT and the mark.
  void upload(const std::string& local, const Task* task);
  // Writes COMMIT, which names the files of all. Then deletes all but the newest `keep_last` committed checkpoints (0 or less
  // keeps all; one that holds other objects is kept); what fails of that is logged.
  void seal(const std::string& commit, int64_t keep_last, const Task* task);

private:
  void delete_older(int64_t keep_last);

  std::string root_;
  std::string folder_;
  int64_t step_;
};

} // namespace dllm::ckpt
