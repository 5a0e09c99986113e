#pragma once
// Text that knows, byte by byte, who wrote it: the template's author or a message. What a template
// does to a text (slices, joins, replaces) keeps the marks, so that special tokens are looked for
// only in what the template itself says, and the loss counts only what the assistant says.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text::jinja {

struct Mark {
  static constexpr int32_t kTemplate = -1; // written by the template's author: trusted
  static constexpr int32_t kData = -2;     // roles, tools, variables: given, of no role
  int32_t message = kTemplate;             // 0 and up: said in this message
  bool spoken = false;                     // inside a {% generation %} block
  bool operator==(const Mark&) const = default;
};

class MarkedText {
public:
  struct Run {
    size_t end; // first byte after the run
    Mark mark;
  };

  MarkedText() = default;
  explicit MarkedText(std::string bytes, Mark mark = {});

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  size_t footprint() const { return bytes_.size() + runs_.size() * sizeof(Run); } // bytes of memory
  // In order, without gaps, neighbours differ.
  const std::vector<Run>& runs() const { return runs_; }
  // REQUIRES: at < size().
  Mark mark_at(size_t at) const;

  void append(std::string_view bytes, Mark mark = {});
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of another text.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;
  void mark_spoken();

private:
  size_t run_of(size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

} // namespace dllm::text::jinja
