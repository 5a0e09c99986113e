#pragma once
// A TokenModel turns one word into token ids: it is the "model" part of tokenizer.json (Unigram,
// WordPiece, WordLevel, byte pair encoding). This header also declares the vocabulary.

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

// Tokens and their ids. Some ids may be unused. A token may have several ids, of which find()
// returns the last that was added.
class Vocabulary {
public:
  // Fails with data_loss when another token has the id, or the id is far above `expected`, the
  // number of tokens.
  void add(std::string_view token, int64_t id, int64_t expected);
  // Returns the id, or -1 for an unknown token.
  int32_t find(std::string_view token) const;
  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && used_[static_cast<size_t>(id)];
  }
  // REQUIRES: has(id).
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  // Returns the largest id + 1.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t count() const { return count_; } // ids in use

private:
  void rebuild(size_t slots);
  size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<bool> used_;
  std::vector<int32_t> slots_; // open addressing; -1: free
  int64_t count_ = 0;
};

struct WordOptions {
  bool allow_special = false; // true: plain text may become special tokens
  const Task* task = nullptr; // checked inside long words; may be null
};

// After set_special() a model does not change, and any number of threads may encode.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  // Appends the ids of one word. REQUIRES: word is valid UTF-8 and not empty.
  virtual void encode(std::string_view word, const WordOptions& options,
                      std::vector<int32_t>& out) const = 0;
  // Returns the "model" object of tokenizer.json, with vocabulary.
  virtual std::string to_json() const = 0;
  // special: by id; true: a special token.
  void set_special(std::vector<bool> special) { special_ = std::move(special); }

protected:
  bool is_special(int32_t id) const {
    return static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
  }

private:
  std::vector<bool> special_;
};

// Returns "<0x0A>" for byte 10, the spelling of byte tokens in SentencePiece vocabularies.
std::string byte_token(unsigned char byte);
// Returns the byte of a byte token, or -1 for other tokens.
int byte_of_token(std::string_view token);
// Returns {"token": id, ...} in order of id.
std::string vocabulary_json(const Vocabulary& vocabulary);

// Stores the tokens of short words, because words repeat and merging takes long. It is not
// synchronised: one thread at a time may use it.
class WordCache {
public:
  // Returns the ids of the word, or null when they are not stored.
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

// The Unigram language model (Kudo 2018) cuts a word into the pieces with the greatest sum of log
// probabilities, which it finds with the Viterbi algorithm.
class Unigram final : public TokenModel {
public:
  // scores: by id, natural logarithms of probabilities. unk: -1 without an unknown token.
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

// WordPiece (BERT) repeatedly takes the longest token that begins the rest of the word.
class WordPiece final : public TokenModel {
public:
  // A word of more than `limit` characters, or a word that tokens cannot cover, becomes `unk`.
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

// WordLevel looks up the whole word, which is one token or unknown.
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

struct BpeSettings {
  std::string unk;            // token of unknown characters; "": they are left out
  std::string subword_prefix; // before each character but the first ("##")
  std::string word_suffix;    // after the last character ("</w>")
  bool fuse_unk = false;      // neighbouring unknown characters make one token
  bool byte_fallback = false; // unknown characters become <0xXX> tokens where these exist
  bool ignore_merges = false; // a word that is a token becomes this token without merges
};

struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;
  int32_t rank; // the merge with the lowest rank comes first
};

// Byte pair encoding (Sennrich et al. 2016) begins with the characters of a word and merges the
// pair with the lowest rank until no pair of the list is left.
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
  // Returns the character with the prefix or suffix of its place in the word. The text may be
  // stored in `buffer`.
  std::string_view with_affixes(std::string_view piece, bool first, bool last,
                                std::string& buffer) const;
  const Step* step(int32_t left, int32_t right) const {
    return left < 0 || right < 0 ? nullptr : steps_.find(pair_key(left, right));
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<Merge> merges_;
  BpeSettings settings_;
  FlatMap<Step> steps_;
  std::array<int32_t, 0x250> small_{}; // ids of the characters up to Latin Extended-B
  std::array<int32_t, 256> bytes_{};   // ids of <0xXX>
  int32_t unk_ = -1;
};

// The functions below use the byte alphabet of GPT-2, in which every byte has one printable
// character, so that a vocabulary is text. The characters of 188 bytes have the code of the byte;
// the other 68 bytes have U+0100 and the following codes, in order.

char32_t byte_char(unsigned char byte);
// Returns the byte of a character, or -1 outside the alphabet.
int char_byte(char32_t code);
// Appends the characters of all bytes.
void append_byte_chars(std::string& out, std::string_view bytes);
// Appends the bytes of a token. Returns false, and appends nothing, when the token has a character
// outside the alphabet.
bool append_bytes(std::string& out, std::string_view token);

// The word pattern of GPT-2.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

} // namespace dllm::text
