#pragma once
// Keeps arrays of a trainer outside of the engine: in a scratch file, or in memory of this process.
// Private to src/train.

#include "base/threads/parallel.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace dllm::train {

// The word of option offload that means memory of this process. Other words are folders.
inline constexpr const char* kOffloadToRam = "ram";

// A number of bytes, zero at first. The file has no name in its folder. So other runs may use the
// same folder, no process reads the file of a killed run, and the system frees it with the process.
// Several threads may read and write ranges that do not overlap.
class ScratchStore {
public:
  // Reserves the bytes, so that a later write finds its room. Fails with not_found or
  // invalid_argument for a path that is not a folder. Fails with resource_exhausted, and leaves
  // nothing, where the bytes do not fit.
  ScratchStore(const std::string& place, int64_t bytes);
  ~ScratchStore();
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  int64_t bytes() const { return bytes_; }
  // Copy bytes [at, at + size) in pieces, on all threads. A failure, also of the disk, is an error
  // and leaves a part of the copy.
  void read(int64_t at, void* to, int64_t size, const Workers& workers) const;
  void write(int64_t at, const void* from, int64_t size, const Workers& workers);
  // Says that the bytes are read soon: the disk may begin.
  void announce(int64_t at, int64_t size) const;

private:
  void open_in(const std::string& folder);
  void reserve(const std::string& folder) const;
  void map_memory();

  std::string place_;
  int64_t bytes_;
  int fd_ = -1;               // -1: memory
  std::byte* base_ = nullptr; // memory; null: a file
};

} // namespace dllm::train
