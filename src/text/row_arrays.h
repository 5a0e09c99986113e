#pragma once
// Arrays of numbers that belong to rows of a dataset and stand in a file of their own: hidden states of a teacher, its top
// logits. A batch reads the arrays of its rows alone, so the file may be larger than memory.
//
// The file is safetensors: "row_keys" i64(rows), and any number of arrays f32, bf16, f16 or i32 (rows, ...).

#include "ckpt/safetensors.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dllm::text {

inline constexpr const char* kRowKeys = "row_keys";

// The key of a row: a hash of its tokens. Equal rows have equal keys, in any dataset and at any place in it.
int64_t row_key(std::span<const int32_t> ids);

class RowArrays {
public:
  // Fails with data_loss for a file that is not of this form, and with invalid_argument for an array with a name that
  // batches reserve.
  explicit RowArrays(const std::string& path);

  const std::vector<std::string>& names() const { return names_; }
  // Sets every array of the file, (keys.size(), ...), in the batch. Fails with not_found when the file lacks a row;
  // `first` is the number of the first row, for this error.
  void add_to(Batch& batch, std::span<const int64_t> keys, int64_t first) const;

private:
  ckpt::SafetensorsFile file_;
  std::vector<std::string> names_;
  std::map<int64_t, int64_t> places_; // of rows in the arrays, by key
};

} // namespace dllm::text
