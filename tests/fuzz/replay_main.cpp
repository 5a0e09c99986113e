// Stands in for libFuzzer where it is not there: feeds every file named on the command line, or
// every file of a folder named there, to the fuzz target once. Also each file cut at every eighth
// of its length and with a byte changed, so that the error paths run too.

#include "base/error.h"
#include "base/files.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void feed(const std::string& bytes) {
  // An exact copy on the heap, so that a sanitizer sees a read past the end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void replay(const std::string& bytes) {
  feed(bytes);
  for (size_t eighth = 0; eighth < 8; ++eighth) {
    feed(bytes.substr(0, bytes.size() * eighth / 8));
    if (bytes.empty()) continue;
    std::string changed = bytes;
    changed[bytes.size() * eighth / 8] ^= static_cast<char>(1u << eighth);
    feed(changed);
  }
}

} // namespace

int main(int count, char** arguments) {
  int files = 0;
  try {
    for (int i = 1; i < count; ++i) {
      const std::string path = arguments[i];
      std::vector<std::string> list{path};
      if (dllm::is_directory(path)) {
        list.clear();
        for (const std::string& name : dllm::list_directory(path))
          list.push_back(dllm::join_path(path, name));
      }
      for (const std::string& file : list) {
        replay(dllm::read_text(file));
        ++files;
      }
    }
  } catch (const dllm::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  std::printf("%d files replayed\n", files);
  return files > 0 ? 0 : 2;
}
