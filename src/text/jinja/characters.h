#pragma once
// The characters of a text by index: Python counts characters, not bytes.

#include "text/jinja/budget.h"
#include "text/jinja/marked_text.h"
#include "text/unicode.h"

#include <algorithm>
#include <vector>

namespace dllm::text::jinja {

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
