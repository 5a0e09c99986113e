#pragma once
// Loads libdllm_mpi.so at run time, because the core is built without MPI.

#include "comm/transport.h"

#include <memory>

namespace dllm::comm {

// Loads DLLM_MPI_LIBRARY (a path), else libdllm_mpi.so next to this library, and starts MPI. Fails
// with unavailable if the library cannot be loaded or MPI does not start.
std::shared_ptr<Transport> open_mpi();

} // namespace dllm::comm
