#include "text/data/row_arrays.h"

#include "base/error.h"
#include "base/files.h"
#include "text/data/dataset.h"

#include <algorithm>
#include <cstring>

namespace dllm::text {
namespace {

constexpr uint64_t kKeySeed = 0x524F'574B'4559u; // fixed, because keys are stored in files

bool is_reserved(const std::string& name) {
  return std::ranges::any_of(reserved_arrays(),
                             [&](const ReservedArray& array) { return array.name == name; });
}

} // namespace

int64_t row_key(std::span<const int32_t> ids) {
  return static_cast<int64_t>(hash_bytes(ids.data(), ids.size_bytes(), kKeySeed));
}

RowArrays::RowArrays(const std::string& path) : file_(open_content(path), path) {
  const auto found = file_.tensors().find(kRowKeys);
  if (found == file_.tensors().end() || found->second.dtype != DType::i64 ||
      found->second.shape.rank() != 1) {
    fail_with_hint("write the keys of the rows as i64(rows)", Code::data_loss,
                   "{} has no array {}, which holds the keys of its rows", path, kRowKeys);
  }
  const int64_t rows = found->second.shape[0];
  for (const auto& [name, info] : file_.tensors()) {
    if (name == kRowKeys) continue;
    if (!info.dtype || info.shape.rank() < 1 || info.shape[0] != rows)
      fail(Code::data_loss, "{}: array {} is {}{}, expected one entry for each of {} rows", path,
           name, info.type, info.shape.text(), rows);
    if (is_reserved(name)) {
      fail_with_hint("give the array another name", Code::invalid_argument,
                     "{}: a batch already has its own array {}", path, name);
    }
    names_.push_back(name);
  }
  const Tensor keys = file_.tensor(kRowKeys);
  for (int64_t row = 0; row < rows; ++row)
    places_.emplace(keys.as<int64_t>()[static_cast<size_t>(row)], row);
}

void RowArrays::add_to(Batch& batch, std::span<const int64_t> keys, int64_t first) const {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = places_.find(keys[i]);
    if (found == places_.end()) {
      fail_with_hint("make the arrays again for this dataset", Code::not_found,
                     "{} has no arrays for row {} of the batches (key {})", file_.name(),
                     first + static_cast<int64_t>(i), keys[i]);
    }
    rows.push_back(found->second);
  }
  for (const std::string& name : names_) {
    const ckpt::TensorInfo& info = file_.info(name);
    Tensor made(*info.dtype, info.shape.without(0).with_front(std::ssize(rows)));
    std::byte* to = made.mutable_bytes();
    for (const int64_t row : rows) {
      Box box = Box::whole(info.shape);
      box.begin[0] = row;
      box.shape = info.shape.with_dim(0, 1);
      const Tensor part = file_.part_copy(name, box);
      std::memcpy(to, part.bytes(), static_cast<size_t>(part.byte_size()));
      to += part.byte_size();
    }
    batch.set(name, std::move(made));
  }
}

} // namespace dllm::text
