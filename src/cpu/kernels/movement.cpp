// Operations that move elements without changing them: broadcast, transpose, slice, dynamic_slice,
// dynamic_update_slice, pad, concat, reverse.

#include "cpu/kernel.h"
#include "cpu/kernels/strides.h"

#include <algorithm>
#include <cstring>

namespace dllm::cpu {
namespace {

using Extents = std::vector<int64_t>;

int64_t element_size(const CompileInfo& info) {
  return dtype_size(info.output(0).dtype);
}

int64_t offset_of(const Extents& at, const Extents& strides) {
  int64_t offset = 0;
  for (size_t a = 0; a < at.size(); ++a) offset += at[a] * strides[a];
  return offset;
}

// Returns the begin of a dynamic slice, clamped so that `size` fits into `extents`. The operands
// first, first + 1, .. are i32(), one per axis.
Extents clamped_begin(const KernelCall& call, size_t first, const Extents& extents,
                      const Extents& size) {
  Extents begin(extents.size());
  for (size_t a = 0; a < begin.size(); ++a) {
    begin[a] = std::clamp<int64_t>(*call.inputs[first + a].in<int32_t>(), 0, extents[a] - size[a]);
  }
  return begin;
}

template <class T> void fill(std::byte* to, const std::byte* value, int64_t begin, int64_t end) {
  T pattern;
  std::memcpy(&pattern, value, sizeof pattern);
  std::fill(reinterpret_cast<T*>(to) + begin, reinterpret_cast<T*>(to) + end, pattern);
}

void fill_any(std::byte* to, const std::byte* value, int64_t begin, int64_t end, int64_t size) {
  if (size == 4)
    fill<uint32_t>(to, value, begin, end);
  else if (size == 2)
    fill<uint16_t>(to, value, begin, end);
  else
    fill<uint8_t>(to, value, begin, end);
}

Kernel make_broadcast(const CompileInfo& info) {
  const Broadcasting layout(info.input(0).shape, info.output(0).shape);
  const int64_t size = element_size(info);
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    const std::byte* x = call.inputs[0].data;
    std::byte* y = call.outputs[0].data;
    split(call.pool, layout.count(), grain_of(1), [&](int64_t begin, int64_t end) {
      layout.for_each(begin, end, [&](int64_t out, const Broadcasting::In* in, int64_t count) {
        const std::byte* from = x + in[0].offset * size;
        if (in[0].step == 1)
          std::memcpy(y + out * size, from, static_cast<size_t>(count * size));
        else
          fill_any(y, from, out, out + count, size);
      });
    });
  };
  return kernel;
}

Kernel make_transpose(const CompileInfo& info) {
  const auto& permutation = info.node.attributes.list("permutation");
  const Extents strides = row_major(info.input(0).shape.dims());
  const Extents& extents = info.output(0).shape.dims();
  Extents from;
  for (int64_t axis : permutation) from.push_back(strides[static_cast<size_t>(axis)]);
  const StridedCopy copy(extents, row_major(extents), from, element_size(info));
  Kernel kernel;
  kernel.run = [copy](const KernelCall& call) {
    copy.run(call.outputs[0].data, call.inputs[0].data, call.pool);
  };
  return kernel;
}

Kernel make_slice(const CompileInfo& info) {
  const Extents strides = row_major(info.input(0).shape.dims());
  const Extents& extents = info.output(0).shape.dims();
  const int64_t size = element_size(info);
  const int64_t start = offset_of(info.node.attributes.list("begin"), strides) * size;
  const StridedCopy copy(extents, row_major(extents), strides, size);
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    copy.run(call.outputs[0].data, call.inputs[0].data + start, call.pool);
  };
  return kernel;
}

Kernel make_dynamic_slice(const CompileInfo& info) {
  const Extents whole = info.input(0).shape.dims(), part = info.output(0).shape.dims();
  const Extents strides = row_major(whole);
  const int64_t size = element_size(info);
  const StridedCopy copy(part, row_major(part), strides, size);
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    const int64_t start = offset_of(clamped_begin(call, 1, whole, part), strides) * size;
    copy.run(call.outputs[0].data, call.inputs[0].data + start, call.pool);
  };
  return kernel;
}

Kernel make_dynamic_update_slice(const CompileInfo& info) {
  const Extents whole = info.input(0).shape.dims(), part = info.input(1).shape.dims();
  const Extents strides = row_major(whole);
  const int64_t size = element_size(info);
  const int64_t bytes = info.output(0).shape.count() * size;
  const StridedCopy copy(part, strides, row_major(part), size);
  Kernel kernel;
  kernel.may_overwrite = {0};
  kernel.run = [=](const KernelCall& call) {
    std::byte* y = call.outputs[0].data;
    if (y != call.inputs[0].data) parallel_copy(y, call.inputs[0].data, bytes, call.pool);
    copy.run(y + offset_of(clamped_begin(call, 2, whole, part), strides) * size,
             call.inputs[1].data, call.pool);
  };
  return kernel;
}

Kernel make_pad(const CompileInfo& info) {
  const Extents& extents = info.output(0).shape.dims();
  const Extents strides = row_major(extents);
  const Extents& part = info.input(0).shape.dims();
  const int64_t size = element_size(info), count = info.output(0).shape.count();
  const int64_t start = offset_of(info.node.attributes.list("low"), strides) * size;
  const StridedCopy copy(part, strides, row_major(part), size);
  const bool empty = info.input(0).shape.count() == 0;
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    std::byte* y = call.outputs[0].data;
    split(call.pool, count, grain_of(1),
          [&](int64_t begin, int64_t end) { fill_any(y, call.inputs[1].data, begin, end, size); });
    if (!empty) copy.run(y + start, call.inputs[0].data, call.pool);
  };
  return kernel;
}

Kernel make_concat(const CompileInfo& info) {
  const auto axis = static_cast<size_t>(info.node.attributes.integer("axis"));
  const Extents strides = row_major(info.output(0).shape.dims());
  const int64_t size = element_size(info);
  struct Part {
    StridedCopy copy;
    int64_t start;
    bool empty;
  };
  std::vector<Part> parts;
  int64_t at = 0;
  for (size_t i = 0; i < info.node.inputs.size(); ++i) {
    const Extents& extents = info.input(i).shape.dims();
    parts.push_back({StridedCopy(extents, strides, row_major(extents), size),
                     at * strides[axis] * size, info.input(i).shape.count() == 0});
    at += extents[axis];
  }
  Kernel kernel;
  kernel.run = [parts](const KernelCall& call) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].empty) continue;
      parts[i].copy.run(call.outputs[0].data + parts[i].start, call.inputs[i].data, call.pool);
    }
  };
  return kernel;
}

Kernel make_reverse(const CompileInfo& info) {
  const auto axis = static_cast<size_t>(info.node.attributes.integer("axis"));
  const Extents& extents = info.output(0).shape.dims();
  const Extents strides = row_major(extents);
  const int64_t size = element_size(info);
  Extents from = strides;
  from[axis] = -from[axis];
  const StridedCopy copy(extents, strides, from, size);
  const bool empty = info.output(0).shape.count() == 0;
  const int64_t last = empty ? 0 : (extents[axis] - 1) * strides[axis] * size;
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    if (!empty) copy.run(call.outputs[0].data, call.inputs[0].data + last, call.pool);
  };
  return kernel;
}

constexpr KernelEntry kMovementKernels[] = {
    {"broadcast", make_broadcast},
    {"concat", make_concat},
    {"dynamic_slice", make_dynamic_slice},
    {"dynamic_update_slice", make_dynamic_update_slice},
    {"pad", make_pad},
    {"reverse", make_reverse},
    {"slice", make_slice},
    {"transpose", make_transpose},
};

} // namespace

KernelList movement_kernels() {
  return kMovementKernels;
}

} // namespace dllm::cpu
