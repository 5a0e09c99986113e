#pragma once
// Makes the communicators of processes that mpirun or srun started.

#include "comm/communicator.h"
#include "comm/key_value_store.h"

#include <memory>

namespace dllm::comm {

// Returns this process's communicator with all processes of the job. Every process must call it,
// equally often; a call returns when all processes have called. Fails with unavailable if MPI is
// missing.
std::shared_ptr<Communicator> make_process_rank();

// A communicator and a key-value store of the same processes.
struct ProcessLink {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<KeyValueStore> store;
};
ProcessLink make_process_link(); // as make_process_rank()

// Returns the number of processes with the same processors (affinity mask) as this one, itself
// included. They divide the threads between them.
int64_t processes_on_same_processors(Communicator& communicator);

} // namespace dllm::comm
