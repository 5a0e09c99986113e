#pragma once
// File names that come from inside a file (an index, a COMMIT): they must stay in the folder they
// were read from.

#include <string_view>

namespace dllm::ckpt {

// Relative, '/' between parts, no empty, "." or ".." part, no backslash, no control character, at
// most 1024 bytes.
inline bool is_safe_path(std::string_view path) {
  constexpr size_t kMaxLength = 1024;
  if (path.empty() || path.size() > kMaxLength) return false;
  for (const char c : path) {
    if (c == '\\' || static_cast<unsigned char>(c) < 0x20) return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = path.find('/', begin);
    if (end == std::string_view::npos) end = path.size();
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

// The same without a folder: shards lie beside their index.
inline bool is_safe_name(std::string_view name) {
  return is_safe_path(name) && name.find('/') == std::string_view::npos;
}

} // namespace dllm::ckpt
