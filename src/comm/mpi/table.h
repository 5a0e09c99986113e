#pragma once
// The functions of libdllm_mpi.so. A C table: that library is built against MPI, the core is not.

#include <cstdint>

extern "C" {

// Any thread may call; calls take turns inside. Counts are at most 2^31 - 1.
struct dllm_mpi_table {
  int32_t version; // kMpiTable
  // Starts MPI where the host has not. 0: it runs; else the reason is in `error`.
  int32_t (*start)(char* error, int64_t room);
  int32_t (*rank)();
  int32_t (*size)();
  void* (*send)(int32_t to, int32_t tag, const void* bytes, int64_t count); // NULL: failed
  void* (*receive)(int32_t from, int32_t tag, void* bytes, int64_t count);
  int32_t (*test)(void* request); // 1: over, and gone; 0: not yet; -1: failed, and gone
  void (*drop)(void* request);
  int32_t (*take)(int32_t tag, void* bytes,
                  int64_t count); // the sender's rank; -1: none; -2: failed
};

const dllm_mpi_table* dllm_mpi();
}

namespace dllm::comm {
inline constexpr int32_t kMpiTable = 1;
inline constexpr const char* kMpiEntry = "dllm_mpi";
} // namespace dllm::comm
