#pragma once
// What both halves of the parser share.

#include "base/error.h"

#include <string>
#include <string_view>

namespace dllm::text::jinja {

// One level of recursion while it lives: a template of a stranger may hold a million brackets.
class Nested {
public:
  explicit Nested(int& depth) : depth_(depth) {
    if (depth_ >= kDeepest) {
      fail(Code::resource_exhausted, "the template nests deeper than {} levels", kDeepest);
    }
    ++depth_;
  }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;

  static constexpr int kDeepest = 100;

private:
  int& depth_;
};

// The tag that begins at `begin`, on one line, for errors.
std::string tag_source(std::string_view source, size_t begin);

} // namespace dllm::text::jinja
