#pragma once
// A file of row arrays has numbers for each row of a dataset, for example hidden states or top
// logits of a teacher. A batch reads only the arrays of its rows, so the file may be larger than
// memory.
//
// The file has the format safetensors. It holds "row_keys" i64(rows), and any number of arrays
// f32, bf16, f16 or i32 (rows, ...).

#include "ckpt/safetensors/safetensors.h"
#include "tensor/batch.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dllm::text {

inline constexpr const char* kRowKeys = "row_keys";

// Returns the key of a row, a hash of its tokens. Equal rows of all datasets have equal keys.
int64_t row_key(std::span<const int32_t> ids);

class RowArrays {
public:
  // Fails with data_loss for a file of another form, and with invalid_argument for an array with a
  // name that batches reserve.
  explicit RowArrays(const std::string& path);

  const std::vector<std::string>& names() const { return names_; }
  // Adds every array of the file to the batch, with shape (keys.size(), ...). Fails with not_found
  // when the file lacks a row; the error counts rows from `first`.
  void add_to(Batch& batch, std::span<const int64_t> keys, int64_t first) const;

private:
  ckpt::SafetensorsFile file_;
  std::vector<std::string> names_;
  std::map<int64_t, int64_t> places_; // key to row of the arrays
};

} // namespace dllm::text
