#ifndef DLLM_CPP_DATA_HPP
#define DLLM_CPP_DATA_HPP
// Classes for arrays: tensors, batches of named arrays, and files held in memory.
#include "dllm/cpp/handle.hpp"

#include <cstring>
#include <initializer_list>
#include <span>

namespace dllm {
inline namespace api {

// The element types. f16 and bf16 have no C++ type here and are passed as bytes.
enum class DType : int32_t {
  f32 = DLLM_F32,
  f16 = DLLM_F16,
  bf16 = DLLM_BF16,
  f64 = DLLM_F64,
  i32 = DLLM_I32,
  i64 = DLLM_I64,
  u8 = DLLM_U8,
  i8 = DLLM_I8,
  u32 = DLLM_U32
};

constexpr std::size_t bytes_of(DType dtype) noexcept {
  switch (dtype) {
  case DType::f64:
  case DType::i64: return 8;
  case DType::f16:
  case DType::bf16: return 2;
  case DType::u8:
  case DType::i8: return 1;
  default: return 4;
  }
}

template <class T> constexpr DType dtype_of() noexcept {
  using Element = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Element, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<Element, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<Element, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<Element, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<Element, uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<Element, int8_t>)
    return DType::i8;
  else {
    static_assert(std::is_same_v<Element, uint32_t>,
                  "arrays hold f32 f64 i32 i64 u8 i8 u32; others as bytes");
    return DType::u32;
  }
}

// Fails when the array does not have product(dims) elements, because the C functions read exactly
// that many.
inline void check_extent(std::span<const int64_t> dims, std::size_t bytes, DType dtype) {
  std::size_t wanted = bytes_of(dtype);
  for (const int64_t dim : dims) {
    if (dim < 0) raise(Error(DLLM_INVALID_ARGUMENT, "a dimension is " + std::to_string(dim)));
    const auto extent = static_cast<std::size_t>(dim);
    if (extent != 0 && wanted > SIZE_MAX / extent)
      raise(Error(DLLM_INVALID_ARGUMENT, "the dimensions are too large"));
    wanted *= extent;
  }
  if (wanted != bytes)
    raise(Error(DLLM_INVALID_ARGUMENT, "the dimensions need " + std::to_string(wanted) +
                                           " bytes, the array has " + std::to_string(bytes)));
}

// A tensor has an element type, dimensions and elements. It never changes.
class Tensor : public Handle<dllm_tensor> {
public:
  using Handle::Handle;
  Tensor(DType dtype, std::span<const int64_t> dims, std::span<const std::byte> bytes) {
    check_extent(dims, bytes.size(), dtype);
    static_cast<Handle&>(*this) = Handle(make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
      return dllm_tensor_new(static_cast<int32_t>(dtype), dims.data(), size_of(dims.size()),
                             bytes.data(), out, err);
    }));
  }
  template <class T>
  Tensor(std::span<const int64_t> dims, std::span<const T> values)
      : Tensor(dtype_of<T>(), dims, std::as_bytes(values)) {}
  template <class T>
  Tensor(std::initializer_list<int64_t> dims, const std::vector<T>& values)
      : Tensor(std::span<const int64_t>(dims.begin(), dims.size()), std::span<const T>(values)) {}

  DType dtype() const noexcept { return static_cast<DType>(dllm_tensor_dtype(get())); }
  std::vector<int64_t> dims() const {
    std::vector<int64_t> dims(static_cast<std::size_t>(dllm_tensor_rank(get())));
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      dims[axis] = dllm_tensor_dim(get(), size_of(axis));
    return dims;
  }
  // Returns the number of elements.
  std::size_t size() const {
    std::size_t size = 1;
    for (const int64_t dim : dims()) size *= static_cast<std::size_t>(dim);
    return size;
  }
  // Returns the elements in place, valid while the tensor exists. The span is empty when the
  // elements are on a device. Fails when T is not the element type.
  template <class T> std::span<const T> data() const {
    if (dtype_of<T>() != dtype())
      raise(Error(DLLM_INVALID_ARGUMENT, "the tensor has another element type"));
    const void* first = dllm_tensor_data(get());
    return {static_cast<const T*>(first), first == nullptr ? 0 : size()};
  }
  // Returns a copy of the elements, converted to T.
  template <class T> std::vector<T> read() const {
    std::vector<T> values(size());
    call([&](dllm_error* err) {
      return dllm_tensor_read(get(), static_cast<int32_t>(dtype_of<T>()), values.data(),
                              size_of(values.size() * sizeof(T)), err);
    });
    return values;
  }
};

// Named arrays. dllm/batch.h lists the reserved names.
class Batch : public Handle<dllm_batch> {
public:
  using Handle::Handle;
  Batch()
      : Handle(make<dllm_batch>(
            [](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); })) {}

  Batch& set(std::string_view name, DType dtype, std::span<const int64_t> dims,
             std::span<const std::byte> bytes) {
    check_extent(dims, bytes.size(), dtype);
    call([&](dllm_error* err) {
      return dllm_batch_set(get(), zero_ended(name).c_str(), static_cast<int32_t>(dtype),
                            dims.data(), size_of(dims.size()), bytes.data(), err);
    });
    return *this;
  }
  template <class T>
  Batch& set(std::string_view name, std::span<const int64_t> dims, std::span<const T> values) {
    return set(name, dtype_of<T>(), dims, std::as_bytes(values));
  }
  template <class T>
  Batch& set(std::string_view name, std::initializer_list<int64_t> dims,
             const std::vector<T>& values) {
    return set(name, std::span<const int64_t>(dims.begin(), dims.size()),
               std::span<const T>(values));
  }
  Tensor array(std::string_view name) const {
    return Tensor(make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
      return dllm_batch_array(get(), zero_ended(name).c_str(), out, err);
    }));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < dllm_batch_count(get()); ++i)
      names.push_back(or_empty(dllm_batch_name(get(), i)));
    return names;
  }
};

// Files held in memory, in place of a folder.
class Source : public Handle<dllm_source> {
public:
  Source()
      : Handle(make<dllm_source>(
            [](dllm_source** out, dllm_error* err) { return dllm_source_new(out, err); })) {}
  // Adds a copy of the bytes.
  Source& add(std::string_view name, std::span<const std::byte> bytes) {
    return add(name, bytes, 0);
  }
  Source& add(std::string_view name, std::string_view bytes) {
    return add(name, std::as_bytes(std::span<const char>(bytes.data(), bytes.size())), 0);
  }
  // Uses the bytes in place. They must outlive the source and everything loaded from it.
  Source& lend(std::string_view name, std::span<const std::byte> bytes) {
    return add(name, bytes, 1);
  }

private:
  Source& add(std::string_view name, std::span<const std::byte> bytes, int32_t lend) {
    call([&](dllm_error* err) {
      return dllm_source_add(get(), zero_ended(name).c_str(), bytes.data(), size_of(bytes.size()),
                             lend, err);
    });
    return *this;
  }
};

} // namespace api
} // namespace dllm
#endif
