#pragma once
// Checks of content that is read as plain text without the user's order.

#include "text/readers/readers.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::text {

constexpr int64_t kCheckedBytes = int64_t{64} << 10; // bytes that check_is_text() looks at

// Fails with invalid_argument when the bytes are not text: one is NUL, or 30 % and more are control
// characters or not UTF-8. Logs a warning from 5 % on, which is usual for text in another encoding.
void check_is_text(std::string_view head, const std::string& path);

// Counts rows of plain text whose bytes are not UTF-8.
class EncodingCount {
public:
  void add(const Record& record);
  void warn() const; // logs a line, when there are such rows

private:
  int64_t rows_ = 0, bad_ = 0;
  int64_t first_ = 0, last_ = 0; // such rows, counted from 1; 0: none
};

} // namespace dllm::text
