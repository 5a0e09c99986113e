// Values made, moved and converted.

#include "unit/graph/reference/arrays.h"

#include "base/error.h"
#include "graph/op.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dllm::graph::test {
namespace {

// y[index] = x[source(index)]
Results gather(const LocalCall& call, const std::function<Index(const Index&)>& source) {
  Array y = empty(call.result());
  const Array& x = *call.in[0];
  each(y.type.shape, [&](const Index& at, size_t flat) {
    y.data[flat] = x.data[flat_of(x.type.shape, source(at))];
  });
  return {y};
}

Results op_constant(const LocalCall& call) {
  return {from_tensor(call.node.literal, call.result())};
}

Results op_iota(const LocalCall& call) {
  Array y = empty(call.result());
  const auto axis = zu(call.node.attributes.integer("axis"));
  each(y.type.shape,
       [&](const Index& at, size_t flat) { y.data[flat] = static_cast<double>(at[axis]); });
  return {y};
}

Results op_broadcast(const LocalCall& call) {
  const Shape& from = call.in[0]->type.shape;
  return gather(call, [&](const Index& at) {
    Index source(zu(from.rank()));
    for (size_t i = 0; i < source.size(); ++i) {
      source[i] = from.dims()[i] == 1 ? 0 : at[at.size() - source.size() + i];
    }
    return source;
  });
}

Results op_copy(const LocalCall& call) {
  return {Array{call.result(), call.in[0]->data}};
}

Results op_transpose(const LocalCall& call) {
  const auto& permutation = call.node.attributes.list("permutation");
  return gather(call, [&](const Index& at) {
    Index source(at.size());
    for (size_t i = 0; i < at.size(); ++i) source[zu(permutation[i])] = at[i];
    return source;
  });
}

Results op_slice(const LocalCall& call) {
  const auto& begin = call.node.attributes.list("begin");
  return gather(call, [&](Index at) {
    for (size_t i = 0; i < at.size(); ++i) at[i] += begin[i];
    return at;
  });
}

Results op_pad(const LocalCall& call) {
  const Array& x = *call.in[0];
  Array y = empty(call.result());
  std::fill(y.data.begin(), y.data.end(), call.in[1]->data[0]);
  const auto& low = call.node.attributes.list("low");
  each(x.type.shape, [&](Index at, size_t flat) {
    for (size_t i = 0; i < at.size(); ++i) at[i] += low[i];
    y.data[flat_of(y.type.shape, at)] = x.data[flat];
  });
  return {y};
}

Results op_concat(const LocalCall& call) {
  Array y = empty(call.result());
  const auto axis = zu(call.node.attributes.integer("axis"));
  int64_t begin = 0;
  for (const Array* part : call.in) {
    each(part->type.shape, [&](Index at, size_t flat) {
      at[axis] += begin;
      y.data[flat_of(y.type.shape, at)] = part->data[flat];
    });
    begin += part->type.shape.dims()[axis];
  }
  return {y};
}

Results op_reverse(const LocalCall& call) {
  const auto axis = zu(call.node.attributes.integer("axis"));
  return gather(call, [&](Index at) {
    at[axis] = call.in[0]->type.shape.dims()[axis] - 1 - at[axis];
    return at;
  });
}

Index clamped_begin(const LocalCall& call, size_t first, const Shape& whole, const Shape& part) {
  Index begin;
  for (int64_t i = 0; i < whole.rank(); ++i) {
    const auto wanted = static_cast<int64_t>(call.in[first + zu(i)]->data[0]);
    begin.push_back(std::clamp<int64_t>(wanted, 0, whole.dim(i) - part.dim(i)));
  }
  return begin;
}

Results op_dynamic_slice(const LocalCall& call) {
  const Index begin = clamped_begin(call, 1, call.in[0]->type.shape, call.result().shape);
  return gather(call, [&](Index at) {
    for (size_t i = 0; i < at.size(); ++i) at[i] += begin[i];
    return at;
  });
}

Results op_dynamic_update_slice(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  const Array& update = *call.in[1];
  const Index begin = clamped_begin(call, 2, y.type.shape, update.type.shape);
  each(update.type.shape, [&](Index at, size_t flat) {
    for (size_t i = 0; i < at.size(); ++i) at[i] += begin[i];
    y.data[flat_of(y.type.shape, at)] = update.data[flat];
  });
  return {y};
}

double saturate(double x, double low, double high) {
  return std::isnan(x) ? 0 : std::trunc(std::clamp(x, low, high));
}

Results op_convert(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  const bool from_float = is_float(call.in[0]->type.dtype);
  for (double& v : y.data) {
    switch (y.type.dtype) {
    case DType::bf16:
      v = static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(v))));
      break;
    case DType::i32:
      v = from_float ? saturate(v, -2147483648.0, 2147483647.0) : wrap(DType::i32, v);
      break;
    case DType::u32: v = from_float ? saturate(v, 0, 4294967295.0) : wrap(DType::u32, v); break;
    case DType::u8:
      v = from_float ? saturate(v, 0, 255) : static_cast<uint8_t>(static_cast<int64_t>(v));
      break;
    case DType::i8:
      v = from_float ? saturate(v, -128, 127) : static_cast<int8_t>(static_cast<int64_t>(v));
      break;
    default: break;
    }
  }
  return {y};
}

uint32_t bits_of(DType dtype, double v) {
  if (dtype == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  return static_cast<uint32_t>(static_cast<int64_t>(v));
}

Results op_bitcast(const LocalCall& call) {
  Array y{call.result(), call.in[0]->data};
  const DType from = call.in[0]->type.dtype;
  if (dtype_size(from) != 4) fail(Code::unimplemented, "oracle: bitcast of {}", dtype_name(from));
  for (double& v : y.data) {
    const uint32_t bits = bits_of(from, v);
    if (y.type.dtype == DType::f32)
      v = static_cast<double>(std::bit_cast<float>(bits));
    else
      v = y.type.dtype == DType::i32 ? static_cast<double>(static_cast<int32_t>(bits))
                                     : static_cast<double>(bits);
  }
  return {y};
}

constexpr Entry kTable[] = {
    {"constant", op_constant},
    {"iota", op_iota},
    {"broadcast", op_broadcast},
    {"reshape", op_copy},
    {"barrier", op_copy},
    {"stop_gradient", op_copy},
    {"transpose", op_transpose},
    {"slice", op_slice},
    {"pad", op_pad},
    {"concat", op_concat},
    {"reverse", op_reverse},
    {"dynamic_slice", op_dynamic_slice},
    {"dynamic_update_slice", op_dynamic_update_slice},
    {"convert", op_convert},
    {"bitcast", op_bitcast},
};

} // namespace

LocalOp find_move_op(std::string_view op) {
  return find_entry(kTable, op);
}

} // namespace dllm::graph::test
