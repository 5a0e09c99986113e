// This file makes a tokenizer from the vocabulary of a GGUF file.
#include "base/error.h"
#include "base/log.h"
#include "base/named_table.h"
#include "ckpt/gguf/gguf.h"
#include "text/tokenizer/files/post_template.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/pre_tokenizer_scheme.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dllm::text {

namespace {

using ckpt::GgufVocabulary;

// Token types of the format.
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;

constexpr const char* kMetaspace = "\xE2\x96\x81"; // U+2581

void check(const GgufVocabulary& v) {
  const size_t count = v.tokens.size();
  if (count == 0) fail(Code::data_loss, "{}: the vocabulary is empty", v.name);
  if (!v.types.empty() && v.types.size() != count) {
    fail(Code::data_loss, "{} has {} tokens but {} token types", v.name, count, v.types.size());
  }
  for (const auto& [what, id] :
       {std::pair{"bos", v.bos}, std::pair{"eos", v.eos}, std::pair{"pad", v.padding},
        std::pair{"mask", v.mask}, std::pair{"unk", v.unknown}}) {
    if (id && (*id < 0 || *id >= static_cast<int64_t>(count))) {
      fail(Code::data_loss, "{}: the {} token {} is beyond the {} tokens", v.name, what, *id,
           count);
    }
  }
}

std::vector<Merge> byte_level_merges(const GgufVocabulary& v, const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& merge : v.merges) {
    const size_t space = merge.find(' ', 1); // a token may begin with a space, never end with one
    if (space == std::string::npos || space + 1 >= merge.size()) {
      fail(Code::data_loss, "{}: merge {} is {}, expected two tokens and a space", v.name,
           pairs.size(), replace_invalid(merge.substr(0, 40)));
    }
    pairs.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return make_merges(vocabulary, pairs, "", v.name);
}

// SentencePiece's BPE merges the pair whose token has the best score. Every way to cut a token into
// two tokens is therefore a merge, with the rank of the token's score.
std::vector<Merge> merges_by_score(const GgufVocabulary& v, const Vocabulary& vocabulary) {
  std::vector<int32_t> order(v.tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return v.scores[static_cast<size_t>(a)] > v.scores[static_cast<size_t>(b)];
  });
  constexpr size_t kLongestToken = 256; // bytes; cutting is quadratic in it
  std::vector<Merge> merges;
  int32_t rank = 0;
  for (int32_t id : order) {
    ++rank;
    const std::string_view token = v.tokens[static_cast<size_t>(id)];
    const int32_t type = v.types.empty() ? 1 : v.types[static_cast<size_t>(id)];
    if (type != 1 || token.size() > kLongestToken || !is_valid_utf8(token)) continue;
    for (size_t at = 0; at < token.size();) {
      at += static_cast<size_t>(char_at(token, at).size);
      if (at >= token.size()) break;
      const int32_t left = vocabulary.find(token.substr(0, at));
      const int32_t right = vocabulary.find(token.substr(at));
      if (left >= 0 && right >= 0) merges.push_back({left, right, id, rank});
    }
  }
  return merges;
}

void use_sentence_piece(const GgufVocabulary& v, TokenizerParts& parts,
                        const Vocabulary& vocabulary) {
  if (v.scores.size() != v.tokens.size()) {
    fail(Code::data_loss, "{} has {} tokens but {} scores", v.name, v.tokens.size(),
         v.scores.size());
  }
  if (std::any_of(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); })) {
    fail(Code::data_loss, "{}: a token score is not a number", v.name);
  }
  BpeSettings settings;
  settings.byte_fallback = true;
  settings.fuse_unk = true;
  if (v.unknown) settings.unk = v.tokens[static_cast<size_t>(*v.unknown)];
  parts.model = std::make_unique<Bpe>(parts.vocabulary, merges_by_score(v, vocabulary), settings);
  const TreeJson spaces = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}};
  std::vector<TreeJson> normalizers;
  std::vector<TreeJson> decoders = {
      {{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}}};
  if (v.add_space_prefix.value_or(true)) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(spaces);
  parts.normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}};
  parts.decoder = {{"type", "Sequence"}, {"decoders", decoders}};
}

// Without a flag in the file, llama.cpp begins texts of SentencePiece and Llama 3 with bos.
bool begins_with_bos(const GgufVocabulary& v) {
  return v.add_bos.value_or(v.model == "llama" || v.pre == "llama-bpe" || v.pre == "llama3" ||
                            v.pre == "llama-v3");
}

TreeJson around(const GgufVocabulary& v) {
  const auto text = [&](bool wanted, std::optional<int64_t> id) {
    return wanted && id ? v.tokens[static_cast<size_t>(*id)] : std::string();
  };
  return template_around(text(begins_with_bos(v), v.bos), text(v.add_eos.value_or(false), v.eos));
}

} // namespace

namespace {

// Converters write [PAD7] for rows of the model that its tokenizer lacks; these ids have no token.
bool fills_up(const GgufVocabulary& v, size_t id) {
  const std::string& token = v.tokens[id];
  return !v.types.empty() && v.types[id] == kUnused && token.starts_with("[PAD") &&
         token.ends_with("]");
}

void use_byte_level(const GgufVocabulary& v, TokenizerParts& parts, const Vocabulary& vocabulary) {
  if (v.pre.empty()) {
    log(LogLevel::warn,
        "{} does not name its pre-tokenizer (tokenizer.ggml.pre): texts may be cut into other "
        "tokens than the model's",
        v.name);
  }
  const std::string pre = v.pre.empty() ? "default" : v.pre;
  BpeSettings settings;
  settings.ignore_merges = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
  parts.model = std::make_unique<Bpe>(parts.vocabulary, byte_level_merges(v, vocabulary), settings);
  parts.pre_tokenizer = pre_tokenizer_scheme(pre);
  parts.decoder = byte_level_component(true);
  if (pre == "qwen2" || pre == "deepseek-r1-qwen") parts.normalizer = {{"type", "NFC"}};
}

struct GgufModel {
  const char* name;
  void (*use)(const GgufVocabulary& v, TokenizerParts& parts, const Vocabulary& vocabulary);
};

constexpr GgufModel kModels[] = {
    {"gpt2", use_byte_level},      // byte-level BPE
    {"llama", use_sentence_piece}, // SentencePiece
};

} // namespace

TokenizerParts read_gguf_tokenizer(const GgufVocabulary& v) {
  check(v);
  TokenizerParts parts;
  parts.name = v.name;
  auto vocabulary = std::make_shared<Vocabulary>();
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    if (fills_up(v, i)) continue;
    vocabulary->add(v.tokens[i], static_cast<int64_t>(i), static_cast<int64_t>(v.tokens.size()));
  }
  parts.vocabulary = vocabulary;
  need_named(kModels, v.model, &GgufModel::name,
             {"tokenizer model", "in " + v.name, "", Code::unimplemented})
      .use(v, parts, *vocabulary);
  for (size_t i = 0; i < v.types.size(); ++i) {
    const int32_t type = v.types[i];
    if (v.tokens[i].empty() || (type != kControl && type != kUserDefined && type != kUnknown))
      continue;
    AddedToken token{
        .id = static_cast<int32_t>(i), .content = v.tokens[i], .special = type != kUserDefined};
    parts.added.push_back(std::move(token));
  }
  parts.post_processor = around(v);
  const auto id = [](const std::optional<int64_t>& token) {
    return static_cast<int32_t>(token.value_or(-1));
  };
  parts.special = {id(v.bos), id(v.eos), id(v.padding), id(v.mask)};
  for (const std::optional<int64_t>& end : {v.eot, v.eom}) {
    if (end) parts.ends.push_back(*end);
  }
  if (!v.chat_template.empty()) parts.chat_templates = {{"default", v.chat_template}};
  return parts;
}

} // namespace dllm::text
