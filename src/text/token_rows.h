#pragma once
// Rows of token numbers end to end, in memory or in a file.

#include "base/bytes.h"
#include "base/input_file.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dllm::text {

// One row of a dataset, or a part of one. Tokens in memory are lent, those of a file are its own.
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
  // REQUIRES: 0 <= index < size(). What is lent is valid until the next add. data_loss when the file
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

} // namespace dllm::text
