#pragma once
// The pauses between two attempts of a request, and which answers of a server another attempt may
// change.

#include "base/http/http.h"
#include "base/task.h"

#include <cstdint>
#include <string_view>

namespace dllm::http {

// Returns true if another attempt may succeed: after an overload, a gateway error or a time-out.
bool is_passing_status(int status);

// Returns the pause after attempt `attempt` (from 0) of a request. The pause doubles from 0.25 to
// 20 seconds and is multiplied by a factor in [1/2, 1). The factor depends on name and process, so
// that the ranks do not retry all at once.
double pause_seconds(int attempt, std::string_view name, int64_t process);

// Returns after `seconds`, and checks the task every 10 ms.
void wait(double seconds, const Task* task);

} // namespace dllm::http
