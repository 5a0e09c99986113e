#include "text/tokenizer.h"

#include "base/error.h"
#include "base/task.h"
#include "text/chat/named_templates.h"
#include "text/data/dataset.h"
#include "text/tokenizer/pre_tokenizer_scheme.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace dllm::text {

const Schema& tokenizer_train_schema() {
  static const Schema schema(
      "tokenizer_train",
      {option_i64("vocab_size", 4096, 257, 1 << 22,
                  "number of tokens, special tokens and the 256 bytes included"),
       option_choice("pre_tokenizer", "gpt2", {"gpt2", "smollm", "llama-bpe", "qwen2"},
                     "how text is cut into words; a token does not cross a cut"),
       option_choice("normalizer", "none", {"none", "nfc", "nfkc"},
                     "Unicode form into which text is converted first"),
       option_i64("min_count", 2, 1, int64_t{1} << 40,
                  "number of times that a pair must occur to become a token"),
       option_i64("max_token_bytes", 64, 2, 4096, "longest token"),
       option_str("bos", "", "text of a token that begins texts; empty: none"),
       option_str("eos", "<|endoftext|>", "text of the token that ends texts; empty: none"),
       option_str("pad", "<|pad|>", "text of the token that fills rows; empty: none"),
       option_str("mask", "<|mask|>", "text of the mask token; empty: none"),
       option_list("special_tokens", {}, "further special tokens"),
       option_str("chat_template", "auto",
                  "chat template of the tokenizer, whose tokens <|word|> become special: none, "
                  "chatml, llama3, qwen, alpaca, or the text of a template; auto: chatml when the "
                  "texts are conversations, else none")});
  return schema;
}

namespace {

constexpr int64_t kTexts = 64;  // between two checks of the task
constexpr size_t kWords = 4096; // the same, of words

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

// Returns the words of all texts with their counts, in order of their bytes, because the order must
// not depend on a hash.
std::vector<std::pair<std::string, int64_t>> count_words(const Dataset& texts,
                                                         const TreeJson& pre_tokenizer,
                                                         const Normalizer* normalizer, Task* task) {
  const auto cut = read_pre_tokenizer(pre_tokenizer, "pre_tokenizer");
  std::unordered_map<std::string, int64_t> counts;
  for (int64_t i = 0; i < texts.size(); ++i) {
    if (i % kTexts == 0) check_task(task);
    std::string text = replace_invalid(texts.text(i));
    if (normalizer != nullptr) normalizer->apply(text, task);
    Pieces pieces(std::move(text), 1, task);
    cut->apply(pieces);
    for (size_t w = 0; w < pieces.spans.size(); ++w) {
      if (w % kWords == 0) check_task(task);
      std::string bytes;
      append_bytes(bytes, pieces.view(w));
      ++counts[std::move(bytes)];
    }
  }
  std::vector<std::pair<std::string, int64_t>> words(counts.begin(), counts.end());
  // A comparison may throw; the list is then discarded.
  size_t compared = 0;
  std::sort(words.begin(), words.end(), [&](const auto& a, const auto& b) {
    if (compared++ % kWords == 0) check_task(task);
    return a < b;
  });
  return words;
}

// The state of one training run. Ids of tokens are the ids of the new vocabulary.
class Trainer {
public:
  Trainer(std::vector<std::string> special, int64_t min_count, int64_t max_bytes)
      : special_(std::move(special)), min_count_(min_count),
        max_bytes_(static_cast<size_t>(max_bytes)) {
    for (const std::string& token : special_) add_token(token, "");
    for (int byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<unsigned char>(byte);
      add_token(to_utf8(byte_char(b)), std::string(1, static_cast<char>(b)));
    }
  }

  void add_word(const std::string& bytes, int64_t count) {
    Word word{{}, count};
    const auto first_byte = static_cast<int32_t>(special_.size());
    for (char c : bytes) word.symbols.push_back(first_byte + static_cast<unsigned char>(c));
    const auto index = static_cast<int32_t>(words_.size());
    words_.push_back(std::move(word));
    count_pairs(index, 1, -1);
  }

  void run(int64_t size, Task* task) {
    push_changed(task);
    const int64_t from = vocabulary_->size();
    // A merge leaves many candidates with old counts; the task is checked while they are skipped.
    for (size_t turn = 0; vocabulary_->size() < size && !queue_.empty(); ++turn) {
      if (turn % kWords == 0) check_task(task);
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_.find(best.pair)->count;
      if (count != best.count) { // the count is old: queue the pair with its current count
        push(best.pair);
        continue;
      }
      check_task(task);
      merge(best.pair, task);
      if (task != nullptr) task->set_progress(vocabulary_->size() - from, size - from);
    }
  }

  std::shared_ptr<const Vocabulary> vocabulary() const { return vocabulary_; }
  std::vector<Merge> merges() const { return merges_; }

private:
  struct Pair {
    int64_t count = 0;
    std::vector<int32_t> words; // that hold it, or once did
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    bool operator<(const Candidate& other) const { // priority_queue: the greatest comes first
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add_token(const std::string& token, std::string bytes) {
    vocabulary_->add(token, vocabulary_->size(), vocabulary_->size() + 1);
    bytes_.push_back(std::move(bytes));
  }

  void push(uint64_t pair) {
    const int64_t count = pairs_.find(pair)->count;
    if (count >= min_count_) queue_.push({count, pair});
  }

  // Adds (sign 1) or subtracts (-1) the pairs of a word. made: only pairs with this token are new;
  // -1: all pairs are new.
  void count_pairs(int32_t index, int64_t sign, int32_t made) {
    const Word& word = words_[static_cast<size_t>(index)];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const int32_t left = word.symbols[i], right = word.symbols[i + 1];
      const uint64_t key = pair_key(left, right);
      Pair& pair = pairs_[key];
      pair.count += sign * word.count;
      if (sign < 0 || (made >= 0 && left != made && right != made)) continue;
      if (pair.words.empty() || pair.words.back() != index) pair.words.push_back(index);
      changed_.push_back(key);
    }
  }

  void merge(uint64_t key, const Task* task) {
    const auto left = static_cast<int32_t>(key >> 32),
               right = static_cast<int32_t>(key & 0xFFFFFFFFu);
    std::string bytes = bytes_[static_cast<size_t>(left)] + bytes_[static_cast<size_t>(right)];
    std::string token;
    append_byte_chars(token, bytes);
    const bool taken = std::find(special_.begin(), special_.end(), token) != special_.end();
    if (bytes.size() > max_bytes_ || taken) return; // off the queue for good
    int32_t made = vocabulary_->find(token);
    if (made < 0) {
      made = static_cast<int32_t>(vocabulary_->size());
      add_token(token, std::move(bytes));
    }
    merges_.push_back({left, right, made, static_cast<int32_t>(merges_.size())});
    const std::vector<int32_t> holders = std::move(pairs_.find(key)->words);
    for (size_t i = 0; i < holders.size(); ++i) {
      if (i % kWords == 0) check_task(task);
      merge_word(holders[i], left, right, made);
    }
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    push_changed(task);
  }

  void push_changed(const Task* task) {
    for (size_t i = 0; i < changed_.size(); ++i) {
      if (i % kWords == 0) check_task(task);
      push(changed_[i]);
    }
    changed_.clear();
  }

  void merge_word(int32_t index, int32_t left, int32_t right, int32_t made) {
    std::vector<int32_t>& symbols = words_[static_cast<size_t>(index)].symbols;
    const auto is_pair = [&](size_t i) {
      return i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
    };
    size_t first = 0;
    while (first < symbols.size() && !is_pair(first)) ++first;
    if (first == symbols.size()) return; // an earlier merge took it
    count_pairs(index, -1, made);
    size_t to = first;
    for (size_t i = first; i < symbols.size(); ++to) {
      const bool join = is_pair(i);
      symbols[to] = join ? made : symbols[i];
      i += join ? 2 : 1;
    }
    symbols.resize(to);
    count_pairs(index, 1, made);
  }

  std::vector<std::string> special_;
  int64_t min_count_;
  size_t max_bytes_;
  std::shared_ptr<Vocabulary> vocabulary_ = std::make_shared<Vocabulary>();
  std::vector<std::string> bytes_; // by token
  std::vector<Merge> merges_;
  std::vector<Word> words_;
  FlatMap<Pair> pairs_;
  std::vector<uint64_t> changed_;
  std::priority_queue<Candidate> queue_;
};

// Returns the text of the chat template, or "".
std::string chosen_template(const Dataset& texts, const Options& options) {
  const std::string& word = options.str("chat_template");
  if (word == "none" || (word == "auto" && !texts.has_conversations())) return "";
  return template_text(word == "auto" ? "chatml" : word);
}

// Returns the special tokens of the options and of the chat template.
std::vector<std::string> special_tokens(const Options& options, const std::string& chat) {
  std::vector<std::string> tokens;
  const auto add = [&tokens](const std::string& token) {
    const bool known = std::find(tokens.begin(), tokens.end(), token) != tokens.end();
    if (!token.empty() && !known) tokens.push_back(token);
  };
  for (const char* key : {"eos", "pad", "mask", "bos"}) add(options.str(key));
  for (const std::string& token : options.list("special_tokens")) add(token);
  for (const std::string& token : template_tokens(chat)) add(token);
  return tokens;
}

SpecialIds special_ids(const Options& options, const Vocabulary& vocabulary) {
  const auto id = [&](const char* key) {
    return options.str(key).empty() ? -1 : vocabulary.find(options.str(key));
  };
  return {.bos = id("bos"), .eos = id("eos"), .pad = id("pad"), .mask = id("mask")};
}

} // namespace

std::shared_ptr<Tokenizer> train_tokenizer(const Dataset& texts, const Options& options,
                                           Task* task) {
  if (!texts.is_text()) {
    fail_with_hint(
        "give texts; or, to train on the numbers, the tokenizer that made them: dllm train "
        "--tokenizer",
        Code::failed_precondition,
        "a tokenizer is trained from texts, the dataset holds token numbers");
  }
  const std::string chat = chosen_template(texts, options);
  const std::vector<std::string> special = special_tokens(options, chat);
  const int64_t size = options.i64("vocab_size");
  const auto least = static_cast<int64_t>(256 + special.size());
  if (size < least) {
    fail(Code::invalid_argument, "vocab_size {} is less than 256 bytes and {} special tokens", size,
         special.size());
  }
  for (const std::string& token : special) {
    if (!is_valid_utf8(token) || (char_at(token, 0).size == static_cast<int>(token.size()))) {
      fail(Code::invalid_argument, "special token {} must be longer than a character",
           replace_invalid(token));
    }
  }
  TokenizerParts parts;
  parts.name = "trained tokenizer";
  parts.pre_tokenizer = pre_tokenizer_scheme(options.str("pre_tokenizer"));
  parts.decoder = byte_level_component(true);
  if (options.str("normalizer") != "none") {
    parts.normalizer = {{"type", options.str("normalizer") == "nfc" ? "NFC" : "NFKC"}};
  }
  const auto normalizer = read_normalizer(parts.normalizer, "normalizer");
  Trainer trainer(special, options.i64("min_count"), options.i64("max_token_bytes"));
  size_t words = 0;
  for (const auto& [bytes, count] :
       count_words(texts, parts.pre_tokenizer, normalizer.get(), task)) {
    if (words++ % kWords == 0) check_task(task);
    trainer.add_word(bytes, count);
  }
  trainer.run(size, task);
  parts.vocabulary = trainer.vocabulary();
  parts.model = std::make_unique<Bpe>(parts.vocabulary, trainer.merges(), BpeSettings{});
  for (size_t i = 0; i < special.size(); ++i) {
    parts.added.push_back({.id = static_cast<int32_t>(i), .content = special[i], .special = true});
  }
  parts.special = special_ids(options, *parts.vocabulary);
  if (!chat.empty()) parts.chat_templates = {{"default", chat}};
  return std::make_shared<Tokenizer>(std::move(parts), Options(tokenizer_schema()));
}

} // namespace dllm::text
