#pragma once
// abi/manifest.json as plain data; its format is described in bindings/c-abi-rules.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sweep {

struct Param {
  std::string name, kind, handle, elem, length, options;
  std::vector<int64_t> values;
  std::vector<std::string> of;
  std::optional<int64_t> min, max;
  bool null = false;    // NULL is allowed
  bool pointer = false; // the C type is a pointer
  bool filled = false;  // a buffer that the call fills
};

struct Function {
  std::string name, result, takes, threads;
  std::vector<Param> params;

  // What dllm_error_code returns is a status, but not its own.
  bool can_fail() const { return result == "status" && name != "dllm_error_code"; }
};

std::vector<Function> read_manifest(const std::string& path);

} // namespace sweep
