// An answer ends before a text of a list.

#include "text/answer/text_ends.h"

#include "base/error.h"
#include "text/unicode.h"

#include <algorithm>

namespace dllm::text {
namespace {

// Returns the length of the longest beginning of `wanted` that ends with `next`, when the text
// before `next` ends with the first `length` bytes of it (Knuth, Morris and Pratt 1977).
size_t extend(std::string_view wanted, const std::vector<size_t>& border, size_t length,
              char next) {
  while (length > 0 && wanted[length] != next) length = border[length - 1];
  return wanted[length] == next ? length + 1 : 0;
}

std::vector<size_t> borders_of(std::string_view text) {
  std::vector<size_t> border(text.size());
  for (size_t i = 1; i < text.size(); ++i) border[i] = extend(text, border, border[i - 1], text[i]);
  return border;
}

// Of two texts that end at the same byte the longer one counts.
class StopTexts final : public TextEnd {
public:
  StopTexts(const std::vector<std::string>& texts, const std::string& key) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) {
        fail_with_hint("leave it out: every answer would end at its first byte",
                       Code::invalid_argument, "{}[{}] is empty", key, i);
      }
      if (!is_valid_utf8(texts[i])) {
        fail_with_hint("an answer is UTF-8 and never contains it", Code::invalid_argument,
                       "{}[{}] is not UTF-8", key, i);
      }
      stops_.push_back({texts[i], borders_of(texts[i])});
    }
  }

  std::optional<TextCut> find(std::string_view text, size_t from) const override {
    std::optional<TextCut> first;
    for (const Stop& stop : stops_) {
      const size_t found = text.find(stop.text, from);
      if (found == std::string_view::npos) continue;
      const size_t end = found + stop.text.size();
      if (!first || end < first->known || (end == first->known && found < first->at))
        first = {found, end};
    }
    return first;
  }

  size_t held(std::string_view text, size_t from) const override {
    size_t most = 0;
    for (const Stop& stop : stops_) {
      const std::string_view answer = text.substr(std::min(from, text.size()));
      // A longer ending would be the whole stop text.
      const size_t bytes = std::min(answer.size(), stop.text.size() - 1);
      size_t length = 0;
      for (const char next : answer.substr(answer.size() - bytes))
        length = extend(stop.text, stop.border, length, next);
      most = std::max(most, length);
    }
    return most;
  }

private:
  struct Stop {
    std::string text;
    // For each length minus 1: the length of the longest shorter beginning that also ends there.
    std::vector<size_t> border;
  };
  std::vector<Stop> stops_;
};

} // namespace

TextEndKind text_end_files::stop_texts() {
  return {option_list("stop_texts", {}, "Texts that end the answer and are left out of it."),
          "stop", [](const Options& options, const std::string& key) -> std::unique_ptr<TextEnd> {
            return std::make_unique<StopTexts>(options.list(key), key);
          }};
}

} // namespace dllm::text
