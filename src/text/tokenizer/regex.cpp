#include "text/tokenizer/regex.h"

#include "base/error.h"
#include "text/tokenizer/oniguruma.h"
#include "text/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

namespace dllm::text {

namespace {

constexpr uint32_t kMatchLimit = 10'000'000; // backtracking steps of one match
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackLimit = 8 * 1024 * 1024;
constexpr size_t kPatternLimit = 64 * 1024;

std::string message_of(int error) {
  PCRE2_UCHAR text[200] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

} // namespace

struct Regex::Impl {
  std::string pattern;
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Impl() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, std::string_view what) : impl_(std::make_unique<Impl>()) {
  impl_->pattern = pattern;
  if (pattern.size() > kPatternLimit) {
    fail(Code::invalid_argument, "{}: a pattern of {} bytes is longer than {}", what,
         pattern.size(), kPatternLimit);
  }
  const std::string translated = oniguruma_to_pcre2(pattern, what);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // \C is refused, because it would cut a character.
  impl_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (impl_->code == nullptr) {
    fail(Code::invalid_argument, "{}: the pattern {} is wrong near byte {}: {}", what,
         replace_invalid(pattern.substr(0, 80)), offset, message_of(error));
  }
  impl_->jit = pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

const std::string& Regex::pattern() const {
  return impl_->pattern;
}

struct Regex::Search::State {
  const Regex::Impl* regex;
  std::string_view text;
  size_t at = 0;
  size_t former_end = std::string_view::npos; // of the match before
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

Regex::Search::Search(const Regex& regex, std::string_view text)
    : state_(std::make_unique<State>()) {
  state_->regex = regex.impl_.get();
  state_->text = text;
  state_->match = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  if (state_->match == nullptr || state_->context == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimitKib);
}

Regex::Search::~Search() = default;

bool Regex::Search::next(size_t& begin, size_t& end) {
  State& s = *state_;
  static constexpr char kEmpty[1] = "";
  const char* data = s.text.data() == nullptr ? kEmpty : s.text.data();
  while (s.at <= s.text.size()) {
    const auto run = [&] {
      return pcre2_match(s.regex->code, reinterpret_cast<PCRE2_SPTR>(data), s.text.size(), s.at,
                         PCRE2_NO_UTF_CHECK, s.match, s.context);
    };
    int rc = run();
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && s.stack == nullptr) {
      s.stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
      if (s.stack == nullptr) throw std::bad_alloc();
      pcre2_jit_stack_assign(s.context, nullptr, s.stack);
      rc = run();
    }
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    if (rc < 0) {
      fail_with_hint("cut the text into shorter pieces", Code::resource_exhausted,
                     "the pattern {} fails at byte {} of {}: {}",
                     replace_invalid(std::string_view(s.regex->pattern).substr(0, 80)), s.at,
                     s.text.size(), message_of(rc));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(s.match);
    // \K in a lookaround can turn the range around or move it back.
    begin = std::max<size_t>(range[0], s.at);
    end = std::max<size_t>(range[1], begin);
    const bool is_again = begin == end && end == s.former_end;
    s.at = end;
    if (!is_again) {
      s.former_end = end;
      return true;
    }
    // An empty match directly after a match does not count; the search continues after one
    // character.
    if (s.at >= s.text.size()) return false;
    s.at += static_cast<size_t>(char_at(s.text, s.at).size);
  }
  return false;
}

std::string escape_regex(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 &&
        is_ascii_punctuation(static_cast<unsigned char>(c))) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

Regex read_pattern(const TreeJson& object, const char* key, const std::string& where) {
  const TreeJson* pattern = find_member(object, key);
  if (pattern != nullptr && pattern->is_string()) {
    return Regex(escape_regex(pattern->get<std::string>()), where);
  }
  if (pattern != nullptr && find_member(*pattern, "String") != nullptr) {
    return Regex(escape_regex(string_member(*pattern, "String", where)), where);
  }
  if (pattern != nullptr && find_member(*pattern, "Regex") != nullptr) {
    return Regex(string_member(*pattern, "Regex", where), where);
  }
  fail(Code::data_loss, "{}: \"{}\" must be {{\"String\": ...}} or {{\"Regex\": ...}}", where, key);
}

} // namespace dllm::text
