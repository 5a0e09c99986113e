#include "text/tokenizer/normalizer.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/task.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <vector>

namespace dllm::text {

namespace {

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// Fails when a text grows too much, because repeated replacements can multiply it. Known
// normalizers stay far below the limit.
void check_growth(size_t before, size_t after) {
  constexpr size_t kFree = size_t{64} << 20;
  if (after > 16 * before + kFree) {
    fail(Code::resource_exhausted, "[normalizer] {} bytes of text become more than {}", before,
         after);
  }
}

constexpr size_t kPiece = size_t{1} << 16; // bytes between two checks of the task

// Returns the end of a piece that begins at `begin`, before an ASCII character or a CJK ideograph.
// These do not combine with the character before them, so pieces may be normalized one by one.
size_t piece_end(std::string_view text, size_t begin) {
  for (size_t at = begin + kPiece; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool ideograph = byte >= 0xE4 && byte <= 0xE9 && char_at(text, at).code >= 0x4E00 &&
                           char_at(text, at).code <= 0x9FFF;
    if (byte < 0x80 || ideograph) return at;
  }
  return text.size();
}

// Returns the size of the first character. head: the character normalized alone. A mark after it
// may have changed it.
size_t head_size(std::string_view text, std::string_view head) {
  return text.starts_with(head) ? head.size() : static_cast<size_t>(char_at(text, 0).size);
}

// text = made(piece) of all its pieces. first: see Normalizer.
template <class F> void by_pieces(std::string& text, size_t& first, const Task* task, F&& made) {
  const std::string head = made(std::string_view(text).substr(0, first));
  if (text.size() <= kPiece) {
    check_task(task);
    text = made(std::string_view(text));
    first = head_size(text, head);
    return;
  }
  std::string out;
  out.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    check_task(task);
    const size_t end = piece_end(text, begin);
    out += made(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  text = std::move(out);
  first = head_size(text, head);
}

// Keeps or replaces character by character.
template <class F> void rewrite(std::string& text, size_t& first, const Task* task, F&& each) {
  by_pieces(text, first, task, [&](std::string_view piece) {
    std::string out;
    out.reserve(piece.size());
    for (size_t at = 0; at < piece.size();) {
      const Char c = char_at(piece, at);
      each(c.code, out);
      at += static_cast<size_t>(c.size);
    }
    return out;
  });
}

class FormNormalizer final : public Normalizer {
public:
  explicit FormNormalizer(Form form) : form_(form) {}
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    if (is_ascii(text)) return;
    by_pieces(text, first, task,
              [this](std::string_view piece) { return normalize(piece, form_); });
  }

private:
  Form form_;
};

class LowercaseNormalizer final : public Normalizer {
public:
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    by_pieces(text, first, task, lowercase);
  }
};

class StripNormalizer final : public Normalizer {
public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply_at(std::string& text, size_t& first, const Task*) const override {
    size_t begin = 0, end = text.size();
    while (left_ && begin < end) {
      const Char c = char_at(text, begin);
      if (!is_whitespace(c.code)) break;
      begin += static_cast<size_t>(c.size);
    }
    while (right_ && begin < end) {
      const Char c = char_before(text, end);
      if (!is_whitespace(c.code)) break;
      end -= static_cast<size_t>(c.size);
    }
    text = text.substr(begin, end - begin);
    first = std::min(first - std::min(first, begin), text.size());
  }

private:
  bool left_, right_;
};

class StripAccentsNormalizer final : public Normalizer {
public:
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    rewrite(text, first, task, [](char32_t c, std::string& out) {
      if (!is_mark(c)) append_utf8(out, c);
    });
  }
};

class PrependNormalizer final : public Normalizer {
public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply_at(std::string& text, size_t& first, const Task*) const override {
    if (text.empty()) return;
    text.insert(0, prefix_);
    if (first > 0) first += prefix_.size();
  }

private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
public:
  ReplaceNormalizer(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    if (text.empty()) return;
    Regex::Search search(regex_, text);
    std::string out;
    size_t done = 0, begin = 0, end = 0, kept = 0; // kept: first in out
    while (search.next(begin, end)) {
      check_task(task);
      out.append(text, done, begin - done);
      if (done < first) kept = out.size() - (begin - std::min(begin, first));
      out.append(content_);
      if (end <= first) kept = out.size(); // it counts as the last character that it replaces
      check_growth(text.size(), out.size());
      done = end;
    }
    out.append(text, done, std::string::npos);
    if (done < first) kept = out.size() - (text.size() - first);
    first = kept;
    text = std::move(out);
  }

private:
  Regex regex_;
  std::string content_;
};

class ByteLevelNormalizer final : public Normalizer {
public:
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    by_pieces(text, first, task, [](std::string_view piece) {
      std::string out;
      append_byte_chars(out, piece);
      return out;
    });
  }
};

// Normalizes as SentencePiece's NMT models do: control characters are removed, and white space
// becomes a space.
class NmtNormalizer final : public Normalizer {
public:
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    rewrite(text, first, task, [](char32_t c, std::string& out) {
      if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
          c == 0x9F)
        return;
      const bool blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      append_utf8(out, blank ? U' ' : c);
    });
  }
};

// Normalizes as BERT does: clean, put spaces around Chinese characters, remove accents, lower-case.
class BertNormalizer final : public Normalizer {
public:
  BertNormalizer(bool clean, bool chinese, bool accents, bool lower)
      : clean_(clean), chinese_(chinese), accents_(accents), lower_(lower) {}

  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    if (clean_) {
      rewrite(text, first, task, [](char32_t c, std::string& out) {
        const bool blank = c == '\t' || c == '\n' || c == '\r';
        if (c == 0 || c == 0xFFFD || (!blank && is_other(c))) return;
        if (blank || is_whitespace(c)) {
          out.push_back(' ');
        } else {
          append_utf8(out, c);
        }
      });
    }
    if (chinese_) {
      rewrite(text, first, task, [](char32_t c, std::string& out) {
        if (!is_chinese(c)) return append_utf8(out, c);
        out.push_back(' ');
        append_utf8(out, c);
        out.push_back(' ');
      });
    }
    if (accents_) {
      by_pieces(text, first, task,
                [](std::string_view piece) { return normalize(piece, Form::nfd); });
      rewrite(text, first, task, [](char32_t c, std::string& out) {
        if (!is_nonspacing_mark(c)) append_utf8(out, c);
      });
    }
    if (lower_) by_pieces(text, first, task, lowercase);
  }

private:
  // The CJK ideograph blocks that BERT's own tokenizer lists.
  static bool is_chinese(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }
  bool clean_, chinese_, accents_, lower_;
};

class SequenceNormalizer final : public Normalizer {
public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void apply_at(std::string& text, size_t& first, const Task* task) const override {
    const size_t before = text.size();
    for (const auto& part : parts_) {
      part->apply_at(text, first, task);
      check_growth(before, text.size());
    }
  }

private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> read_bert(const TreeJson& json, const std::string& where) {
  const bool lower = bool_member(json, "lowercase", where, true);
  return std::make_unique<BertNormalizer>(bool_member(json, "clean_text", where, true),
                                          bool_member(json, "handle_chinese_chars", where, true),
                                          bool_member(json, "strip_accents", where, lower), lower);
}

using NormalizerPtr = std::unique_ptr<Normalizer>;

template <Form form> NormalizerPtr make_form(const TreeJson&, const std::string&) {
  return std::make_unique<FormNormalizer>(form);
}

template <class Kind> NormalizerPtr make_plain(const TreeJson&, const std::string&) {
  return std::make_unique<Kind>();
}

NormalizerPtr read_prepend(const TreeJson& json, const std::string& where) {
  return std::make_unique<PrependNormalizer>(string_member(json, "prepend", where));
}

NormalizerPtr read_strip(const TreeJson& json, const std::string& where) {
  return std::make_unique<StripNormalizer>(bool_member(json, "strip_left", where, true),
                                           bool_member(json, "strip_right", where, true));
}

NormalizerPtr read_replace(const TreeJson& json, const std::string& where) {
  return std::make_unique<ReplaceNormalizer>(read_pattern(json, "pattern", where),
                                             string_member(json, "content", where));
}

NormalizerPtr read_sequence(const TreeJson& json, const std::string& where) {
  std::vector<NormalizerPtr> parts;
  for (const TreeJson& part : array_member(json, "normalizers", where)) {
    auto made = read_normalizer(part, where + fmt::format(".normalizers[{}]", parts.size()));
    if (made == nullptr) fail(Code::data_loss, "{}: null inside a Sequence", where);
    parts.push_back(std::move(made));
  }
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

struct NormalizerType {
  const char* name;
  NormalizerPtr (*read)(const TreeJson& json, const std::string& where);
};

constexpr NormalizerType kNormalizerTypes[] = {
    {"NFC", make_form<Form::nfc>},
    {"NFD", make_form<Form::nfd>},
    {"NFKC", make_form<Form::nfkc>},
    {"NFKD", make_form<Form::nfkd>},
    {"Lowercase", make_plain<LowercaseNormalizer>},
    {"StripAccents", make_plain<StripAccentsNormalizer>},
    {"ByteLevel", make_plain<ByteLevelNormalizer>},
    {"Nmt", make_plain<NmtNormalizer>},
    {"BertNormalizer", read_bert},
    {"Prepend", read_prepend},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"Sequence", read_sequence},
};

} // namespace

std::unique_ptr<Normalizer> read_normalizer(const TreeJson& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  return need_named(kNormalizerTypes, type_of(json, where), &NormalizerType::name,
                    {"normalizer", "in " + where, "", Code::unimplemented})
      .read(json, where);
}

} // namespace dllm::text
