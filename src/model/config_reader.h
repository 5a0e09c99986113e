#pragma once
// Typed, checked access to the keys of a config: errors name file, key, found and expected.

#include "base/json.h"

#include <cstdint>
#include <initializer_list>
#include <string>

namespace dllm::model {

class ConfigReader {
public:
  // `object` outlives the reader.
  ConfigReader(const Json& object, std::string file);

  const std::string& file() const { return file_; }
  bool has(const char* key) const; // there and not null
  const Json& object() const { return object_; }

  // Without a fallback a missing key fails.
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  int64_t integer(const char* key, int64_t low, int64_t high, int64_t otherwise) const;
  double number(const char* key, double low, double high, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  ConfigReader child(const char* key) const; // an object; fails when it is none

  // Fails with unimplemented when the key is there and is none of these (null counts as absent).
  void require_flag(const char* key, bool wanted) const;
  void require_text(const char* key, std::initializer_list<const char*> wanted) const;

  [[noreturn]] void bad(const char* key, const std::string& expected) const;

private:
  const Json& object_;
  std::string file_;
  std::string path_; // "rope_scaling." inside a child
};

// Numbers a model may have: large enough for any real one, small enough that products do not
// overflow.
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxSize = int64_t{1} << 20; // hidden, intermediate, heads x head_dim
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

} // namespace dllm::model
