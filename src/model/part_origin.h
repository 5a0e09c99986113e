#pragma once
// The place where the numbers of a part can be read again. A checkpoint refers to this place and
// holds no copy.

#include <cstdint>
#include <string>

namespace dllm::model {

struct PartOrigin {
  // Absolute path of a folder or file. An empty address means that the numbers are stored nowhere
  // else.
  std::string address;
  std::string digest; // digest_of() of that place
  // ParamStore::changes of the part when it was read. After a further change the place holds other
  // numbers.
  int64_t changes = 0;

  bool is_known() const { return !address.empty(); }
};

// Returns the origin of numbers that were read from `path`. An object store has no origin.
PartOrigin origin_at(const std::string& path);

// Returns a SHA-256 in hexadecimal digits. It covers the names and sizes of a model's files, their
// first 64 KiB (the index of safetensors) and samples of the rest. `path` is one file, or a folder,
// of which config.json and the weight files count.
std::string digest_of(const std::string& path);

} // namespace dllm::model
