#pragma once
// Makes ranks that are threads of one process and exchange arrays through shared memory.

#include "comm/communicator.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::comm {

// Returns the communicators of `size` ranks, by rank. One thread at a time uses a communicator.
std::vector<std::shared_ptr<Communicator>> make_thread_ranks(int64_t size);

} // namespace dllm::comm
