#include "flag_hints.h"

#include <initializer_list>
#include <sstream>
#include <utility>
#include <vector>

namespace dllm::cli {
namespace {

// A word of a hint, without the punctuation around it.
struct Word {
  std::string before, core, after;
};

std::vector<Word> words_of(const std::string& hint) {
  std::vector<Word> words;
  std::istringstream stream(hint);
  for (std::string text; stream >> text;) {
    constexpr std::string_view kSigns = "(),.;:'\"";
    size_t begin = 0, end = text.size();
    while (begin < end && kSigns.find(text[begin]) != std::string_view::npos) ++begin;
    while (end > begin && kSigns.find(text[end - 1]) != std::string_view::npos) --end;
    words.push_back({text.substr(0, begin), text.substr(begin, end - begin), text.substr(end)});
  }
  return words;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
  for (const std::string_view other : all) {
    if (word == other) return true;
  }
  return false;
}

// Returns true for the names of policies and of other things, which may be options too.
bool is_list_of_names(std::string_view hint) {
  return hint.starts_with("there are ") || hint.starts_with("the names are ");
}

class Writer {
public:
  Writer(std::vector<Word> words, const FlagOf& flag_of)
      : words_(std::move(words)), flag_of_(flag_of) {}

  std::string text() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      if (!write_quoted() && !write_option()) put(words_[at_]);
    }
    std::string all;
    for (const std::string& word : made_) all += (all.empty() ? "" : " ") + word;
    return all;
  }

private:
  std::string core(size_t index) const { return index < words_.size() ? words_[index].core : ""; }
  void put(const Word& word) {
    made_.push_back(word.before + word.core + word.after);
    may_follow_ = word.core == "set" || (is_after_ && is_one_of(word.core, {"or", "and"}));
    is_after_ = false;
  }
  // Puts a flag, or its value. Another option may follow after a comma, "or" or "and".
  void put_part(const std::string& text) {
    made_.push_back(text);
    is_after_ = true;
    may_follow_ = text.ends_with(',');
  }
  // Puts a flag; what follows "=" or "to" is its value.
  void put_flag(const std::string& flag, const Word& word) {
    put_part(word.before + flag + word.after);
    const bool has_more = word.after.empty();
    if (has_more && core(at_ + 1) == "=")
      ++at_;
    else if (has_more && core(at_ + 1) == "to" && is_value(core(at_ + 2)))
      ++at_;
    else
      return;
    if (++at_ < words_.size()) // the value
      put_part(words_[at_].before + words_[at_].core + words_[at_].after);
  }
  static bool is_value(const std::string& word) {
    return !word.empty() && !is_article(word) && word != "it";
  }
  static bool is_article(const std::string& word) { return is_one_of(word, {"a", "an", "the"}); }

  // Puts words between quotes as they are: they are a value to type. A word alone may be an option.
  bool write_quoted() {
    const std::string& before = words_[at_].before;
    const size_t opening = before.find_first_of("'\"");
    if (opening == std::string::npos) return false;
    const auto closes = [&](const Word& word) {
      return word.after.find(before[opening]) != std::string::npos;
    };
    size_t end = at_;
    while (end < words_.size() && !closes(words_[end])) ++end;
    if (end == at_ || end == words_.size()) return false;
    for (; at_ < end; ++at_) put(words_[at_]);
    put(words_[at_]);
    return true;
  }

  bool write_option() {
    const Word& word = words_[at_];
    if (const size_t equals = word.core.find('='); equals != std::string::npos && equals > 0) {
      const std::string flag = flag_of_(word.core.substr(0, equals));
      if (flag.empty()) return false;
      put_part(word.before + flag + " " + word.core.substr(equals + 1) + word.after);
      return true;
    }
    if (word.core == "option") {
      const std::string flag = flag_of_(core(at_ + 1));
      if (flag.empty()) return false;
      if (is_one_of(last(), {"model", "loader", "trainer", "engine"})) made_.pop_back();
      if (is_one_of(last(), {"the"})) made_.pop_back();
      ++at_;
      put_flag(flag, words_[at_]);
      return true;
    }
    const bool is_technical = word.core.find_first_of("_.") != std::string::npos;
    const bool has_equals = core(at_ + 1) == "=";
    if (!is_technical && !has_equals && (!may_follow_ || is_article(word.core))) return false;
    const std::string flag = flag_of_(word.core);
    if (flag.empty()) return false;
    put_flag(flag, word);
    return true;
  }

  std::string last() const { return made_.empty() ? "" : made_.back(); }

  const std::vector<Word> words_;
  const FlagOf& flag_of_;
  std::vector<std::string> made_;
  size_t at_ = 0;
  bool may_follow_ = false; // after "set", and in a list of options, where an option may follow
  bool is_after_ = false;   // the last word was a flag or its value
};

} // namespace

std::string hint_in_flags(const std::string& hint, const FlagOf& flag_of) {
  if (hint.find("--") != std::string::npos || is_list_of_names(hint)) return hint;
  return Writer(words_of(hint), flag_of).text();
}

} // namespace dllm::cli
