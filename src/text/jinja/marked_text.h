#pragma once
// Text with a mark for each byte that says who wrote it: the template's author or a message. What a template
// does to a text (slices, joins, replaces) keeps the marks, so that special tokens are looked for
// only in what the template itself writes, and the loss counts only the messages of the assistant.

#include "text/jinja/budget.h"
#include "text/unicode.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text::jinja {

struct Mark {
  static constexpr int32_t kTemplate = -1; // written by the template's author: trusted
  static constexpr int32_t kData = -2;     // roles, tools, variables: given, of no role
  int32_t message = kTemplate;             // 0 and up: of this message
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

// The characters of a text by index: Python counts characters, not bytes.

// The text outlives it.
class Characters {
public:
  Characters() = default;
  Characters(Budget& budget, const MarkedText& text) : text_(&text) {
    const std::string& bytes = text.bytes();
    budget.step(bytes.size() / 16);
    ascii_ = std::all_of(bytes.begin(), bytes.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii_) return;
    budget.grow(bytes.size() * sizeof(size_t));
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(char_at(bytes, at).size)) {
      starts_.push_back(at);
    }
  }

  size_t count() const { return text_ == nullptr ? 0 : ascii_ ? text_->size() : starts_.size(); }
  size_t offset(size_t index) const {
    if (ascii_) return std::min(index, text_->size());
    return index < starts_.size() ? starts_[index] : text_->size();
  }
  MarkedText slice(size_t begin, size_t end) const {
    return text_->slice(offset(begin), offset(end));
  }

private:
  const MarkedText* text_ = nullptr;
  bool ascii_ = true;
  std::vector<size_t> starts_;
};

} // namespace dllm::text::jinja
