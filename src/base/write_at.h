#pragma once
// Writes at a place of an open file.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace dllm {

// Calls pwrite(2) without raising a signal, as write_without_signal does (base/files.h).
ssize_t write_at_without_signal(int fd, const void* data, size_t size, int64_t at);

} // namespace dllm
