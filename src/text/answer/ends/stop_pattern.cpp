// An answer ends before a part that matches a regular expression.

#include "text/answer/text_ends.h"

#include "base/error.h"
#include "text/automaton/byte_automaton.h"

#include <algorithm>
#include <cstdint>

namespace dllm::text {
namespace {

// Returns true for a pattern that begins with ^ or ends with a $ which is not escaped.
bool has_anchor(std::string_view pattern) {
  if (pattern.starts_with('^')) return true;
  if (!pattern.ends_with('$')) return false;
  pattern.remove_suffix(1);
  const size_t last = pattern.find_last_not_of('\\');
  const size_t escapes = pattern.size() - (last == std::string_view::npos ? 0 : last + 1);
  return escapes % 2 == 0;
}

// Reads a text from each of its bytes on. The automaton has no state from which no text matches. So
// a reading that is alive at the end of the text is a match that may still grow.
class StopPattern final : public TextEnd {
public:
  StopPattern(const std::string& pattern, const std::string& key) : automaton_(pattern) {
    if (has_anchor(pattern)) {
      fail_with_hint("leave ^ and $ out: the pattern is searched in the whole answer",
                     Code::invalid_argument, "option {} is \"{}\", and it has ^ or $ at an end",
                     key, pattern.substr(0, 80));
    }
    if (automaton_.accepts(automaton_.begin())) {
      fail_with_hint("let the pattern match one character or more", Code::invalid_argument,
                     "option {} is \"{}\", which matches an empty text: every answer would end at "
                     "its first byte",
                     key, pattern.substr(0, 80));
    }
  }

  std::optional<TextCut> find(std::string_view text, size_t from) const override {
    Readings readings(automaton_);
    for (size_t i = from; i < text.size(); ++i) {
      if (const std::optional<size_t> begin = readings.take(i, text[i])) return {{*begin, i + 1}};
    }
    return std::nullopt;
  }

  size_t held(std::string_view text, size_t from) const override {
    Readings readings(automaton_);
    for (size_t i = from; i < text.size(); ++i) readings.take(i, text[i]);
    return readings.is_empty() ? 0 : text.size() - readings.first();
  }

private:
  class Readings {
  public:
    explicit Readings(const ByteAutomaton& automaton)
        : automaton_(automaton), met_(static_cast<size_t>(automaton.size()), -1) {}

    bool is_empty() const { return open_.empty(); }
    size_t first() const { return open_.front().begin; }

    // Takes byte `at`. Returns where the longest match begins that ends with it, if there is one.
    std::optional<size_t> take(size_t at, char byte) {
      open_.push_back({at, automaton_.begin()});
      size_t kept = 0;
      for (const Reading reading : open_) {
        const int32_t state = automaton_.next(reading.state, static_cast<uint8_t>(byte));
        if (state == ByteAutomaton::kDead) continue;
        if (automaton_.accepts(state)) return reading.begin;
        // Readings of the same state have the same end, and the first one is the longest.
        if (std::exchange(met_[static_cast<size_t>(state)], static_cast<int64_t>(at)) ==
            static_cast<int64_t>(at))
          continue;
        open_[kept++] = {reading.begin, state};
      }
      open_.resize(kept);
      return std::nullopt;
    }

  private:
    struct Reading {
      size_t begin; // byte
      int32_t state;
    };
    const ByteAutomaton& automaton_;
    std::vector<Reading> open_; // the first byte first
    std::vector<int64_t> met_;  // for each state, the last byte after which a reading had it
  };

  ByteAutomaton automaton_;
};

} // namespace

TextEndKind text_end_files::stop_pattern() {
  return {option_str("stop_pattern", "",
                     "The answer ends before the first part that matches this regular expression."),
          "stop_pattern",
          [](const Options& options, const std::string& key) -> std::unique_ptr<TextEnd> {
            return std::make_unique<StopPattern>(options.str(key), key);
          }};
}

} // namespace dllm::text
