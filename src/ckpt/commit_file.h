#pragma once
// COMMIT: the last file of a checkpoint, with every other file's path, size and CRC-32 (zlib's). A
// folder without a valid one is no checkpoint.

#include <cstdint>
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

std::string commit_text(const Commit& commit);
// `what` names the file in errors. data_loss for anything that is not exactly what commit_text
// writes: paths must stay inside the folder and be named once.
Commit parse_commit(std::string_view text, std::string_view what);

} // namespace dllm::ckpt
