#pragma once
// Tokenizer files have patterns of Oniguruma in Ruby's syntax. oniguruma_to_pcre2() translates them
// for PCRE2, which matches them in this library and reads some of the syntax differently.

#include <string>
#include <string_view>

namespace dllm::text {

// Returns a pattern for PCRE2 (with UTF and UCP) that matches the same texts as `pattern` does in
// Oniguruma. Fails with unimplemented naming syntax that PCRE2 cannot express, and with
// invalid_argument for a class without an end. `what` names the part of the file in errors.
//
// It translates:
//   classes in classes and && in them, POSIX brackets, scripts in \p
//   \h \H (hexadecimal digits), \w \s \b \B (their sets differ), \v \O \u \Q
//   ^ and $ (at every line), (?m) (dot takes line ends), (?i) without a colon (reaches over |)
//   {n,m}+ and {n}? (a second quantifier), {,n}
std::string oniguruma_to_pcre2(std::string_view pattern, std::string_view what);

} // namespace dllm::text
