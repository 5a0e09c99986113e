#pragma once
// Which rows a loader uses (all, training, held out) and how they become sequences of one length:
// one row each, or packed end to end.

#include "text/dataset.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::text {

enum class Split { all, train, held_out };
enum class Truncate { right, left, drop };

struct RowIndexSettings {
  int64_t length = 256; // tokens of a sequence
  Split split = Split::all;
  double split_fraction = 0.05; // of the rows that are held out
  bool pack = true;
  bool drop_tail = false; // packed: leave out the last, shorter sequence
  Truncate truncate = Truncate::right;
  int32_t pad = 0;
};

// A row belongs to the held-out split by the hash of its tokens: equal rows fall on the same side,
// and rows added later move none.
bool is_held_out(const TokenRow& row, double fraction);

class RowIndex {
public:
  RowIndex(std::shared_ptr<const Dataset> data, const RowIndexSettings& settings);

  int64_t size() const { return sequences_; } // sequences
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); } // of the dataset, in this split
  int64_t tokens() const { return tokens_; }                          // of these rows
  // Fills one sequence; each span has `length` elements. keep: 1 on padding and prompts. segments:
  // the rows of a sequence are numbered from 1, padding is 0. REQUIRES: 0 <= index < size().
  void fill(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
            std::span<int32_t> segments) const;

private:
  void fill_single(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                   std::span<int32_t> segments) const;
  void fill_packed(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                   std::span<int32_t> segments) const;

  std::shared_ptr<const Dataset> data_;
  RowIndexSettings settings_;
  std::vector<int64_t> rows_; // numbers in the dataset, rising
  std::vector<int64_t>
      begins_; // packed: first token of each row in the stream of all, then their sum
  int64_t tokens_ = 0;
  int64_t sequences_ = 0;
};

} // namespace dllm::text
