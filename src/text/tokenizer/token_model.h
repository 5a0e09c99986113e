#pragma once
// How one word becomes token numbers: the vocabulary and the "model" part of tokenizer.json (Unigram,
// WordPiece, byte pair encoding).

#include "base/task.h"
#include "text/tokenizer/flat_map.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dllm::text {

// Tokens and their numbers. Numbers may have holes; a token may have several numbers, then the last one added counts.
class Vocabulary {
public:
  // Fails with data_loss when the number is taken by another token or far above what `expected`
  // tokens need.
  void add(std::string_view token, int64_t id, int64_t expected);
  // -1 when there is none.
  int32_t find(std::string_view token) const;
  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && used_[static_cast<size_t>(id)];
  }
  // REQUIRES: has(id).
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); } // highest number + 1
  int64_t count() const { return count_; }                              // numbers in use

private:
  void rebuild(size_t slots);
  size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<bool> used_;
  std::vector<int32_t> slots_; // open addressing; -1: free
  int64_t count_ = 0;
};

struct WordOptions {
  bool allow_special = false; // false: special tokens are never made out of plain text
  const Task* task = nullptr; // checked inside long words
};

// Immutable after set_special; any number of threads may encode.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  // Appends the numbers of one word, valid UTF-8 and not empty. `vocabulary` is the one it was made
  // with.
  virtual void encode(std::string_view word, const WordOptions& options,
                      std::vector<int32_t>& out) const = 0;
  // The "model" object of tokenizer.json, with vocabulary.
  virtual std::string to_json() const = 0;
  // Which numbers are special tokens, by id.
  void set_special(std::vector<bool> special) { special_ = std::move(special); }

protected:
  bool is_special(int32_t id) const {
    return static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
  }

private:
  std::vector<bool> special_;
};

// "<0x0A>", the spelling of byte tokens in SentencePiece vocabularies.
std::string byte_token(unsigned char byte);
// The byte that such a token stands for, -1: none.
int byte_of_token(std::string_view token);
// {"token": id, ...} of the tokens below `end`, in order of id.
std::string vocabulary_json(const Vocabulary& vocabulary);

// Remembers the tokens of short words: text repeats itself, merging need not.

// Not synchronised: who encodes holds it alone.
class WordCache {
public:
  // Null when the word is not known yet.
  const std::vector<int32_t>* find(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }
  void add(std::string_view word, const int32_t* ids, size_t count) {
    if (word.size() > kLongest || words_.size() >= kMost) return;
    words_.emplace(word, std::vector<int32_t>(ids, ids + count));
  }
  void clear() { words_.clear(); }

private:
  static constexpr size_t kLongest = 64;   // bytes
  static constexpr size_t kMost = 1 << 16; // words, some 10 MB
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words_;
};

// Unigram language model (Kudo 2018): of all ways to cut a word into pieces, the one with the
// greatest sum of log probabilities (Viterbi).

class Unigram final : public TokenModel {
public:
  // scores: by id, natural logarithms. unk: -1 when the vocabulary has none.
  Unigram(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores, int32_t unk,
          bool byte_fallback);

  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<double> scores_;
  int32_t unk_;
  bool byte_fallback_;
  double unk_score_ = 0;
  Trie trie_;
};

// WordPiece as BERT uses it: the longest token from the front, then the longest of the rest, and so
// on.

class WordPiece final : public TokenModel {
public:
  // A word of more characters than `limit`, or one that cannot be covered, is `unk`.
  WordPiece(std::shared_ptr<const Vocabulary> vocabulary, std::string unk, std::string prefix,
            int64_t limit);

  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string unk_;
  std::string prefix_;
  int64_t limit_;
  int32_t unk_id_;
  size_t longest_ = 0; // bytes of the longest token
};

// A word is a token as it stands, or unknown.

class WordLevel final : public TokenModel {
public:
  WordLevel(std::shared_ptr<const Vocabulary> vocabulary, std::string unk);

  // Fails with failed_precondition for an unknown word where the vocabulary does not hold `unk`.
  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string unk_;
  int32_t unk_id_; // -1: none
};

// Byte pair encoding (Sennrich et al. 2016): a word starts as characters, and the pair with the
// lowest rank is merged until none is left.

struct BpeSettings {
  std::string unk;            // "": characters without a token vanish
  std::string subword_prefix; // before each character but the first ("##")
  std::string word_suffix;    // after the last character ("</w>")
  bool fuse_unk = false;      // neighbouring unknown characters give one token
  bool byte_fallback = false; // unknown characters become <0xXX> tokens where these exist
  bool ignore_merges = false; // a word that is a token is taken whole
};

struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;
  int32_t rank; // lower merges first
};

class Bpe final : public TokenModel {
public:
  Bpe(std::shared_ptr<const Vocabulary> vocabulary, std::vector<Merge> merges,
      BpeSettings settings);

  void encode(std::string_view word, const WordOptions& options,
              std::vector<int32_t>& out) const override;
  std::string to_json() const override;

private:
  struct Step {
    int32_t rank;
    int32_t result;
  };
  struct Symbol;

  void start(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge_short(std::vector<Symbol>& symbols) const;
  void merge_long(std::vector<Symbol>& symbols, const Task* task) const;
  // The character as the vocabulary spells it at its place in a word; may be written to `buffer`.
  std::string_view with_affixes(std::string_view piece, bool first, bool last,
                                std::string& buffer) const;
  const Step* step(int32_t left, int32_t right) const {
    return left < 0 || right < 0 ? nullptr : steps_.find(pair_key(left, right));
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<Merge> merges_;
  BpeSettings settings_;
  FlatMap<Step> steps_;
  std::array<int32_t, 0x250> small_{}; // token of each character up to Latin Extended-B
  std::array<int32_t, 256> bytes_{};   // token of <0xXX>
  int32_t unk_ = -1;
};

// The byte alphabet of GPT-2: every byte has one printable character, so that a vocabulary is text.
// 188 bytes are themselves; the other 68 become U+0100 onwards, in order.

char32_t byte_char(unsigned char byte);
// -1: the character stands for no byte.
int char_byte(char32_t code);
// Appends the characters of all bytes.
void append_byte_chars(std::string& out, std::string_view bytes);
// The bytes of a token; false (and nothing appended) when a character stands for none.
bool append_bytes(std::string& out, std::string_view token);

// The word pattern of GPT-2.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

} // namespace dllm::text
