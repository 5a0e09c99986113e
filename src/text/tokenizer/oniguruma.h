#pragma once
// Patterns of tokenizer files are Oniguruma's, in Ruby's syntax. PCRE2, which matches them here, gives some of the same
// text another meaning.

#include <string>
#include <string_view>

namespace dllm::text {

// The pattern for PCRE2 (with UTF and UCP) that matches what Oniguruma's does. Fails with unimplemented naming what has no
// counterpart, invalid_argument for a class without an end; `what` names the part of the file.
//
// Translated: classes in classes and && in them, POSIX brackets, \h \H (hexadecimal digits), \w \s \b \B (their sets differ),
// \v \O \u \Q, scripts in \p, ^ and $ (at every line), (?m) (dot takes line ends), (?i) without a colon (reaches over |),
// {n,m}+ and {n}? (a second quantifier), {,n}.
std::string oniguruma_to_pcre2(std::string_view pattern, std::string_view what);

} // namespace dllm::text
