#pragma once
// Byte pair encoding (Sennrich et al. 2016): a word starts as characters, and the pair with the
// lowest rank is merged until none is left.

#include "text/tokenizer/flat_map.h"
#include "text/tokenizer/token_model.h"

#include <array>
#include <string>
#include <string_view>

namespace dllm::text {

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
