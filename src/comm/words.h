#pragma once
// Words of any length between all ranks of a communicator.

#include "comm/communicator.h"

#include <string>
#include <vector>

namespace dllm::comm {

// What each rank gives, by rank.
std::vector<std::string> exchange_words(Communicator& communicator, const std::string& own,
                                        const Task* task);

} // namespace dllm::comm
