#pragma once
// libdllm_mpi.so, loaded when it is wanted.

#include "comm/transport.h"

#include <memory>

namespace dllm::comm {

// Loads DLLM_MPI_LIBRARY (a path), else libdllm_mpi.so next to this library, and starts MPI. Fails with unavailable where
// that is not possible.
std::shared_ptr<Transport> open_mpi();

} // namespace dllm::comm
