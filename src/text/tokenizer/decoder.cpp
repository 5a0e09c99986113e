#include "text/tokenizer/decoder.h"

#include "base/error.h"
#include "base/named_table.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

namespace dllm::text {

namespace {

void join(std::vector<std::string>& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  tokens.assign(1, std::move(out));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

class FuseDecoder final : public TokenDecoder {
public:
  void apply(std::vector<std::string>& tokens, bool) const override { join(tokens); }
};

class ByteLevelDecoder final : public TokenDecoder {
public:
  void apply(std::vector<std::string>& tokens, bool) const override {
    std::string out;
    for (const std::string& token : tokens) {
      if (!append_bytes(out, token))
        out += token; // an added token with characters outside the alphabet
    }
    tokens.assign(1, std::move(out));
  }
};

// Replaces <0x0A> by its byte. Neighbouring bytes make one text; when it is not UTF-8, every byte
// of it is broken.
class ByteFallbackDecoder final : public TokenDecoder {
public:
  void apply(std::vector<std::string>& tokens, bool raw) const override {
    std::vector<std::string> out;
    bool in_bytes = false;
    const auto close = [&] {
      if (!in_bytes || raw || is_valid_utf8(out.back())) return;
      const size_t broken = out.back().size();
      out.back().clear();
      for (size_t i = 0; i < broken; ++i) append_utf8(out.back(), 0xFFFD);
    };
    for (std::string& token : tokens) {
      const int byte = byte_of_token(token);
      if (byte >= 0 && in_bytes) {
        out.back().push_back(static_cast<char>(byte));
        continue;
      }
      close();
      in_bytes = byte >= 0;
      if (in_bytes) {
        out.emplace_back(1, static_cast<char>(byte));
      } else {
        out.push_back(std::move(token));
      }
    }
    close();
    tokens = std::move(out);
  }
};

class StripDecoder final : public TokenDecoder {
public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (std::string& token : tokens) {
      std::string_view text = token;
      const size_t size = content_.size();
      for (int64_t i = 0; i < start_ && text.substr(0, size) == content_; ++i)
        text.remove_prefix(size);
      for (int64_t i = 0;
           i < stop_ && text.size() >= size && text.substr(text.size() - size) == content_; ++i) {
        text.remove_suffix(size);
      }
      token = std::string(text);
    }
  }

private:
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder final : public TokenDecoder {
public:
  ReplaceDecoder(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (std::string& token : tokens) {
      if (token.empty() || !is_valid_utf8(token)) continue;
      Regex::Search search(regex_, token);
      std::string out;
      size_t done = 0, begin = 0, end = 0;
      while (search.next(begin, end)) {
        out.append(token, done, begin - done).append(content_);
        done = end;
      }
      token = out.append(token, done, std::string::npos);
    }
  }

private:
  Regex regex_;
  std::string content_;
};

class MetaspaceDecoder final : public TokenDecoder {
public:
  MetaspaceDecoder(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], replacement_, i == 0 && drops_first_ ? "" : " ");
    }
  }

private:
  std::string replacement_;
  bool drops_first_;
};

class WordPieceDecoder final : public TokenDecoder {
public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        const bool continues = token.compare(0, prefix_.size(), prefix_) == 0;
        token = continues ? token.substr(prefix_.size()) : " " + token;
      }
      if (cleanup_) clean(token);
    }
  }

private:
  // English spacing around marks and contractions, the list of BERT's reference.
  static void clean(std::string& text) {
    static constexpr const char* kRules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& rule : kRules) replace_all(text, rule[0], rule[1]);
  }
  std::string prefix_;
  bool cleanup_;
};

// The end-of-word mark of older BPE files becomes a space.
class BpeDecoder final : public TokenDecoder {
public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens, bool) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

private:
  std::string suffix_;
};

class SequenceDecoder final : public TokenDecoder {
public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<TokenDecoder>> parts)
      : parts_(std::move(parts)) {}
  void apply(std::vector<std::string>& tokens, bool raw) const override {
    for (const auto& part : parts_) part->apply(tokens, raw);
  }

private:
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

std::string not_empty(std::string text, const char* key, const std::string& where) {
  if (text.empty()) fail(Code::data_loss, "{}: \"{}\" is empty", where, key);
  return text;
}

std::unique_ptr<TokenDecoder> read_sequence(const TreeJson& json, const std::string& where) {
  std::vector<std::unique_ptr<TokenDecoder>> parts;
  for (const TreeJson& part : array_member(json, "decoders", where)) {
    auto made = read_decoder(part, where + fmt::format(".decoders[{}]", parts.size()));
    if (made == nullptr) fail(Code::data_loss, "{}: null inside a Sequence", where);
    parts.push_back(std::move(made));
  }
  return std::make_unique<SequenceDecoder>(std::move(parts));
}

using DecoderPtr = std::unique_ptr<TokenDecoder>;

template <class Kind> DecoderPtr make_plain(const TreeJson&, const std::string&) {
  return std::make_unique<Kind>();
}

DecoderPtr read_strip(const TreeJson& json, const std::string& where) {
  return std::make_unique<StripDecoder>(
      not_empty(string_member(json, "content", where), "content", where),
      int_member(json, "start", where, 0), int_member(json, "stop", where, 0));
}

DecoderPtr read_replace(const TreeJson& json, const std::string& where) {
  return std::make_unique<ReplaceDecoder>(read_pattern(json, "pattern", where),
                                          string_member(json, "content", where));
}

DecoderPtr read_metaspace(const TreeJson& json, const std::string& where) {
  const bool prefix = bool_member(json, "add_prefix_space", where, true);
  const std::string scheme =
      string_member(json, "prepend_scheme", where, prefix ? "always" : "never");
  return std::make_unique<MetaspaceDecoder>(
      not_empty(string_member(json, "replacement", where, "\xE2\x96\x81"), "replacement", where),
      scheme != "never");
}

DecoderPtr read_word_piece(const TreeJson& json, const std::string& where) {
  return std::make_unique<WordPieceDecoder>(string_member(json, "prefix", where, "##"),
                                            bool_member(json, "cleanup", where, true));
}

DecoderPtr read_bpe(const TreeJson& json, const std::string& where) {
  return std::make_unique<BpeDecoder>(
      not_empty(string_member(json, "suffix", where, "</w>"), "suffix", where));
}

struct DecoderType {
  const char* name;
  DecoderPtr (*read)(const TreeJson& json, const std::string& where);
};

constexpr DecoderType kDecoderTypes[] = {
    {"ByteLevel", make_plain<ByteLevelDecoder>},
    {"ByteFallback", make_plain<ByteFallbackDecoder>},
    {"Fuse", make_plain<FuseDecoder>},
    {"Sequence", read_sequence},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"Metaspace", read_metaspace},
    {"WordPiece", read_word_piece},
    {"BPEDecoder", read_bpe},
};

} // namespace

std::unique_ptr<TokenDecoder> read_decoder(const TreeJson& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  return need_named(kDecoderTypes, type_of(json, where), &DecoderType::name,
                    {"token decoder", "in " + where, "", Code::unimplemented})
      .read(json, where);
}

} // namespace dllm::text
