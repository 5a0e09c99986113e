#include "text/jinja/marked_text.h"

#include <algorithm>

namespace dllm::text::jinja {

MarkedText::MarkedText(std::string bytes, Mark mark) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), mark});
}

size_t MarkedText::run_of(size_t at) const {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), at,
                                      [](size_t value, const Run& run) { return value < run.end; });
  return static_cast<size_t>(found - runs_.begin());
}

Mark MarkedText::mark_at(size_t at) const {
  return runs_[run_of(at)].mark;
}

void MarkedText::append(std::string_view bytes, Mark mark) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().mark == mark) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), mark});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  end = std::min(end, other.size());
  const std::string_view bytes = other.bytes_;
  for (size_t run = begin < end ? other.run_of(begin) : 0; begin < end; ++run) {
    const size_t stop = std::min(end, other.runs_[run].end);
    append(bytes.substr(begin, stop - begin), other.runs_[run].mark);
    begin = stop;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

void MarkedText::mark_spoken() {
  for (Run& run : runs_) run.mark.spoken = true;
}

} // namespace dllm::text::jinja
