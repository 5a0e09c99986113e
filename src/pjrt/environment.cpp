#include "pjrt/environment.h"

#include "base/files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace dllm::pjrt {
namespace {

constexpr const char* kVendor = "0x1ae0";
// v2 and v3, v4, v5p, v5e, v6e, 7x
constexpr std::array<std::string_view, 6> kChips{"0x0027", "0x005e", "0x0062",
                                                 "0x0063", "0x006f", "0x0076"};

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

void set_default(const char* name, const char* value) {
  ::setenv(name, value, 0);
}

} // namespace

bool has_tpu(const std::string& root) {
  if (!is_directory(root)) return false;
  for (const std::string& device : list_directory(root)) {
    const std::string folder = join_path(root, device);
    if (first_word(join_path(folder, "vendor")) != kVendor) continue;
    const std::string chip = first_word(join_path(folder, "device"));
    if (std::find(kChips.begin(), kChips.end(), chip) != kChips.end()) return true;
  }
  return false;
}

void prepare_environment(bool compile_only) {
  set_default("TF_CPP_MIN_LOG_LEVEL", "2");
  // Without a TPU the question for its metadata is repeated for most of a minute.
  if (compile_only || !has_tpu()) set_default("TPU_SKIP_MDS_QUERY", "1");
  if (compile_only) {
    set_default("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"); // else a second process at the same time fails
    set_default("TPU_WORKER_HOSTNAMES", "localhost");
    set_default("TPU_ACCELERATOR_TYPE", "v5e-8"); // any: without one it complains
  }
}

} // namespace dllm::pjrt
