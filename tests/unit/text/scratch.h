#pragma once
// A folder of a test's own that vanishes with the test. It is in memory where the system has such a
// file system.

#include "base/files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace dllm::text {

class Scratch {
public:
  Scratch() {
    const bool has_memory = ::access("/dev/shm", W_OK) == 0;
    const std::string root =
        has_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    std::string pattern = root + "/dllm-text-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() { remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : join_path(path_, name);
  }
  // Writes without a sync, so a test may write thousands of files.
  std::string write(const std::string& name, std::string_view content) const {
    const std::string file = path(name);
    make_directories(parent_path(file));
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

private:
  std::string path_;
};

} // namespace dllm::text
