#pragma once
// The rules that end an answer by its text, as data. A rule is an option and a search. A new rule
// is a function in a file of ends/, and its name appears twice below. Kinds "answer" and "request"
// have its option, the program makes a flag of it, and scripts may set it at every level. So the
// value of an option is a text, a list of texts or a number, and never a path.

#include "base/options.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// Where a rule ends a text.
struct TextCut {
  size_t at;    // bytes before the end of the answer
  size_t known; // bytes of which the rule needs all to end the answer
};

// A rule with its value. Any thread may call it.
class TextEnd {
public:
  virtual ~TextEnd() = default;
  // Returns the cut at or after byte `from` that is known first. Of cuts that are known at the same
  // byte, the first one counts. So a text that is searched at once has the cut that it has when it
  // is searched after each new byte. Returns nothing for a text without a cut.
  virtual std::optional<TextCut> find(std::string_view text, size_t from) const = 0;
  // Returns the number of bytes at the end, at or after byte `from`, that a cut may leave out which
  // later bytes complete. REQUIRES: the text has no cut.
  virtual size_t held(std::string_view text, size_t from) const = 0;
};

struct TextEndKind {
  OptionSpec option;       // of kind "answer"; its default ends no answer
  const char* request_key; // the option's name in kind "request"
  // Makes the rule of a value that is not the default. key: the option's name in `options`. Fails
  // with invalid_argument for a value that the rule refuses.
  std::unique_ptr<TextEnd> (*make)(const Options& options, const std::string& key);
};

namespace text_end_files {

TextEndKind stop_pattern();
TextEndKind stop_texts();

inline constexpr TextEndKind (*kTable[])() = {stop_texts, stop_pattern};

} // namespace text_end_files

// The kinds of options that have the rules.
enum class EndsOf { answer, request };

// Returns the options of all rules. Their group is "end".
std::vector<OptionSpec> end_options(EndsOf kind);
// Returns the keys of the rules that are in use.
std::vector<std::string> used_ends(const Options& options, EndsOf kind);

// All rules of an answer. Any thread may call it.
class TextEnds {
public:
  TextEnds() = default;
  // Fails with invalid_argument for a value that its rule refuses.
  TextEnds(const Options& options, EndsOf kind);

  bool is_empty() const { return ends_.empty(); }
  // As of a TextEnd, over all rules. find() returns where the answer ends, or npos.
  size_t find(std::string_view text, size_t from) const;
  size_t held(std::string_view text, size_t from) const;

private:
  std::vector<std::unique_ptr<TextEnd>> ends_;
};

} // namespace dllm::text
