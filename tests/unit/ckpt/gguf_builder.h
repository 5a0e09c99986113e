#pragma once
// Writes GGUF bytes piece by piece, right and wrong.

#include <cstdint>
#include <string>
#include <string_view>

namespace dllm::test {

struct GgufBuilder {
  std::string bytes = "GGUF";

  template <class T> GgufBuilder& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBuilder& text(std::string_view value) {
    put<uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  GgufBuilder& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return put(version).put(tensors).put(keys);
  }
  template <class T> GgufBuilder& scalar(std::string_view key, uint32_t type, T value) {
    return text(key).put(type).put(value);
  }
  GgufBuilder& text_value(std::string_view key, std::string_view value) {
    return text(key).put<uint32_t>(8).text(value);
  }
  GgufBuilder& list(std::string_view key, uint32_t element, uint64_t count) {
    return text(key).put<uint32_t>(9).put(element).put(count);
  }
  // dims as the file has them: innermost first
  GgufBuilder& tensor(std::string_view name, std::initializer_list<uint64_t> dims, uint32_t type,
                      uint64_t offset) {
    text(name).put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t extent : dims) put(extent);
    return put(type).put(offset);
  }
  GgufBuilder& align(size_t to = 32) {
    bytes.resize((bytes.size() + to - 1) / to * to);
    return *this;
  }
};

} // namespace dllm::test
