#pragma once
// Rows of token numbers end to end, in memory or in a file; and the file a tokenized dataset is saved in.

#include "base/bytes.h"
#include "base/input_file.h"
#include "text/tokenizer/parts.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

// One row of a dataset, or a part of one. Tokens in memory are views of it, those of a file are copies.
struct TokenRow {
  std::span<const int32_t> ids;
  std::span<const uint8_t> keep; // 1: given (a prompt), never corrupted; 0: learned. Empty: all 0
  bool starts = true; // false: goes on where the row before it ends (a long text in parts)
  Bytes own_ids, own_keep;
};

// Where the tokens of a file lie in it.
struct TokenPlaces {
  int64_t ids = 0;   // byte of the first id
  int64_t keep = -1; // byte of the first keep; -1: none
};

class TokenRows {
public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()); }
  int64_t tokens() const { return offsets_.back(); }
  bool has_keep() const { return file_ != nullptr ? places_.keep >= 0 : !keep_.empty(); }
  // REQUIRES: 0 <= index < size().
  int64_t length(int64_t index) const { return begin(index + 1) - begin(index); }
  int64_t begin(int64_t index) const { return offsets_[static_cast<size_t>(index)]; }
  bool starts(int64_t index) const { return starts_[static_cast<size_t>(index)] != 0; }
  // REQUIRES: 0 <= index < size(). Views are valid until the next add. data_loss when the file
  // changed since it was opened.
  TokenRow row(int64_t index) const;
  // The same for `count` tokens from number `first` of all, over the borders of rows.
  TokenRow part(int64_t first, int64_t count) const;
  // Every row in order, some megabytes of a file at a time.
  void scan(const std::function<void(int64_t index, const TokenRow&)>& visit) const;

  // keep: empty or one per id. Fails with failed_precondition when the rows are a file.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);

  std::span<const int64_t> offsets() const { return offsets_; } // size() + 1
  std::span<const uint8_t> starts() const { return starts_; }

  TokenRows() = default;
  // Of a file, already checked.
  TokenRows(std::shared_ptr<const InputFile> file, TokenPlaces places, std::vector<int64_t> offsets,
            std::vector<uint8_t> starts);

private:
  std::vector<int64_t> offsets_{0};
  std::vector<uint8_t> starts_;
  std::vector<uint8_t> keep_; // empty or one per id
  std::vector<int32_t> ids_;
  std::shared_ptr<const InputFile> file_; // null: in memory
  TokenPlaces places_;
};

// A 64-bit hash of bytes: which split a row falls in, and the checksum of token files. The same
// everywhere and for ever (little-endian words); not for security.

inline uint64_t mix64(uint64_t x) { // finalizer of SplitMix64 (Steele et al. 2014)
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The hash of `size` bytes that come in pieces. Every piece but the last is a multiple of 8 bytes.
class HashStream {
public:
  explicit HashStream(size_t size, uint64_t seed = 0)
      : h_(mix64(seed + size + 0x9E3779B97F4A7C15u)) {}

  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, bytes, 8);
      h_ = (h_ ^ word) * 0x9E3779B97F4A7C15u;
      h_ ^= h_ >> 29;
    }
    for (size_t i = 0; i < size; ++i) rest_ |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  uint64_t finish() const { return mix64(h_ ^ rest_); }

private:
  uint64_t h_;
  uint64_t rest_ = 0;
};

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  HashStream hash(size, seed);
  hash.add(data, size);
  return hash.finish();
}

// The file a tokenized dataset is saved in; batches read their tokens from it. Little-endian:
//
//   0    "dllmtok1"
//   8    u32 version (1), u32 has_keep
//   16   i64 rows, i64 tokens
//   32   i32 vocabulary size, bos, eos, pad, mask (-1: none), i32 0
//   56   u64 hash of the payload, u64 hash of the 64 bytes before
//   72   i64 offsets[rows + 1], u8 starts[rows], u8 keep[tokens] if has_keep, i32 ids[tokens]; each
//   padded to 8 bytes

struct TokenFileInfo {
  int64_t vocabulary_size = 0;
  SpecialIds special;
};

bool is_token_file(const std::string& path);
// already_exists when something is at `path`: overwrite replaces a token file, never another.
void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     bool overwrite, const Task* task);
// Every size, offset and number is checked before anything is used. Fails with data_loss naming the
// file and the fault. Offsets and starts are in memory from here on, the tokens stay in the file.
TokenRows open_token_file(std::shared_ptr<const InputFile> file, TokenFileInfo& info,
                          const Task* task);

} // namespace dllm::text
