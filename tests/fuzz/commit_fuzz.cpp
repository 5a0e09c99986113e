// Any bytes as a COMMIT. What is accepted must stay in its folder and survive being written again.

#include "base/error.h"
#include "ckpt/checkpoint/checkpoint_folder.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ckpt::Commit commit;
  try {
    commit = ckpt::parse_commit(text, "COMMIT");
  } catch (const Error&) {
    return 0;
  }
  for (const ckpt::CommitEntry& entry : commit.files) {
    // ".." as a whole part of the path; "..name" is a name like any other.
    const std::string parts = "/" + entry.path + "/";
    if (parts.find("/../") != std::string::npos || entry.path.front() == '/' || entry.size < 0)
      std::abort();
  }
  const std::string again = ckpt::commit_text(commit);
  if (ckpt::commit_text(ckpt::parse_commit(again, "COMMIT")) != again) std::abort();
  return 0;
}
