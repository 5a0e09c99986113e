#pragma once
// A folder of a test's own that vanishes with the test.

#include "base/files.h"
#include "unit/test_files.h"

#include <fstream>
#include <string>
#include <string_view>

namespace dllm::text {

class Scratch {
public:
  std::string path(const std::string& name = "") const {
    return name.empty() ? folder_.path() : folder_.path(name);
  }
  // Writes without a sync, so a test may write thousands of files.
  std::string write(const std::string& name, std::string_view content) const {
    const std::string file = path(name);
    make_directories(parent_path(file));
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

private:
  test::TempFolder folder_{true};
};

} // namespace dllm::text
