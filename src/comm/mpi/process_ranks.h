#pragma once
// The ranks of processes that mpirun or srun started.

#include "comm/communicator.h"
#include "comm/key_value_store.h"

#include <memory>

namespace dllm::comm {

// This process's rank among all processes of the job. Every process calls it, the same number of times; it returns when
// all have. Fails with unavailable where MPI is missing.
std::shared_ptr<Communicator> make_process_rank();

// The same with a store of keys and values that the processes share.
struct ProcessLink {
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<KeyValueStore> store;
};
ProcessLink make_process_link();

// How many of the processes may run on the processors of this one, itself included: threads are shared out between them.
int64_t processes_on_same_processors(Communicator& communicator);

} // namespace dllm::comm
