#pragma once
// Defines Error, the one exception type of the core. Only abi/guard.h turns it into a status.

#include <fmt/core.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace dllm {

// include/dllm/base.h has the same numbers: 0 to 16 are the canonical codes, and codes of dllm
// begin at 100.
enum class Code : int32_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
  callback_failed = 100,
  script_failed = 101,
};

// Returns the name of a code as the C ABI spells it ("not_found"); never null.
const char* code_name(Code code) noexcept;

// text: one line that names the object and the numbers, without a full stop. hint: what the user
// can try; may be empty.
class Error : public std::exception {
public:
  Error(Code code, std::string text, std::string hint = {})
      : code_(code), text_(std::move(text)), hint_(std::move(hint)) {}

  Code code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }
  const std::string& hint() const noexcept { return hint_; }
  const char* what() const noexcept override { return text_.c_str(); }

private:
  Code code_;
  std::string text_;
  std::string hint_;
};

template <class... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// fail_with_hint("set guidance to 0", Code::invalid_argument, "policy {} has no guidance", name)
template <class... Args>
[[noreturn]] void fail_with_hint(std::string hint, Code code, fmt::format_string<Args...> format,
                                 Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...), std::move(hint));
}

// Returns the code that fits a number of errno.
Code errno_code(int number);

// Fails with "cannot <verb> <path>: <reason>", where code and reason come from errno.
[[noreturn]] void fail_errno(const char* verb, const std::string& path);

} // namespace dllm
