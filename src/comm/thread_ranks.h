#pragma once
// Ranks of one process: threads that exchange arrays over shared memory.

#include "comm/communicator.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::comm {

// The communicators of `size` ranks, by rank. Each is used by one thread at a time.
std::vector<std::shared_ptr<Communicator>> make_thread_ranks(int64_t size);

} // namespace dllm::comm
