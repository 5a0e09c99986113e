#pragma once
// The parts of a tokenizer, as tokenizer.json names them: added tokens, normalizer, pre-tokenizer, (model: token_model.h,)
// post-processor, decoder; and all of them together, as the readers of the file formats hand them over.

#include "base/meter.h"
#include "base/task.h"
#include "text/json_reader.h"
#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/token_model.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::ckpt {
struct GgufVocabulary;
} // namespace dllm::ckpt

namespace dllm::text {

// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, JIT where the machine
// has it). Patterns come from tokenizer files, so work and memory of a match are bounded.

class Regex {
public:
  // Fails with invalid_argument naming the pattern and the offset. `what` names the part of the
  // file it came from.
  Regex(std::string_view pattern, std::string_view what);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;

  // One search through one text. Many may run at once on one Regex.
  class Search {
  public:
    // REQUIRES: valid UTF-8; regex and text outlive the search.
    Search(const Regex& regex, std::string_view text);
    ~Search();
    // The next match that does not overlap the former; false at the end. Fails with
    // resource_exhausted when the pattern needs more work than the limit of a tokenizer.
    bool next(size_t& begin, size_t& end);

  private:
    struct State;
    std::unique_ptr<State> state_;
  };

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The same text as a pattern that matches it literally.
std::string escape_regex(std::string_view text);

// What Split and Replace search for: a literal text or a regular expression. Both become one Regex.

// {"String": "x"} or {"Regex": "x+"}, or a plain string.
Regex read_pattern(const TreeJson& object, const char* key, const std::string& where);

// A stretch of text; `match`: it is what the pattern looks for.
struct Stretch {
  size_t begin;
  size_t end;
  bool match;
};

// How a delimiter is treated when a text is cut (names as in tokenizer.json).
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback);

// Matches and what lies between them, in order, covering [begin, end) without empty stretches. The
// task is checked at every match.
void find_stretches(const Regex& regex, std::string_view text, std::vector<Stretch>& out,
                    const Task* task = nullptr);
// The pieces that `behavior` makes of the stretches: [begin, end) pairs, none empty.
void cut(const std::vector<Stretch>& stretches, Behavior behavior,
         std::vector<std::pair<size_t, size_t>>& out);

// Tokens that are looked for as whole strings in the text before anything else happens: control tokens and words added
// after training.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;     // never made from plain text, left out by decode(skip_special)
  bool single_word = false; // only where no word character touches it
  bool lstrip = false;      // takes the white space before it
  bool rstrip = false;      // takes the white space after it
  bool normalized = false;  // looked for in the normalized text, else in the text as it came
};

// A stretch of text that is one added token, or (id -1) plain text.
struct TextPart {
  size_t begin;
  size_t end;
  int32_t id;
};

class AddedTokens {
public:
  // `normalized_content`: the content as the normalizer leaves it, for tokens with `normalized`.
  void add(AddedToken token, const std::string& normalized_content);
  // Null when the id is no added token.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Cuts `text` into added tokens and plain text, longest match first. normalized: which of the two
  // kinds is looked for. special: special tokens are looked for too. The task is checked every 64 KB.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool special,
                              const Task* task = nullptr) const;
  // The same for texts of several authors: a special token is looked for by its content and counts
  // only where trusted(begin, end) is true. Normalized ones that are not special are not looked for.
  using Trusted = std::function<bool(size_t begin, size_t end)>;
  std::vector<TextPart> split(std::string_view text, const Trusted& trusted,
                              const Task* task = nullptr) const;

private:
  template <class Accept>
  std::vector<TextPart> cut(std::string_view text, const Trie& trie, const Task* task,
                            Accept&& accept) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> by_content_;
  Trie tries_[2][2]; // [normalized][special tokens too]
  Trie contents_;    // for texts of several authors
  std::vector<std::shared_ptr<const MeterCharge>> charges_;
};

// Rewrites text before it is cut into words: the "normalizer" part of tokenizer.json.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  // REQUIRES: valid UTF-8, which it stays. The task is checked every 64 KB.
  void apply(std::string& text, const Task* task = nullptr) const {
    size_t first = 0;
    apply_at(text, first, task);
  }
  // The same. first: how many bytes of the text stand for the first character of the caller's text.
  virtual void apply_at(std::string& text, size_t& first, const Task* task) const = 0;
};

// null gives a null pointer. Fails with unimplemented for an unknown type.
std::unique_ptr<Normalizer> read_normalizer(const TreeJson& json, const std::string& where);

// Cuts text into words, which the model then tokenizes one by one: the "pre_tokenizer" part of
// tokenizer.json.

// A text and the pieces of it that are kept, in order, none empty.
struct Pieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> spans; // [begin, end) in text
  size_t first;     // bytes of text that stand for the first character of the caller's
  const Task* task; // checked while it is cut

  Pieces(std::string whole, size_t first_in, const Task* task_in)
      : text(std::move(whole)), first(std::min(first_in, text.size())), task(task_in) {
    if (!text.empty()) spans.emplace_back(0, text.size());
  }
  std::string_view view(size_t i) const {
    return std::string_view(text).substr(spans[i].first, spans[i].second - spans[i].first);
  }
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: valid UTF-8, which it stays.
  virtual void apply(Pieces& pieces) const = 0;
  // True when the pieces that come out are written in the byte alphabet (token_model.h).
  virtual bool makes_byte_chars() const { return false; }
};

// null gives a null pointer. Fails with unimplemented for an unknown type.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TreeJson& json, const std::string& where);

// How well-known families cut text into words, by the names that GGUF files use.

// The schemes of pre_tokenizer_schemes(), by the names of GGUF: the "pre_tokenizer" component of a
// tokenizer.json. Fails with not_found and the nearest name.
TreeJson pre_tokenizer_scheme(const std::string& name);
const std::vector<std::string>& pre_tokenizer_schemes();

TreeJson byte_level_component(bool use_regex);

// The post-processor that puts these tokens before and behind a text; "": none there. Null where both are "".
TreeJson template_around(const std::string& bos, const std::string& eos);
// A token in tokenizer_config.json: its text, or an object with "content". "": none.
std::string config_token(const TreeJson* value);

// Puts special tokens around what the text gave: the "post_processor" part of tokenizer.json.

// One token sequence with the segment each token belongs to (0 or 1, as in BERT).
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
};

class PostProcessor {
public:
  using Lookup = std::function<int32_t(std::string_view)>; // -1: no such token

  PostProcessor() = default; // adds nothing
  // Fails with data_loss when a template names a token that is not there.
  PostProcessor(const TreeJson& json, const std::string& where, const Lookup& lookup);

  Encoding single(std::vector<int32_t> ids) const;
  Encoding pair(std::vector<int32_t> first, std::vector<int32_t> second) const;
  // With what single() puts before the text alone, unless it begins with that already.
  std::vector<int32_t> begun(std::vector<int32_t> ids) const;

private:
  // A piece of a template: one of the two texts, or fixed ids.
  struct Part {
    int text; // 0 or 1; -1: ids
    std::vector<int32_t> ids;
    int32_t type;
  };
  using Template = std::vector<Part>;

  void read(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_template(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_around(const TreeJson& json, const std::string& where, bool roberta);

  Template single_{{0, {}, 0}};
  Template pair_{{0, {}, 0}, {1, {}, 1}};
};

// Puts the texts of tokens together again: the "decoder" part of tokenizer.json.

// Works on the texts of all tokens in order.
class TokenDecoder {
public:
  virtual ~TokenDecoder() = default;
  // raw: bytes that make no character are kept, so that a stream can wait for the rest.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
};

// null gives a null pointer: tokens are joined with spaces. Fails with unimplemented for an unknown
// type.
std::unique_ptr<TokenDecoder> read_decoder(const TreeJson& json, const std::string& where);

// Everything a tokenizer is made of, as the readers of the several file formats hand it over.

// Numbers of the tokens that have a role; -1: there is none.
struct SpecialIds {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t pad = -1;
  int32_t mask = -1;
};

// One chat template; most tokenizers have one, called "default".
struct ChatSource {
  std::string name;
  std::string text;
};

struct TokenizerParts {
  std::shared_ptr<const Vocabulary>
      vocabulary; // of the model; added tokens may have numbers beyond
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  // Components as tokenizer.json spells them; null: none.
  TreeJson normalizer, pre_tokenizer, post_processor, decoder;
  SpecialIds special;
  // Tokens that have a role by their text, which goes before `special`; "" and unknown texts are ignored.
  std::vector<std::pair<int32_t SpecialIds::*, std::string>> role_names;
  // Tokens that end an answer, besides the one with the role eos; what is no token of the vocabulary is ignored.
  std::vector<int64_t> ends;
  std::vector<std::string> end_names;
  std::vector<ChatSource> chat_templates;
  std::string name; // for errors: "qwen3/tokenizer.json"
};

// tokenizer.json. `name` is used in errors.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);
// add_bos_token and add_eos_token of tokenizer_config.json, where the post-processor of tokenizer.json says nothing: what it
// says has priority, as it is what the tokenizers library does. A token that is not in the vocabulary is not put.
void read_template_flags(const TreeJson& config, const std::string& where, TokenizerParts& parts);

// GPT-2's pair of files: {"token": id} and one merge per line. `scheme`: a name for
// pre_tokenizer_scheme.
TokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                     const std::string& name, const std::string& scheme);
// The vocabulary of a .gguf file. Fails with data_loss naming what does not fit, unimplemented for another model.
TokenizerParts read_gguf_tokenizer(const ckpt::GgufVocabulary& vocabulary);

// Fills merges given as pairs of token texts, in order of rank. Fails with data_loss naming the
// merge.
std::vector<Merge> make_merges(const Vocabulary& vocabulary,
                               const std::vector<std::pair<std::string, std::string>>& pairs,
                               const std::string& prefix, const std::string& name);

} // namespace dllm::text
