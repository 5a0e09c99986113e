#pragma once
// read_box() reads a part of an array that is stored in a file. It also reads small gaps between
// the runs of the part, which costs less than separate reads.

#include "base/files.h"
#include "base/task.h"
#include "tensor/box.h"

#include <cstdint>

namespace dllm::ckpt {

// Reads the elements of `box` to `to`. at: byte of the file at which the whole array begins. unit:
// bytes of an element. Checks the task before every read. REQUIRES: `to` has room for the elements
// of the box.
void read_box(const Content& content, int64_t at, int64_t unit, const Shape& whole, const Box& box,
              std::byte* to, const Task* task);

} // namespace dllm::ckpt
