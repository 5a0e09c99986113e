#pragma once
// Rows of token numbers end to end, in memory or in a mapped file.

#include "base/bytes.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::text {

// One row of a dataset, lent.
struct TokenRow {
  std::span<const int32_t> ids;
  std::span<const uint8_t> keep; // 1: given (a prompt), never corrupted; 0: learned. Empty: all 0
  bool starts = true; // false: goes on where the row before it ends (a long text in parts)
};

class TokenRows {
public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()); }
  int64_t tokens() const { return static_cast<int64_t>(ids_.size()); }
  // REQUIRES: 0 <= index < size(). Valid until the next add.
  TokenRow row(int64_t index) const;

  // keep: empty or one per id. Fails with failed_precondition when the rows are a mapped file.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);

  std::span<const int64_t> offsets() const { return offsets_; } // size() + 1
  std::span<const uint8_t> starts() const { return starts_; }
  std::span<const uint8_t> keep() const { return keep_; } // empty or tokens()
  std::span<const int32_t> ids() const { return ids_; }

  TokenRows() { publish(); }
  // Views of `file`, already checked.
  TokenRows(Bytes file, std::span<const int64_t> offsets, std::span<const uint8_t> starts,
            std::span<const uint8_t> keep, std::span<const int32_t> ids);
  TokenRows(TokenRows&&) noexcept = default;
  TokenRows& operator=(TokenRows&&) noexcept = default;

private:
  void publish();

  Bytes file_;
  std::vector<int64_t> own_offsets_{0};
  std::vector<uint8_t> own_starts_, own_keep_;
  std::vector<int32_t> own_ids_;
  std::span<const int64_t> offsets_;
  std::span<const uint8_t> starts_, keep_;
  std::span<const int32_t> ids_;
};

} // namespace dllm::text
