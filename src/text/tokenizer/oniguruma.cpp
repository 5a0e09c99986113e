#include "text/tokenizer/oniguruma.h"

#include "base/ascii.h"
#include "base/error.h"
#include "text/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace dllm::text {
namespace {

// White_Space as ranges. PCRE2's own \s also takes U+180E.
constexpr std::string_view kSpace =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// \w has marks, letter numbers and connectors; PCRE2's \w has only L, N and "_".
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
// Outside brackets \w also has six signs of Latin-1, and so do \W, \b, \B and \p{Word}.
constexpr std::string_view kWordSigns = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHex = "0-9A-Fa-f";
constexpr std::string_view kAny = "(?s:.)";

// POSIX brackets, also \p{Alpha}, as members of a class.
constexpr std::pair<std::string_view, std::string_view> kPosix[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"ascii", R"(\x00-\x7F)"},
    {"blank", R"(\t\p{Zs})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})"},
    {"lower", R"(\p{Lowercase})"},
    {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs})"},
    {"punct", R"(\p{P}\p{S})"},
    {"posixpunct", R"(\p{P}\p{S})"},
    {"space", kSpace},
    {"upper", R"(\p{Uppercase})"},
    {"word", kWord},
    {"xdigit", kHex}};

// Long names of general categories, because PCRE2 has only the short names.
constexpr std::pair<std::string_view, std::string_view> kCategories[] = {
    {"letter", "L"},
    {"casedletter", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"}, // [:punct:] is another set
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"}};

// Letters that differ from several letters only in case: "ss" and "ß". Longer texts come first.
constexpr std::pair<std::string_view, std::string_view> kFolds[] = {
    {"ffi", "ﬃ"},     {"ffl", "ﬄ"},     {"ff", "ﬀ"},      {"fi", "ﬁ"},      {"fl", "ﬂ"},
    {"ss", "ßẞ"},     {"st", "ﬅﬆ"},     {"ʼn", "ŉ"},      {"i\u0307", "İ"}, {"j\u030C", "ǰ"},
    {"h\u0331", "ẖ"}, {"t\u0308", "ẗ"}, {"w\u030A", "ẘ"}, {"y\u030A", "ẙ"}, {"aʾ", "ẚ"}};

std::string lower_name(std::string_view name) {
  std::string lower;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    lower.push_back(lower_case(c));
  }
  return lower;
}

std::string_view category_of(std::string_view lower) {
  for (const auto& [name, category] : kCategories) {
    if (name == lower) return category;
  }
  return {};
}

std::string_view posix_members(std::string_view name) {
  for (const auto& [known, members] : kPosix) {
    if (known == name) return members;
  }
  return {};
}

bool compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// A set of characters: members of a PCRE2 class, and sets that need an expression of their own.
struct Members {
  std::string plain;               // the text between the brackets
  std::vector<std::string> others; // each matches one character
};

// Returns an expression that matches one character of the set.
std::string expression_of(Members members, bool negated) {
  if (members.plain.starts_with("^")) members.plain.insert(0, "\\");
  if (members.others.empty()) {
    if (members.plain.empty()) return negated ? std::string(kAny) : "(?!)";
    return (negated ? "[^" : "[") + members.plain + "]";
  }
  std::string any = members.plain.empty() ? "" : "[" + members.plain + "]";
  for (const std::string& other : members.others) any += (any.empty() ? "" : "|") + other;
  if (!negated) return "(?:" + any + ")";
  return "(?:(?!" + any + ")" + std::string(kAny) + ")";
}

class Translation {
public:
  Translation(std::string_view pattern, std::string_view what) : in_(pattern), what_(what) {}

  std::string run() {
    while (at_ < in_.size()) piece();
    close_options();
    return std::move(out_);
  }

private:
  struct Group {
    size_t begin = 0;       // of the group in out_
    int options = 0;        // groups opened for (?i) without a colon
    bool is_spaced = false; // one of them is (?x): a comment may reach to the end
    bool ignores_case = false;
  };

  [[noreturn]] void refuse(const std::string& construct) const {
    fail_with_hint("write the pattern without it", Code::unimplemented,
                   "{}: the pattern {} has {}, which dllm does not have", what_,
                   replace_invalid(in_.substr(0, 80)), construct);
  }
  [[noreturn]] void damaged(const char* why) const {
    fail(Code::invalid_argument, "{}: the pattern {} is wrong near byte {}: {}", what_,
         replace_invalid(in_.substr(0, 80)), at_, why);
  }

  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void atom(const std::string& text) {
    atom_ = out_.size();
    out_ += text;
  }

  void close_options() {
    if (groups_.back().is_spaced) out_.push_back('\n');
    groups_.back().is_spaced = false;
    for (; groups_.back().options > 0; --groups_.back().options) out_.push_back(')');
  }

  void piece() {
    const char c = in_[at_];
    if (groups_.back().ignores_case && folded()) return;
    if (c == '\\') return escape();
    if (c == '[') {
      ++at_;
      return atom(char_class());
    }
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '{' && interval()) return;
    ++at_;
    if (c == '^')
      atom("(?m:^)");
    else if (c == '$')
      atom("(?m:$)");
    else if (c == '*' || c == '+' || c == '?' || c == '|')
      out_.push_back(c);
    else
      character(c);
  }

  // Translates one or several letters when case is ignored; returns false when something else
  // follows.
  bool folded() {
    const std::string_view rest = in_.substr(at_);
    for (const auto& [several, single] : kFolds) {
      const bool is_several =
          rest.size() >= several.size() && lower_name(rest.substr(0, several.size())) == several;
      size_t size = is_several ? several.size() : 0;
      for (size_t at = 0; at < single.size() && size == 0;) {
        const auto one = static_cast<size_t>(char_at(single, at).size);
        if (rest.starts_with(single.substr(at, one))) size = one;
        at += one;
      }
      // A quantifier applies only to the last of several letters.
      const bool is_cut = is_several && rest.size() > size &&
                          std::string_view("*+?{").find(rest[size]) != std::string_view::npos;
      if (size == 0 || is_cut) continue;
      at_ += size;
      atom("(?:" + std::string(several) + "|[" + std::string(single) + "])");
      return true;
    }
    return false;
  }

  // Copies one character with all its bytes, because a quantifier applies to all of them.
  void character(char first) {
    atom(std::string(1, first));
    while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xC0) == 0x80)
      out_.push_back(in_[at_++]);
  }

  void close() {
    close_options();
    ++at_;
    out_.push_back(')');
    atom_ = groups_.back().begin;
    if (groups_.size() > 1) groups_.pop_back();
  }

  void open() {
    if (next_is("(*")) refuse("(*");
    if (next_is("(?#")) {
      at_ = std::min(in_.find(')', at_), in_.size() - 1) + 1;
      return;
    }
    if (next_is("(?~")) refuse("an absent operator (?~");
    if (next_is("(?{")) refuse("a callout (?{");
    if (next_is("(?")) {
      size_t end = at_ + 2;
      while (end < in_.size() &&
             (std::isalpha(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == '-'))
        ++end;
      const bool is_options =
          end > at_ + 2 && end < in_.size() && (in_[end] == ':' || in_[end] == ')');
      if (is_options) return options(in_.substr(at_ + 2, end - at_ - 2), in_[end] == ':', end + 1);
    }
    groups_.push_back({out_.size(), 0, false, groups_.back().ignores_case});
    out_.push_back('(');
    ++at_;
    // The sign after "(?" is not a quantifier: (?: (?= (?! (?> (?<= (?<! (?<name>
    if (at_ < in_.size() && in_[at_] == '?') {
      out_.push_back(in_[at_++]);
      if (at_ < in_.size() && in_[at_] != '(') out_.push_back(in_[at_++]);
      const bool look_behind = out_.ends_with("<") && (next_is("=") || next_is("!"));
      if (look_behind)
        out_.push_back(in_[at_++]);
      else if (out_.ends_with("<") || out_.ends_with("'"))
        copy_name(out_.back() == '<' ? '>' : '\'');
    }
  }

  void copy_name(char end) {
    while (at_ < in_.size() && in_[at_] != end) out_.push_back(in_[at_++]);
    if (at_ < in_.size()) out_.push_back(in_[at_++]);
  }

  // (?im-x:...) and (?im-x), which reaches to the end of the group around it, over every "|".
  void options(std::string_view letters, bool is_group, size_t behind) {
    std::string made = "(?";
    for (const char c : letters) {
      if (c != 'i' && c != 'm' && c != 'x' && c != '-') refuse("the option " + std::string(1, c));
      made.push_back(c == 'm' ? 's' : c);
    }
    const size_t minus = std::min(letters.find('-'), letters.size()), i = letters.find('i');
    const bool ignores_case = i == letters.npos ? groups_.back().ignores_case : i < minus;
    if (is_group) {
      groups_.push_back({out_.size()});
    } else {
      ++groups_.back().options;
      groups_.back().is_spaced |= letters.substr(0, minus).find('x') != letters.npos;
    }
    groups_.back().ignores_case = ignores_case;
    out_ += made + ":";
    at_ = behind;
  }

  // Translates {n,m} as a quantifier; returns false when the brace is a character.
  bool interval() {
    size_t at = at_ + 1;
    const auto digits = [&] {
      const size_t begin = at;
      while (at < in_.size() && in_[at] >= '0' && in_[at] <= '9') ++at;
      return in_.substr(begin, at - begin);
    };
    const std::string_view low = digits();
    const bool ranged = at < in_.size() && in_[at] == ',';
    if (ranged) ++at;
    const std::string_view high = ranged ? digits() : low;
    if (at >= in_.size() || in_[at] != '}' || (low.empty() && high.empty())) return false;
    at_ = at + 1;
    out_ += "{" + std::string(low.empty() ? "0" : low);
    out_ += ranged ? "," + std::string(high) + "}" : "}";
    const bool again = next_is("+") || (next_is("?") && !ranged);
    if (!again) {
      if (next_is("?")) out_.push_back(in_[at_++]);
      return true;
    }
    out_.insert(atom_, "(?:");
    out_.push_back(')');
    return true; // the "+" or "?" follows as a quantifier of the group
  }

  void escape() {
    if (at_ + 1 >= in_.size()) damaged("a backslash at the end");
    const char c = in_[at_ + 1];
    const std::string word_members = std::string(kWord) + std::string(kWordSigns);
    const std::string word = "[" + word_members + "]";
    switch (c) {
    case 'w':
    case 'W': at_ += 2; return atom((c == 'w' ? "[" : "[^") + word_members + "]");
    case 'b':
      at_ += 2;
      return atom("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
    case 'B':
      at_ += 2;
      return atom("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))");
    case 'O': at_ += 2; return atom(std::string(kAny));
    case 'C': // PCRE2 refuses it by name
    case 'N':
    case 'R':
    case 'X':
    case 'K':
    case 'A':
    case 'z':
    case 'Z':
    case 'G': at_ += 2; return atom({'\\', c});
    case 'y':
    case 'Y': refuse(std::string("\\") + c);
    case 'k':
    case 'g':
      at_ += 2;
      atom({'\\', c});
      if (next_is("<") || next_is("'")) {
        const char end = next_is("<") ? '>' : '\'';
        out_.push_back(in_[at_++]);
        copy_name(end);
      }
      return;
    default: break;
    }
    if (c >= '1' && c <= '9') { // a group that was matched
      atom({'\\', c});
      for (at_ += 2; at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '9';)
        out_.push_back(in_[at_++]);
      return;
    }
    if (const size_t end = word_property_end(); end > 0) {
      const bool negated = (c == 'P') != (in_[at_ + 3] == '^');
      at_ = end;
      return atom((negated ? "[^" : "[") + word_members + "]");
    }
    Members members;
    take_escape(members);
    atom(members.others.empty() && members.plain.front() == '\\' && !is_set_
             ? members.plain
             : expression_of(members, false));
  }

  // Returns the end of \p{Word} or \P{^Word}, or 0 before another escape.
  size_t word_property_end() const {
    if (!next_is("\\p{") && !next_is("\\P{")) return 0;
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return 0;
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with("^")) name.remove_prefix(1);
    return lower_name(name) == "word" ? end + 1 : 0;
  }

  // Returns the next escape as members of a class. Sets is_set_ when it may match more than one
  // character.
  void take_escape(Members& members) {
    if (at_ + 1 >= in_.size()) damaged("a backslash at the end");
    const char c = in_[at_ + 1];
    at_ += 2;
    is_set_ = true;
    switch (c) {
    case 's': return take_set(members, kSpace, false);
    case 'S': return take_set(members, kSpace, true);
    case 'w': return take_set(members, kWord, false);
    case 'W': return take_set(members, kWord, true);
    case 'h': return take_set(members, kHex, false);
    case 'H': return take_set(members, kHex, true);
    case 'd': return take_set(members, "\\p{Nd}", false);
    case 'D': return take_set(members, "\\p{Nd}", true);
    case 'p':
    case 'P': return take_property(members, c == 'P');
    default: break;
    }
    is_set_ = false;
    members.plain += character_escape(c);
  }

  static void take_set(Members& members, std::string_view set, bool negated) {
    if (negated)
      members.others.push_back("[^" + std::string(set) + "]");
    else
      members.plain += set;
  }

  // Translates an escape of a single character.
  std::string character_escape(char c) {
    switch (c) {
    case 'v': return "\\x0B";
    case 'b': return "\\x08"; // in a class
    case 't':
    case 'n':
    case 'r':
    case 'f':
    case 'a':
    case 'e': return {'\\', c};
    case 'u': return code_point(4);
    case 'x':
      if (next_is("{")) {
        const size_t end = in_.find('}', at_);
        if (end == std::string_view::npos) damaged("\\x{ without an end");
        const std::string code = "\\x" + std::string(in_.substr(at_, end + 1 - at_));
        at_ = end + 1;
        return code;
      }
      return code_point(2);
    case 'c': {
      if (at_ >= in_.size()) damaged("\\c at the end");
      return std::string("\\c") + in_[at_++];
    }
    case 'C':
    case 'M':
      if (next_is("-")) refuse(std::string("\\") + c + "-");
      return std::string(1, c);
    case '0': {
      std::string octal = "\\0";
      while (octal.size() < 4 && at_ < in_.size() && in_[at_] >= '0' && in_[at_] <= '7')
        octal.push_back(in_[at_++]);
      return octal;
    }
    default: break;
    }
    if (static_cast<unsigned char>(c) >= 0x80) { // all bytes of it
      std::string whole(1, c);
      while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xC0) == 0x80)
        whole.push_back(in_[at_++]);
      return whole;
    }
    // An escaped letter without a meaning is the letter.
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c)
                                                            : std::string{'\\', c};
  }

  std::string code_point(size_t most) {
    std::string digits;
    while (digits.size() < most && at_ < in_.size() &&
           std::isxdigit(static_cast<unsigned char>(in_[at_])) != 0)
      digits.push_back(in_[at_++]);
    if (digits.empty()) damaged("an escape without its digits");
    if (most == 2 && std::stoi(digits, nullptr, 16) > 0x7F)
      refuse("\\x" + digits + ", a byte that is not a character");
    return "\\x{" + digits + "}";
  }

  // \p{Han}, \p{^Han}, \P{Han}, \pL.
  void take_property(Members& members, bool negated) {
    if (!next_is("{")) {
      if (at_ >= in_.size()) damaged("\\p at the end");
      members.plain += std::string(negated ? "\\P" : "\\p") + in_[at_++];
      return;
    }
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) damaged("\\p{ without an end");
    std::string_view name = in_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::string lower = lower_name(name);
    if (lower == "assigned") {
      members.plain += negated ? "\\p{Cn}" : "\\P{Cn}";
      return;
    }
    const std::string_view category = category_of(lower);
    if (category.empty() && !posix_members(lower).empty())
      return take_set(members, posix_members(lower), negated);
    // In PCRE2 the name of a script also means characters that are used with the script.
    const std::string script = "{sc:" + std::string(name) + "}";
    const std::string plain = "{" + std::string(name) + "}";
    members.plain += negated ? "\\P" : "\\p";
    if (!category.empty())
      members.plain += "{" + std::string(category) + "}";
    else
      members.plain += name.size() > 2 && compiles("\\p" + script) ? script : plain;
  }

  // Translates a class after its "[", including its "]". Operands of && are unions of members; ^
  // negates the whole class.
  std::string char_class() {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) damaged("classes are nested too deep");
    const bool negated = next_is("^");
    if (negated) ++at_;
    std::vector<Members> operands(1);
    if (next_is("]")) {
      operands.back().plain += "\\]";
      ++at_;
    }
    for (;;) {
      if (at_ >= in_.size()) damaged("a class without an end");
      if (next_is("]")) break;
      if (next_is("&&")) {
        at_ += 2;
        operands.emplace_back();
      } else {
        take_member(operands.back());
      }
    }
    ++at_;
    --depth_;
    if (operands.size() == 1) return expression_of(operands[0], negated);
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i)
      all += "(?=" + expression_of(operands[i], false) + ")";
    all += expression_of(operands.back(), false);
    return negated ? "(?:(?!" + all + ")" + std::string(kAny) + ")" : "(?:" + all + ")";
  }

  void take_member(Members& members) {
    if (next_is("[:") && take_posix(members)) return;
    const char c = in_[at_];
    if (c == '[') {
      ++at_;
      members.others.push_back(char_class());
    } else if (c == '\\') {
      take_escape(members);
    } else {
      members.plain.push_back(c);
      ++at_;
    }
  }

  // Translates [:alpha:] and [:^alpha:]; returns false for a class that begins with a colon.
  bool take_posix(Members& members) {
    const size_t end = in_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return false;
    std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with("^");
    if (negated) name.remove_prefix(1);
    const std::string_view set = posix_members(name);
    if (set.empty()) return false;
    take_set(members, set, negated);
    at_ = end + 2;
    return true;
  }

  std::string_view in_, what_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0; // where the last atom begins in out_
  std::vector<Group> groups_ = std::vector<Group>(1);
  bool is_set_ = false;
  int depth_ = 0;
};

} // namespace

std::string oniguruma_to_pcre2(std::string_view pattern, std::string_view what) {
  return Translation(pattern, what).run();
}

} // namespace dllm::text
