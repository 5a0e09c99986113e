#pragma once
// Looks at the first bytes of a file that is read as plain text without the user's order.

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::text {

constexpr int64_t kCheckedBytes = int64_t{64} << 10; // bytes that check_is_text() looks at

// Fails with invalid_argument when the bytes are not text: one is NUL, or 30 % and more are control
// characters or not UTF-8. Logs a warning from 5 % on, which is usual for text in another encoding.
void check_is_text(std::string_view head, const std::string& path);

} // namespace dllm::text
