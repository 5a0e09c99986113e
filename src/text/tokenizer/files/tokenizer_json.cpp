#include "base/error.h"
#include "base/named_table.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/pre_tokenizer_scheme.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <cmath>

namespace dllm::text {

namespace {

std::shared_ptr<Vocabulary> read_vocabulary(const TreeJson& vocab, const std::string& where) {
  if (!vocab.is_object())
    fail(Code::data_loss, "{}: must be an object, found {}", where, vocab.type_name());
  auto vocabulary = std::make_shared<Vocabulary>();
  const auto expected = static_cast<int64_t>(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_integer()) {
      fail(Code::data_loss, "{}: the id of {} must be an integer, found {}", where,
           token.substr(0, 40), id.type_name());
    }
    vocabulary->add(
        token, id.is_number_unsigned() && id.get<uint64_t>() > INT32_MAX ? -1 : id.get<int64_t>(),
        expected);
  }
  return vocabulary;
}

std::pair<std::string, std::string> read_merge_line(std::string_view line, size_t index,
                                                    const std::string& where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    fail(Code::data_loss, "{}: merge {} is {}, expected two tokens and a space", where, index,
         replace_invalid(line.substr(0, 40)));
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

// Reads {"token": id, ...}, which every type except Unigram has.
void read_map(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  const TreeJson* vocab = find_member(json, "vocab");
  if (vocab == nullptr) fail(Code::data_loss, "{}: \"vocab\" is missing", where);
  parts.vocabulary = read_vocabulary(*vocab, where + ".vocab");
}

void read_bpe(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  read_map(json, where, parts);
  BpeSettings settings;
  settings.unk = string_member(json, "unk_token", where, "");
  settings.subword_prefix = string_member(json, "continuing_subword_prefix", where, "");
  settings.word_suffix = string_member(json, "end_of_word_suffix", where, "");
  settings.fuse_unk = bool_member(json, "fuse_unk", where, false);
  settings.byte_fallback = bool_member(json, "byte_fallback", where, false);
  settings.ignore_merges = bool_member(json, "ignore_merges", where, false);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const TreeJson& merge : array_member(json, "merges", where)) {
    if (merge.is_string()) {
      pairs.push_back(read_merge_line(merge.get_ref<const std::string&>(), pairs.size(), where));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pairs.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else {
      fail(Code::data_loss, "{}: merge {} must be two tokens", where, pairs.size());
    }
  }
  std::vector<Merge> merges = make_merges(*parts.vocabulary, pairs, settings.subword_prefix, where);
  parts.model = std::make_unique<Bpe>(parts.vocabulary, std::move(merges), std::move(settings));
}

void read_unigram(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  const TreeJson& vocab = array_member(json, "vocab", where);
  auto vocabulary = std::make_shared<Vocabulary>();
  std::vector<double> scores;
  for (const TreeJson& piece : vocab) {
    const bool fits =
        piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number();
    if (!fits || !std::isfinite(piece[1].get<double>())) {
      fail(Code::data_loss, "{}: vocab[{}] must be [token, score]", where, scores.size());
    }
    vocabulary->add(piece[0].get_ref<const std::string&>(), static_cast<int64_t>(scores.size()),
                    static_cast<int64_t>(vocab.size()));
    scores.push_back(piece[1].get<double>());
  }
  const int64_t unk = int_member(json, "unk_id", where, -1);
  if (unk >= static_cast<int64_t>(scores.size())) {
    fail(Code::data_loss, "{}: unk_id {} is beyond the {} tokens", where, unk, scores.size());
  }
  parts.vocabulary = vocabulary;
  parts.model = std::make_unique<Unigram>(vocabulary, std::move(scores),
                                          static_cast<int32_t>(std::max<int64_t>(unk, -1)),
                                          bool_member(json, "byte_fallback", where, false));
}

void read_word_level(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  read_map(json, where, parts);
  parts.model = std::make_unique<WordLevel>(parts.vocabulary,
                                            string_member(json, "unk_token", where, "<unk>"));
}

void read_word_piece(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  read_map(json, where, parts);
  parts.model = std::make_unique<WordPiece>(
      parts.vocabulary, string_member(json, "unk_token", where, "[UNK]"),
      string_member(json, "continuing_subword_prefix", where, "##"),
      int_member(json, "max_input_chars_per_word", where, 100));
}

struct ModelType {
  const char* name;
  void (*read)(const TreeJson& json, const std::string& where, TokenizerParts& parts);
};

constexpr ModelType kModelTypes[] = {{"BPE", read_bpe},
                                     {"WordPiece", read_word_piece},
                                     {"WordLevel", read_word_level},
                                     {"Unigram", read_unigram}};

void read_model(const TreeJson& json, const std::string& where, TokenizerParts& parts) {
  if (!json.is_object())
    fail(Code::data_loss, "{} must be an object, found {}", where, json.type_name());
  // Old files have no type.
  std::string type = string_member(json, "type", where, "");
  if (type.empty()) type = find_member(json, "merges") != nullptr ? "BPE" : "WordPiece";
  need_named(kModelTypes, type, &ModelType::name,
             {"tokenizer model", "in " + where, "", Code::unimplemented})
      .read(json, where, parts);
}

AddedToken read_added(const TreeJson& json, const std::string& where,
                      const Vocabulary& vocabulary) {
  AddedToken token;
  token.content = string_member(json, "content", where);
  if (token.content.empty()) fail(Code::data_loss, "{}: \"content\" is empty", where);
  token.special = bool_member(json, "special", where, false);
  token.single_word = bool_member(json, "single_word", where, false);
  token.lstrip = bool_member(json, "lstrip", where, false);
  token.rstrip = bool_member(json, "rstrip", where, false);
  token.normalized = bool_member(json, "normalized", where, !token.special);
  const int64_t id = int_member(json, "id", where, -1);
  const int32_t known = vocabulary.find(token.content);
  token.id = known >= 0 ? known : static_cast<int32_t>(std::clamp<int64_t>(id, -1, INT32_MAX));
  return token;
}

TreeJson component(const TreeJson& root, const char* key) {
  const TreeJson* found = find_member(root, key);
  return found == nullptr ? TreeJson() : *found;
}

} // namespace

std::vector<Merge> make_merges(const Vocabulary& vocabulary,
                               const std::vector<std::pair<std::string, std::string>>& pairs,
                               const std::string& prefix, const std::string& name) {
  std::vector<Merge> merges;
  merges.reserve(pairs.size());
  std::string whole;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [left, right] = pairs[i];
    const bool continues = !prefix.empty() && right.compare(0, prefix.size(), prefix) == 0;
    whole.assign(left).append(right, continues ? prefix.size() : 0);
    const auto id_of = [&](const std::string& token) {
      const int32_t id = vocabulary.find(token);
      if (id < 0) {
        fail(Code::data_loss, "{}: merge {} needs the token {}, which is not in the vocabulary",
             name, i, replace_invalid(std::string_view(token).substr(0, 60)));
      }
      return id;
    };
    merges.push_back({id_of(left), id_of(right), id_of(whole), static_cast<int32_t>(i)});
  }
  return merges;
}

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name) {
  const TreeJson root = parse_tree(text, name);
  if (!root.is_object())
    fail(Code::data_loss, "{} must hold an object, found {}", name, root.type_name());
  TokenizerParts parts;
  parts.name = name;
  const TreeJson* model = find_member(root, "model");
  if (model == nullptr) fail(Code::data_loss, "{}: \"model\" is missing", name);
  read_model(*model, name + ": model", parts);
  if (find_member(root, "added_tokens") != nullptr) {
    for (const TreeJson& added : array_member(root, "added_tokens", name)) {
      const std::string where = fmt::format("{}: added_tokens[{}]", name, parts.added.size());
      parts.added.push_back(read_added(added, where, *parts.vocabulary));
    }
  }
  parts.normalizer = component(root, "normalizer");
  parts.pre_tokenizer = component(root, "pre_tokenizer");
  parts.post_processor = component(root, "post_processor");
  parts.decoder = component(root, "decoder");
  return parts;
}

TokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                     const std::string& name, const std::string& scheme) {
  TokenizerParts parts;
  parts.name = name;
  parts.vocabulary = read_vocabulary(parse_tree(vocab, name + "/vocab.json"), name + "/vocab.json");
  std::vector<std::pair<std::string, std::string>> pairs;
  const std::string where = name + "/merges.txt";
  for (size_t at = 0; at < merges.size();) {
    const size_t end = std::min(merges.find('\n', at), merges.size());
    std::string_view line = merges.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool comment = at == 0 && line.substr(0, 8) == "#version";
    if (!line.empty() && !comment) pairs.push_back(read_merge_line(line, pairs.size(), where));
    at = end + 1;
  }
  parts.model = std::make_unique<Bpe>(
      parts.vocabulary, make_merges(*parts.vocabulary, pairs, "", where), BpeSettings{});
  AddedToken end_of_text{
      .id = parts.vocabulary->find("<|endoftext|>"), .content = "<|endoftext|>", .special = true};
  if (end_of_text.id >= 0) parts.added.push_back(end_of_text);
  parts.pre_tokenizer = pre_tokenizer_scheme(scheme);
  parts.decoder = byte_level_component(true);
  if (scheme == "qwen2") parts.normalizer = {{"type", "NFC"}};
  return parts;
}

} // namespace dllm::text
