#pragma once
// This header declares the parts of a tokenizer by the names of tokenizer.json: added tokens,
// normalizer, pre-tokenizer, post-processor and decoder (token_model.h has the model). It also
// declares TokenizerParts, which the readers of the file formats return.

#include "base/task.h"
#include "base/threads/meter.h"
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

// A compiled regular expression over UTF-8 (PCRE2 with Unicode properties, and JIT where it is
// available). Work and memory of a match are limited, because patterns come from tokenizer files.
class Regex {
public:
  // Compiles a pattern. Fails with invalid_argument naming the pattern and the offset. `what`
  // names the part of the file in errors.
  Regex(std::string_view pattern, std::string_view what);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;

  // One search through one text. Many searches of one Regex may run at once.
  class Search {
  public:
    // REQUIRES: valid UTF-8; regex and text outlive the search.
    Search(const Regex& regex, std::string_view text);
    ~Search();
    // Finds the next match that does not overlap the match before it; returns false when there is
    // no further match. Fails with resource_exhausted when a match needs too much work.
    bool next(size_t& begin, size_t& end);

  private:
    struct State;
    std::unique_ptr<State> state_;
  };

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a pattern that matches the text literally.
std::string escape_regex(std::string_view text);

// Reads the pattern of Split or Replace: {"String": "x"}, {"Regex": "x+"}, or a plain string.
Regex read_pattern(const TreeJson& object, const char* key, const std::string& where);

// Bytes [begin, end) of a text, which are a match of a pattern or the text between two matches.
struct Stretch {
  size_t begin;
  size_t end;
  bool match;
};

// How a delimiter is treated when a text is cut (names as in tokenizer.json).
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback);

// Lists the matches and the text between them in order. The stretches cover the whole text, and
// none is empty. Checks the task at every match.
void find_stretches(const Regex& regex, std::string_view text, std::vector<Stretch>& out,
                    const Task* task = nullptr);
// Lists the pieces [begin, end) that `behavior` makes of the stretches; no piece is empty.
void cut(const std::vector<Stretch>& stretches, Behavior behavior,
         std::vector<std::pair<size_t, size_t>>& out);

// An added token is found as a whole string in the text before the text is cut into words. Added
// tokens are control tokens, and words that were added after training.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;     // never made from plain text, left out by decode(skip_special)
  bool single_word = false; // matches only where no word character is next to it
  bool lstrip = false;      // includes the white space before it
  bool rstrip = false;      // includes the white space after it
  bool normalized = false;  // true: found in the normalized text; false: in the original text
};

// Bytes [begin, end) of a text, which are one added token or, with id -1, plain text.
struct TextPart {
  size_t begin;
  size_t end;
  int32_t id;
};

class AddedTokens {
public:
  // normalized_content: the normalizer's result for the content, for tokens with `normalized`.
  void add(AddedToken token, const std::string& normalized_content);
  // Both return null when there is no such added token.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Cuts `text` into added tokens and plain text, longest match first. It finds only tokens whose
  // `normalized` equals the argument, and special tokens only with `special`. Checks the task
  // every 64 KB.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool special,
                              const Task* task = nullptr) const;
  // Cuts a text of several authors. It finds special tokens by their content, only where
  // trusted(begin, end) returns true, and tokens that are neither special nor normalized.
  using Trusted = std::function<bool(size_t begin, size_t end)>;
  std::vector<TextPart> split(std::string_view text, const Trusted& trusted,
                              const Task* task = nullptr) const;

private:
  template <class Accept>
  std::vector<TextPart> cut(std::string_view text, const Trie& trie, const Task* task,
                            Accept&& accept) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> by_content_;
  Trie tries_[2][2]; // [normalized][with special tokens]
  Trie contents_;    // for texts of several authors
  std::vector<std::shared_ptr<const MeterCharge>> charges_;
};

// A Normalizer, the "normalizer" part of tokenizer.json, rewrites text before it is cut into words.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  // Rewrites the text, which stays valid UTF-8. Checks the task every 64 KB. REQUIRES: valid UTF-8.
  void apply(std::string& text, const Task* task = nullptr) const {
    size_t first = 0;
    apply_at(text, first, task);
  }
  // Does the same and keeps `first` up to date: the number of bytes at the beginning of the text
  // that come from the first character of the caller's text.
  virtual void apply_at(std::string& text, size_t& first, const Task* task) const = 0;
};

// Returns a null pointer for JSON null. Fails with unimplemented for an unknown type.
std::unique_ptr<Normalizer> read_normalizer(const TreeJson& json, const std::string& where);

// A text and the pieces of it that are kept, in order; no piece is empty.
struct Pieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> spans; // [begin, end) in text
  size_t first;     // leading bytes of text that come from the first character of the caller's text
  const Task* task; // checked while the text is cut; may be null

  Pieces(std::string whole, size_t first_in, const Task* task_in)
      : text(std::move(whole)), first(std::min(first_in, text.size())), task(task_in) {
    if (!text.empty()) spans.emplace_back(0, text.size());
  }
  std::string_view view(size_t i) const {
    return std::string_view(text).substr(spans[i].first, spans[i].second - spans[i].first);
  }
};

// A PreTokenizer, the "pre_tokenizer" part of tokenizer.json, cuts text into the words that the
// model tokenizes.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  // Cuts the pieces, whose text stays valid UTF-8. REQUIRES: valid UTF-8.
  virtual void apply(Pieces& pieces) const = 0;
  // Returns true when apply() writes pieces in the byte alphabet (token_model.h).
  virtual bool makes_byte_chars() const { return false; }
};

// Returns a null pointer for JSON null. Fails with unimplemented for an unknown type.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TreeJson& json, const std::string& where);

// Returns the "pre_tokenizer" part of a tokenizer.json for a scheme of pre_tokenizer_schemes().
// Schemes are the ways in which known families cut text, by the names of GGUF files. Fails with
// not_found naming the nearest name.
TreeJson pre_tokenizer_scheme(const std::string& name);
const std::vector<std::string>& pre_tokenizer_schemes();

TreeJson byte_level_component(bool use_regex);

// Returns the post-processor that adds bos before and eos after a text; "" adds no token. Returns
// JSON null when both are "".
TreeJson template_around(const std::string& bos, const std::string& eos);
// Returns the text of a token in tokenizer_config.json, which is a string or an object with
// "content"; "" without a token.
std::string config_token(const TreeJson* value);

// A sequence of tokens, and the segment of each token (0 or 1, as in BERT).
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
};

// A PostProcessor, the "post_processor" part of tokenizer.json, adds special tokens around a text.
class PostProcessor {
public:
  using Lookup = std::function<int32_t(std::string_view)>; // returns the id, or -1 without a token

  PostProcessor() = default; // adds no token
  // Fails with data_loss when a template names a token that does not exist.
  PostProcessor(const TreeJson& json, const std::string& where, const Lookup& lookup);

  Encoding single(std::vector<int32_t> ids) const;
  Encoding pair(std::vector<int32_t> first, std::vector<int32_t> second) const;
  // Adds only the tokens that single() adds before the text, unless the ids begin with them.
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
  void read_sequence(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_template(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_around(const TreeJson& json, const std::string& where, bool roberta);

  Template single_{{0, {}, 0}};
  Template pair_{{0, {}, 0}, {1, {}, 1}};
};

// A TokenDecoder, the "decoder" part of tokenizer.json, turns the texts of tokens into text.
class TokenDecoder {
public:
  virtual ~TokenDecoder() = default;
  // Changes the texts of all tokens so that their concatenation is the text. raw: keeps bytes that
  // do not make a character, so that a stream can wait for the rest of the character.
  virtual void apply(std::vector<std::string>& tokens, bool raw) const = 0;
};

// Returns a null pointer for JSON null; the caller then joins tokens with spaces. Fails with
// unimplemented for an unknown type.
std::unique_ptr<TokenDecoder> read_decoder(const TreeJson& json, const std::string& where);

// Ids of the tokens that have a role; -1: the role has no token.
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
  // The vocabulary of the model. The ids of added tokens may be beyond it.
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  // Components in the form of tokenizer.json; null without the component.
  TreeJson normalizer, pre_tokenizer, post_processor, decoder;
  SpecialIds special;
  // Roles by the text of the token, which have priority over `special`. "" and unknown texts are
  // ignored.
  std::vector<std::pair<int32_t SpecialIds::*, std::string>> role_names;
  // Tokens that end an answer in addition to eos, by id and by text. Unknown ids and texts are
  // ignored.
  std::vector<int64_t> ends;
  std::vector<std::string> end_names;
  std::vector<ChatSource> chat_templates;
  std::string name; // name in errors: "qwen3/tokenizer.json"
};

// Reads a tokenizer.json. `name` is its name in errors.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);
// Applies add_bos_token and add_eos_token of tokenizer_config.json, unless the post-processor of
// tokenizer.json adds tokens: it has priority, as in the tokenizers library. Ignores a token that
// is not in the vocabulary.
void read_template_flags(const TreeJson& config, const std::string& where, TokenizerParts& parts);

// Reads the pair of files of GPT-2: {"token": id}, and one merge per line. `scheme` is a name of
// pre_tokenizer_schemes().
TokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                     const std::string& name, const std::string& scheme);
// Makes the parts from the vocabulary of a .gguf file. Fails with data_loss naming the fault, and
// with unimplemented for an unknown tokenizer model.
TokenizerParts read_gguf_tokenizer(const ckpt::GgufVocabulary& vocabulary);

// Makes merges from pairs of token texts in order of rank. Fails with data_loss naming the merge.
std::vector<Merge> make_merges(const Vocabulary& vocabulary,
                               const std::vector<std::pair<std::string, std::string>>& pairs,
                               const std::string& prefix, const std::string& name);

} // namespace dllm::text
