#pragma once
// Where the numbers of a part can be read again, so that a checkpoint refers to them instead of holding a copy.

#include <cstdint>
#include <string>

namespace dllm::model {

struct PartOrigin {
  std::string address; // a folder or file, absolute; empty: the numbers are nowhere else
  std::string digest;  // of that place, as digest_of gives it
  // ParamStore::changes of the part when it was read: after a further change the place holds other numbers.
  int64_t changes = 0;

  bool is_known() const { return !address.empty(); }
};

// The origin of numbers that were read from `path`; of an object store there is none.
PartOrigin origin_at(const std::string& path);

// SHA-256, in hexadecimal digits, of the names and sizes of a model's files, their first 64 KiB (the index of
// safetensors) and samples of the rest. `path` is a folder, of which config.json and the weight files count, or one file.
std::string digest_of(const std::string& path);

} // namespace dllm::model
