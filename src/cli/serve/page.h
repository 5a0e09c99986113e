#pragma once
// The page of a server. A reader watches a text there, and has parts of it written again.

#include <string_view>

namespace dllm::cli {

extern const std::string_view kServePage;   // serve/page.html
extern const std::string_view kServeScript; // serve/page.js

} // namespace dllm::cli
