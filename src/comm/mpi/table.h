#pragma once
// Declares the functions of libdllm_mpi.so as a C table. That library is built against MPI; the
// core is not.

#include <cstdint>

extern "C" {

// Any thread may call; a mutex serialises the calls. Counts are at most 2^31 - 1.
struct dllm_mpi_table {
  int32_t version; // kMpiTable
  // Starts MPI unless the host has started it. Returns 0, or writes the reason to `error`.
  int32_t (*start)(char* error, int64_t room);
  int32_t (*rank)();
  int32_t (*size)();
  // Begin a message and return its request; NULL on failure.
  void* (*send)(int32_t to, int32_t tag, const void* bytes, int64_t count);
  void* (*receive)(int32_t from, int32_t tag, void* bytes, int64_t count);
  // Returns 1 if the message is done, 0 if not, -1 on failure. 1 and -1 release the request.
  int32_t (*test)(void* request);
  void (*drop)(void* request);
  // Receives a waiting message. Returns the sender's rank, -1 without a message, -2 on failure.
  int32_t (*take)(int32_t tag, void* bytes, int64_t count);
};

const dllm_mpi_table* dllm_mpi();
}

namespace dllm::comm {
inline constexpr int32_t kMpiTable = 1;
inline constexpr const char* kMpiEntry = "dllm_mpi";
} // namespace dllm::comm
