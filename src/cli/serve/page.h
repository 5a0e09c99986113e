#pragma once
// The page of a server, on which a reader watches a text being written and writes parts of it again.

#include <string_view>

namespace dllm::cli {

extern const std::string_view kServePage;   // serve/page.html
extern const std::string_view kServeScript; // serve/page.js

} // namespace dllm::cli
