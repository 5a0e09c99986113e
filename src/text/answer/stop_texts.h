#pragma once
// Stop texts end an answer. A text that grows is searched for them, also where a stop text is
// complete only later.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

class StopTexts {
public:
  StopTexts() = default;
  // Fails with invalid_argument for a text that is empty or not UTF-8.
  explicit StopTexts(const std::vector<std::string>& texts);

  // Returns where the stop text begins that is complete first at or after byte `from`, or npos. Of
  // two stop texts with the same end the longer one counts. So the result is the same for a text
  // that is searched at once and for a text that is searched after each new byte.
  size_t find(std::string_view text, size_t from) const;
  // Returns the number of bytes at the end, at or after byte `from`, that may begin a stop text.
  size_t held(std::string_view text, size_t from) const;

private:
  struct Stop {
    std::string text;
    // For each length minus 1: the length of the longest shorter beginning that also ends there.
    std::vector<size_t> border;
  };
  std::vector<Stop> stops_;
};

} // namespace dllm::text
