#include "handles.h"

using namespace dllm;
using namespace dllm::abi;

namespace {

constexpr size_t kMostNameBytes = 256;

void check_reserved(std::string_view name, const Tensor& array) {
  for (const ReservedArray& row : reserved_arrays()) {
    if (row.name != name) continue;
    if (array.dtype() == row.dtype && array.shape().rank() == row.rank) return;
    fail(Code::invalid_argument, "array {} must be {} with {} dimensions, not {} {}", name,
         dtype_name(row.dtype), row.rank, dtype_name(array.dtype()), array.shape().text());
  }
}

} // namespace

dllm_status dllm_batch_new(dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_batch;
  });
}

void dllm_batch_release(dllm_batch* batch) {
  release(batch);
}

dllm_status dllm_batch_set(dllm_batch* batch, const char* name, int32_t dtype, const int64_t* dims,
                           int64_t rank, const void* data, dllm_error* err) {
  return guard(err, [&] {
    Batch& object = need(batch, "batch").object;
    if (*need_text(name, "name") == '\0') fail(Code::invalid_argument, "name is empty");
    if (const size_t size = std::string_view(name).size(); size > kMostNameBytes) {
      fail(Code::invalid_argument, "name has {} bytes, at most {} are possible", size,
           kMostNameBytes);
    }
    Tensor array = tensor_from(dtype, dims, rank, data);
    check_reserved(name, array);
    object.set(name, std::move(array));
  });
}

dllm_status dllm_batch_array(const dllm_batch* batch, const char* name, dllm_tensor** out,
                             dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    // Shares the storage: arrays of a batch are replaced, never written in place.
    *out = new dllm_tensor(need(batch, "batch").object.at(need_text(name, "name")));
  });
}

int64_t dllm_batch_count(const dllm_batch* batch) {
  const Held held(batch);
  return held ? static_cast<int64_t>(held->object.size()) : 0;
}

const char* dllm_batch_name(const dllm_batch* batch, int64_t index) {
  const Held held(batch);
  if (!held || index < 0 || index >= static_cast<int64_t>(held->object.size())) return nullptr;
  return held->object.name(static_cast<size_t>(index)).c_str();
}
