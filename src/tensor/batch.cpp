#include "tensor/batch.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm {
namespace {

constexpr ReservedArray kReserved[] = {
    {"ids", DType::i32, 2},        {"targets", DType::i32, 2},
    {"weights", DType::f32, 2},    {"keep", DType::u8, 2},
    {"segments", DType::i32, 2},   {"positions", DType::i32, 2},
    {"t", DType::f32, 1},          {"flag", DType::u8, 1},
    {"embeddings", DType::f32, 3}, {"prompt_length", DType::i32, 1},
    {"rows", DType::i64, 1},       {"limit", DType::i32, 2},
    {"sample", DType::u8, 2},      {"trajectory", DType::i32, 2},
};

} // namespace

std::span<const ReservedArray> reserved_arrays() {
  return kReserved;
}

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
  fail_unnamed({"array", "in the batch"}, name, names_of(arrays_, kEntryName));
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
    fail(Code::invalid_argument, "array rows must be (first, total) with first + {} <= total",
         own_rows);
  }
  return {span[0], span[1]};
}

namespace {

// Elements that are checked together, so that the inner loops have no branch.
constexpr int64_t kBlock = 1024;

// Returns the index of the first element for which `bad` is 1, or -1.
template <class T, class F> int64_t first_where(const T* x, int64_t count, const F& bad) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    uint32_t any = 0;
    if (size == kBlock) {
      for (int64_t i = 0; i < kBlock; ++i) any |= bad(x[begin + i]);
    } else {
      for (int64_t i = 0; i < size; ++i) any |= bad(x[begin + i]);
    }
    if (any == 0) continue;
    for (int64_t i = begin; i < begin + size; ++i) {
      if (bad(x[i]) != 0) return i;
    }
  }
  return -1;
}

// A float is NaN or infinity if all bits of its exponent are set.
template <class Bits> int64_t first_with_exponent(const Tensor& values, Bits exponent) {
  return first_where(reinterpret_cast<const Bits*>(values.bytes()), values.count(),
                     [exponent](Bits x) -> uint32_t { return (x & exponent) == exponent; });
}

template <class T>
void check_range(std::string_view name, const Tensor& values, int64_t low, int64_t high,
                 std::string_view bound, const char* hint) {
  const std::span<const T> all = values.as<T>();
  const auto least = static_cast<T>(low), most = static_cast<T>(high);
  const int64_t at = first_where(all.data(), values.count(), [=](T x) -> uint32_t {
    return static_cast<uint32_t>(x < least) | static_cast<uint32_t>(x > most);
  });
  if (at < 0) return;
  fail_with_hint(hint, Code::invalid_argument, "{}{} = {} is not in {} to {} ({})", name,
                 place_text(values.shape(), at), static_cast<int64_t>(all[static_cast<size_t>(at)]),
                 low, high, bound);
}

} // namespace

std::string place_text(const Shape& shape, int64_t index) {
  std::string text;
  for (int64_t axis = shape.rank(); axis-- > 0;) {
    const int64_t extent = std::max<int64_t>(shape.dim(axis), 1);
    text = fmt::format("{}{}", index % extent, text.empty() ? "" : ", " + text);
    index /= extent;
  }
  return "[" + text + "]";
}

void check_between(std::string_view name, const Tensor& values, int64_t low, int64_t high,
                   std::string_view bound, const char* hint) {
  if (values.dtype() == DType::u8)
    check_range<uint8_t>(name, values, low, high, bound, hint);
  else
    check_range<int32_t>(name, values, low, high, bound, hint);
}

int64_t first_non_finite(const Tensor& values) {
  switch (values.dtype()) {
  case DType::f32: return first_with_exponent<uint32_t>(values, 0x7F800000u);
  case DType::f16: return first_with_exponent<uint16_t>(values, 0x7C00u);
  case DType::bf16: return first_with_exponent<uint16_t>(values, 0x7F80u);
  case DType::f64:
    return first_where(values.as<double>().data(), values.count(), [](double x) -> uint32_t {
      return !(std::abs(x) <= static_cast<double>(std::numeric_limits<float>::max()));
    });
  default: return -1;
  }
}

void check_finite(std::string_view name, const Tensor& values) {
  const int64_t at = first_non_finite(values);
  if (at < 0) return;
  double value;
  convert(values.dtype(), values.bytes() + at * dtype_size(values.dtype()), DType::f64, &value, 1);
  fail(Code::invalid_argument, "{}{} = {} is not finite", name, place_text(values.shape(), at),
       value);
}

} // namespace dllm
