#pragma once
// The place where the numbers of a part can be read again. A checkpoint refers to this place and
// holds no copy.

#include <cstdint>
#include <optional>
#include <string>

namespace dllm::model {

struct PartOrigin {
  std::string address; // absolute path of a folder or file
  std::string digest;  // digest_of() of that place
  // ParamStore::changes of the part when it was read. After a further change the place holds other
  // numbers.
  int64_t changes = 0;
  // A row of the part differs from the place: Model::ensure_mask_token() made it for a mask token,
  // and makes the same row again.
  bool has_new_mask = false;

  // Returns true when a digest of a checkpoint, also of an older program, is that of this place.
  bool has_digest(const std::string& other) const;
};

// Returns the origin of numbers that are read from `path`. Returns nothing for a place that need
// not hold them later: an object store, a checkpoint (its run may remove it), and a place where
// some file cannot be read.
std::optional<PartOrigin> origin_at(const std::string& path);

// Returns a digest of a model's files. `path` is one file, or a folder, of which config.json and
// the weight files count. It covers the names and sizes of the files, and all bytes when these are
// 64 MiB or less. Of larger files it covers the first 64 KiB, which have the index of safetensors,
// and 256 pieces of 4 KiB. The last piece is the end of the file.
std::string digest_of(const std::string& path);

} // namespace dllm::model
