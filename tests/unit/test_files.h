#pragma once
// Folders of tests: a scratch folder that is removed, and the goldens, which may be absent.

#include "base/error.h"
#include "base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace dllm::test {

class TempFolder {
public:
  // in_memory: where the system has such a file system; for tests that sync very often.
  explicit TempFolder(bool in_memory = false) {
    const bool shm = in_memory && ::access("/dev/shm", W_OK) == 0;
    std::string pattern = (shm ? "/dev/shm" : ::testing::TempDir()) + "/dllm_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return join_path(path_, name); }

private:
  std::string path_;
};

// $DLLM_GOLDEN, else ../shared/golden next to the project.
inline std::string golden_path(const std::string& name) {
  const char* set = std::getenv("DLLM_GOLDEN");
  const std::string folder =
      set != nullptr ? set : std::string(DLLM_SOURCE_DIR) + "/../shared/golden";
  return join_path(folder, name);
}

// $DLLM_ASSETS, else build/assets.
inline std::string asset_path(const std::string& name) {
  const char* set = std::getenv("DLLM_ASSETS");
  const std::string folder = set != nullptr ? set : std::string(DLLM_SOURCE_DIR) + "/build/assets";
  return join_path(folder, name);
}

inline std::string data_path(const std::string& name) {
  return std::string(DLLM_SOURCE_DIR) + "/tests/data/" + name;
}

// What `call` throws, for tests that read the text.
template <class F> Error error_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(Code::ok, "");
}

// The text of what `call` throws; "no error" for nothing.
template <class F> std::string error_text(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.text();
  }
  return "no error";
}

// EXPECT that `call` fails with `code` and that its text holds `part`.
template <class F> void expect_error(Code code, const std::string& part, F&& call) {
  const Error e = test::error_of(call);
  EXPECT_EQ(e.code(), code) << e.text();
  EXPECT_NE(e.text().find(part), std::string::npos) << e.text();
}

} // namespace dllm::test

#define DLLM_NEEDS_FILE(path)                                                                      \
  if (!dllm::file_exists(path)) GTEST_SKIP() << (path) << " is not there"
