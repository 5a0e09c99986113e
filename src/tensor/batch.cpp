#include "tensor/batch.h"

#include "base/error.h"

namespace dllm {

void Batch::set(std::string name, Tensor value) {
  for (auto& [key, array] : arrays_) {
    if (key == name) {
      array = std::move(value);
      return;
    }
  }
  arrays_.emplace_back(std::move(name), std::move(value));
}

const Tensor* Batch::find(std::string_view name) const {
  for (const auto& [key, array] : arrays_) {
    if (key == name) return &array;
  }
  return nullptr;
}

const Tensor& Batch::at(std::string_view name) const {
  if (const Tensor* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& entry : arrays_) names.push_back(entry.first);
  const std::string near = nearest(std::string(name), names);
  fail_with_hint(near.empty() ? "" : fmt::format("did you mean {}?", near), Code::not_found,
                 "the batch holds no array \"{}\"", name);
}

void Batch::remove(std::string_view name) {
  std::erase_if(arrays_, [&](const auto& entry) { return entry.first == name; });
}

std::pair<int64_t, int64_t> Batch::global_rows(int64_t own_rows) const {
  const Tensor* rows = find("rows");
  if (rows == nullptr) return {0, own_rows};
  const auto values = rows->to(DType::i64);
  const auto span = values.as<int64_t>();
  if (span.size() != 2 || span[0] < 0 || span[1] < own_rows || span[0] > span[1] - own_rows) {
    fail(Code::invalid_argument, "array rows must be (first, total) with first + {} <= total", own_rows);
  }
  return {span[0], span[1]};
}

}  // namespace dllm
