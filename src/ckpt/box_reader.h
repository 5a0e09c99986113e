#pragma once
// Reading a part of an array that lies in a file: the bytes of the part, and gaps between them that are cheaper to read over
// than to leave out.

#include "base/files.h"
#include "base/task.h"
#include "tensor/box.h"

#include <cstdint>

namespace dllm::ckpt {

// at: where the whole array begins; unit: bytes of an element. `to` has room for the elements of the box. The task is checked
// every piece.
void read_box(const Content& content, int64_t at, int64_t unit, const Shape& whole, const Box& box,
              std::byte* to, const Task* task);

} // namespace dllm::ckpt
