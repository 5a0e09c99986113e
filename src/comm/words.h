#pragma once
// Exchanges strings of any length between all ranks of a communicator.

#include "comm/communicator.h"

#include <string>
#include <vector>

namespace dllm::comm {

// Sends `own` to all ranks and returns the strings of all ranks, by rank.
std::vector<std::string> exchange_words(Communicator& communicator, const std::string& own,
                                        const Task* task);

} // namespace dllm::comm
