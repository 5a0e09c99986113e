#include "text/tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/task.h"
#include "text/tokenizer/stretches.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <optional>

namespace dllm::text {

namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

constexpr size_t kPiece = size_t{1} << 16; // bytes between two checks of the task

// Cuts every piece. find(piece, stretches, task) lists the matches of one piece and the text
// between them.
template <class F> void cut_pieces(Pieces& pieces, Behavior behavior, bool invert, F&& find) {
  Spans out;
  out.reserve(pieces.spans.size() * 2);
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < pieces.spans.size(); ++i) {
    const size_t base = pieces.spans[i].first;
    if (i % 256 == 0) check_task(pieces.task);
    stretches.clear();
    find(pieces.view(i), stretches, pieces.task);
    for (Stretch& s : stretches) s = {base + s.begin, base + s.end, s.match != invert};
    cut(stretches, behavior, out);
  }
  pieces.spans = std::move(out);
}

// Finds runs of characters that match or do not match. merge = false: every matching character is
// its own stretch.
template <class P>
void find_chars(std::string_view text, bool merge, std::vector<Stretch>& out, const Task* task,
                P&& matches) {
  size_t checked = 0;
  for (size_t at = 0; at < text.size();) {
    if (at >= checked) {
      check_task(task);
      checked = at + kPiece;
    }
    const Char c = char_at(text, at);
    const size_t end = at + static_cast<size_t>(c.size);
    const bool match = matches(c.code);
    if (!out.empty() && out.back().end == at && out.back().match == match && (merge || !match)) {
      out.back().end = end;
    } else {
      out.push_back({at, end, match});
    }
    at = end;
  }
}

class SplitPreTokenizer final : public PreTokenizer {
public:
  SplitPreTokenizer(Regex regex, Behavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    cut_pieces(pieces, behavior_, invert_,
               [this](std::string_view text, std::vector<Stretch>& out, const Task* task) {
                 find_stretches(regex_, text, out, task);
               });
  }

private:
  Regex regex_;
  Behavior behavior_;
  bool invert_;
};

// Cuts at characters of one class.
class ClassPreTokenizer final : public PreTokenizer {
public:
  using Test = bool (*)(char32_t);
  ClassPreTokenizer(Test test, Behavior behavior) : test_(test), behavior_(behavior) {}
  void apply(Pieces& pieces) const override {
    cut_pieces(pieces, behavior_, false,
               [this](std::string_view text, std::vector<Stretch>& out, const Task* task) {
                 find_chars(text, behavior_ == Behavior::contiguous, out, task, test_);
               });
  }

private:
  Test test_;
  Behavior behavior_;
};

bool is_any_punctuation(char32_t c) {
  return is_ascii_punctuation(c) || is_punctuation(c);
}
bool is_symbol_run(char32_t c) {
  return !is_word(c) && !is_whitespace(c);
}

// Words and runs of other visible characters: \w+|[^\w\s]+
class WhitespacePreTokenizer final : public PreTokenizer {
public:
  void apply(Pieces& pieces) const override {
    cut_pieces(pieces, Behavior::removed, false,
               [](std::string_view text, std::vector<Stretch>& out, const Task* task) {
                 find_chars(text, true, out, task, is_whitespace);
               });
    cut_pieces(pieces, Behavior::contiguous, false,
               [](std::string_view text, std::vector<Stretch>& out, const Task* task) {
                 find_chars(text, true, out, task, is_symbol_run);
               });
  }
};

class ByteLevelPreTokenizer final : public PreTokenizer {
public:
  ByteLevelPreTokenizer(bool prefix_space, bool use_regex) : prefix_space_(prefix_space) {
    if (use_regex) regex_.emplace(kGpt2Pattern, "ByteLevel");
  }

  void apply(Pieces& pieces) const override {
    if (prefix_space_) add_spaces(pieces);
    if (regex_) {
      cut_pieces(pieces, Behavior::isolated, false,
                 [this](std::string_view text, std::vector<Stretch>& out, const Task* task) {
                   find_stretches(*regex_, text, out, task);
                 });
    }
    std::string out;
    out.reserve(pieces.text.size() + pieces.text.size() / 4);
    size_t checked = 0, first = 0;
    for (auto& [begin, end] : pieces.spans) {
      const size_t start = out.size();
      for (size_t at = begin, next; at < end; at = next) {
        if (at > begin || out.size() >= checked) {
          check_task(pieces.task);
          checked = out.size() + kPiece;
        }
        const size_t most = at < pieces.first ? std::min(kPiece, pieces.first - at) : kPiece;
        next = std::min(end, at + most);
        append_byte_chars(out, std::string_view(pieces.text).substr(at, next - at));
        if (next <= pieces.first) first = out.size();
      }
      begin = start;
      end = out.size();
    }
    pieces.text = std::move(out);
    pieces.first = first;
  }

  bool makes_byte_chars() const override { return true; }

private:
  static void add_spaces(Pieces& pieces) {
    std::string out;
    size_t first = 0;
    for (auto& [begin, end] : pieces.spans) {
      const size_t start = out.size();
      if (pieces.text[begin] != ' ') out.push_back(' ');
      out.append(pieces.text, begin, end - begin);
      if (begin < pieces.first) first = out.size() - (end - std::min(end, pieces.first));
      begin = start;
      end = out.size();
    }
    pieces.text = std::move(out);
    pieces.first = first;
  }

  bool prefix_space_;
  std::optional<Regex> regex_;
};

// SentencePiece's way: spaces become a visible character, which begins each word.
class MetaspacePreTokenizer final : public PreTokenizer {
public:
  enum class Prepend { always, first, never };
  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split),
        regex_(escape_regex(replacement_), "Metaspace") {}

  void apply(Pieces& pieces) const override {
    std::string out;
    size_t first_end = 0;
    for (size_t i = 0; i < pieces.spans.size(); ++i) {
      if (i % 256 == 0) check_task(pieces.task);
      auto& [begin, end] = pieces.spans[i];
      const size_t start = out.size();
      const std::string_view piece = pieces.view(i);
      const bool has = piece[0] == ' ' || piece.substr(0, replacement_.size()) == replacement_;
      const bool first = begin < pieces.first;
      if (!has && (prepend_ == Prepend::always || (prepend_ == Prepend::first && first))) {
        out.append(replacement_);
      }
      const size_t inside = first ? std::min(end, pieces.first) - begin : 0;
      append(piece.substr(0, inside), out);
      if (first) first_end = out.size();
      append(piece.substr(inside), out);
      begin = start;
      end = out.size();
    }
    pieces.text = std::move(out);
    pieces.first = first_end;
    if (!split_) return;
    cut_pieces(pieces, Behavior::merged_with_next, false,
               [this](std::string_view text, std::vector<Stretch>& found, const Task* task) {
                 find_stretches(regex_, text, found, task);
               });
  }

private:
  void append(std::string_view text, std::string& out) const {
    for (char c : text) c == ' ' ? (void)out.append(replacement_) : out.push_back(c);
  }
  std::string replacement_;
  Prepend prepend_;
  bool split_;
  Regex regex_;
};

class SequencePreTokenizer final : public PreTokenizer {
public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void apply(Pieces& pieces) const override {
    for (const auto& part : parts_) part->apply(pieces);
  }
  bool makes_byte_chars() const override {
    for (const auto& part : parts_) {
      if (part->makes_byte_chars()) return true;
    }
    return false;
  }

private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

std::unique_ptr<PreTokenizer> read_metaspace(const TreeJson& json, const std::string& where) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  const std::string replacement = string_member(json, "replacement", where, "\xE2\x96\x81");
  const bool prefix = bool_member(json, "add_prefix_space", where, true); // the older spelling
  const std::string scheme =
      string_member(json, "prepend_scheme", where, prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    fail(Code::data_loss, "{}: prepend_scheme {} is not always, first or never", where, scheme);
  }
  if (replacement.empty()) fail(Code::data_loss, "{}: \"replacement\" is empty", where);
  const Prepend prepend = scheme == "always"  ? Prepend::always
                          : scheme == "first" ? Prepend::first
                                              : Prepend::never;
  return std::make_unique<MetaspacePreTokenizer>(replacement, prepend,
                                                 bool_member(json, "split", where, true));
}

// Scripts of Unicode by their names in PCRE2, without Common, Han and the scripts that count as
// Han.
constexpr std::string_view kScripts =
    "adlam ahom anatolianhieroglyphs arabic armenian avestan balinese bamum bassavah batak "
    "bengali bhaiksuki bopomofo brahmi braille buginese buhid canadianaboriginal carian "
    "caucasianalbanian chakma cham cherokee chorasmian coptic cuneiform cypriot cyprominoan "
    "cyrillic deseret devanagari divesakuru dogra duployan egyptianhieroglyphs elbasan "
    "elymaic ethiopic georgian glagolitic gothic grantha greek gujarati gunjalagondi "
    "gurmukhi hangul hani hanifirohingya hanunoo hatran hebrew imperialaramaic inherited "
    "inscriptionalpahlavi inscriptionalparthian javanese kaithi kannada kayahli kharoshthi "
    "khitansmallscript khmer khojki khudawadi laoo latin lepcha limbu lineara linearb lisu "
    "lycian lydian mahajani makasar malayalam mandaic manichaean marchen masaramgondi "
    "medefaidrin meeteimayek mendekikakui meroiticcursive meroitichieroglyphs miao modi "
    "mongolian mroo multani myanmar nabataean nandinagari newa newtailue nkoo nushu "
    "nyiakengpuachuehmong ogham olchiki oldhungarian olditalic oldnortharabian oldpermic "
    "oldpersian oldsogdian oldsoutharabian oldturkic olduyghur oriya osage osmanya "
    "pahawhhmong palmyrene paucinhau phagspa phoenician psalterpahlavi rejang runic "
    "samaritan saurashtra sharada shavian siddham signwriting sinhala sogdian sorasompeng "
    "soyombo sundanese sylotinagri syriac tagalog tagbanwa taile taitham taiviet takri "
    "tamil tangsa tangut telugu thaana thai tibetan tifinagh tirhuta toto ugaritic vaii "
    "vithkuqi wancho warangciti yezidi yiii zanabazarsquare";

// Returns a pattern for runs of one script. Hiragana, katakana and U+30FC count as Han. Spaces and
// characters without a script belong to the run before them, and to no run at the beginning of a
// text.
std::string script_runs() {
  const std::string any = R"( \p{sc:unknown})";
  const std::string han = R"(\p{sc:han}\p{sc:hiragana}\p{sc:katakana}\x{30FC})";
  std::string runs = "[" + han + "][" + han + any + "]*";
  runs += R"(|(?! )\p{sc:common}(?:(?!\x{30FC})[\p{sc:common})" + any + "])*";
  for (size_t at = 0; at < kScripts.size();) {
    const size_t end = std::min(kScripts.find(' ', at), kScripts.size());
    const std::string script = "\\p{sc:" + std::string(kScripts.substr(at, end - at)) + "}";
    runs += "|" + script + "[" + script + any + "]*";
    at = end + 1;
  }
  return runs + "|[^" + any + "]"; // of a script that is newer than the list
}

std::unique_ptr<PreTokenizer> read_sequence(const TreeJson& json, const std::string& where) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  for (const TreeJson& part : array_member(json, "pretokenizers", where)) {
    auto made = read_pre_tokenizer(part, where + fmt::format(".pretokenizers[{}]", parts.size()));
    if (made == nullptr) fail(Code::data_loss, "{}: null inside a Sequence", where);
    parts.push_back(std::move(made));
  }
  return std::make_unique<SequencePreTokenizer>(std::move(parts));
}

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

PreTokenizerPtr make_whitespace(const TreeJson&, const std::string&) {
  return std::make_unique<WhitespacePreTokenizer>();
}

PreTokenizerPtr make_whitespace_split(const TreeJson&, const std::string&) {
  return std::make_unique<ClassPreTokenizer>(is_whitespace, Behavior::removed);
}

PreTokenizerPtr read_byte_level(const TreeJson& json, const std::string& where) {
  return std::make_unique<ByteLevelPreTokenizer>(bool_member(json, "add_prefix_space", where, true),
                                                 bool_member(json, "use_regex", where, true));
}

PreTokenizerPtr read_split(const TreeJson& json, const std::string& where) {
  return std::make_unique<SplitPreTokenizer>(read_pattern(json, "pattern", where),
                                             read_behavior(json, where, Behavior::isolated),
                                             bool_member(json, "invert", where, false));
}

PreTokenizerPtr read_delimiter(const TreeJson& json, const std::string& where) {
  return std::make_unique<SplitPreTokenizer>(read_pattern(json, "delimiter", where),
                                             Behavior::removed, false);
}

PreTokenizerPtr read_digits(const TreeJson& json, const std::string& where) {
  const bool single = bool_member(json, "individual_digits", where, false);
  return std::make_unique<ClassPreTokenizer>(is_numeric,
                                             single ? Behavior::isolated : Behavior::contiguous);
}

PreTokenizerPtr read_punctuation(const TreeJson& json, const std::string& where) {
  return std::make_unique<ClassPreTokenizer>(is_any_punctuation,
                                             read_behavior(json, where, Behavior::isolated));
}

PreTokenizerPtr make_scripts(const TreeJson&, const std::string& where) {
  return std::make_unique<SplitPreTokenizer>(Regex(script_runs(), where), Behavior::removed, true);
}

PreTokenizerPtr make_bert(const TreeJson&, const std::string&) {
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(std::make_unique<ClassPreTokenizer>(is_whitespace, Behavior::removed));
  parts.push_back(std::make_unique<ClassPreTokenizer>(is_any_punctuation, Behavior::isolated));
  return std::make_unique<SequencePreTokenizer>(std::move(parts));
}

struct PreTokenizerType {
  const char* name;
  PreTokenizerPtr (*read)(const TreeJson& json, const std::string& where);
};

constexpr PreTokenizerType kPreTokenizerTypes[] = {
    {"Sequence", read_sequence},
    {"Metaspace", read_metaspace},
    {"Whitespace", make_whitespace},
    {"WhitespaceSplit", make_whitespace_split},
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"CharDelimiterSplit", read_delimiter},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"UnicodeScripts", make_scripts},
    {"BertPreTokenizer", make_bert},
};

} // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TreeJson& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  return need_named(kPreTokenizerTypes, type_of(json, where), &PreTokenizerType::name,
                    {"pre-tokenizer", "in " + where, "", Code::unimplemented})
      .read(json, where);
}

} // namespace dllm::text
