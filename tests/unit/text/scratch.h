#pragma once
// A folder of a test's own that vanishes with the test.

#include "base/files.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace dllm::text {

class Scratch {
public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dllm-text-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { remove_all(path_); }
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : join_path(path_, name);
  }
  std::string write(const std::string& name, std::string_view content) const {
    const std::string file = path(name);
    make_directories(parent_path(file));
    write_file_atomic(file, content);
    return file;
  }

private:
  std::string path_;
};

} // namespace dllm::text
