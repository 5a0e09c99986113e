#include "text/tokenizer.h"

#include "base/error.h"
#include "base/files.h"
#include "base/threads/meter.h"
#include "text/chat/chat.h"
#include "text/chat/named_templates.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <algorithm>
#include <mutex>

namespace dllm::text {

const Schema& tokenizer_schema() {
  static const Schema schema(
      "tokenizer",
      {option_str("bos", "",
                  "text of the token that begins a text; empty: the token that the file names"),
       option_str("eos", "",
                  "text of the token that ends a text; empty: the token that the file names"),
       option_str("pad", "",
                  "text of the token that fills rows; empty: the token that the file names"),
       option_str("mask", "", "text of the mask token; empty: the token that the file names"),
       option_list("add_tokens", {}, "special tokens to add when they are not there"),
       option_bool("add_special", false, "encode puts the file's special tokens around the text"),
       option_bool("add_start", false,
                   "encode puts the file's special tokens before the text (bos), but none after "
                   "it: the form of a prompt"),
       option_bool("parse_special", false,
                   "special tokens that are written in the text become special tokens; leave it "
                   "off for text of users"),
       option_bool("skip_special", false, "decode leaves special tokens out"),
       option_str(
           "chat_template", "",
           "template that writes conversations: chatml, llama3, qwen, alpaca, or the text of one; "
           "empty: the template of the files")});
  return schema;
}

struct Tokenizer::Caches {
  std::mutex mutex;
  WordCache words[2]; // [special tokens allowed]
};

Tokenizer::Tokenizer(TokenizerParts parts, const Options& options)
    : name_(std::move(parts.name)), vocabulary_(std::move(parts.vocabulary)),
      model_(std::move(parts.model)), normalizer_json_(std::move(parts.normalizer)),
      pre_tokenizer_json_(std::move(parts.pre_tokenizer)),
      post_processor_json_(std::move(parts.post_processor)),
      decoder_json_(std::move(parts.decoder)), special_(parts.special),
      chat_templates_(std::move(parts.chat_templates)), caches_(std::make_unique<Caches>()) {
  normalizer_ = read_normalizer(normalizer_json_, name_ + ": normalizer");
  pre_tokenizer_ = read_pre_tokenizer(pre_tokenizer_json_, name_ + ": pre_tokenizer");
  decoder_ = read_decoder(decoder_json_, name_ + ": decoder");
  size_ = vocabulary_->size();
  for (AddedToken& token : parts.added) add(std::move(token));
  post_processor_ =
      PostProcessor(post_processor_json_, name_ + ": post_processor",
                    [this](std::string_view token) { return find(token).value_or(-1); });
  keeps_bytes_ = pre_tokenizer_ != nullptr && pre_tokenizer_->makes_byte_chars();
  for (int byte = 0; byte < 256 && keeps_bytes_; ++byte) {
    keeps_bytes_ = vocabulary_->find(to_utf8(byte_char(static_cast<unsigned char>(byte)))) >= 0;
  }
  encode_options_ = {options.boolean("add_special"), options.boolean("parse_special"), nullptr,
                     options.boolean("add_start")};
  decode_options_ = {options.boolean("skip_special"), false};
  mark_special();
  for (const std::string& token : options.list("add_tokens")) add_special_token(token);
  for (const auto& [role, text] : parts.role_names) {
    if (const auto id = text.empty() ? std::nullopt : find(text)) special_.*role = *id;
  }
  choose_special(options);
  choose_ends(parts);
  if (const std::string& chat = options.str("chat_template"); !chat.empty()) {
    check_template_tokens(*this, chat);
    chat_templates_ = {{"default", template_text(chat)}};
  }
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::add(AddedToken token) {
  constexpr int64_t kHoles = 1 << 20;
  if (token.id < 0 || token.id > size_ + kHoles) {
    fail(Code::data_loss, "{}: added token {} has id {}, beyond the {} tokens", name_,
         replace_invalid(std::string_view(token.content).substr(0, 40)), token.id, size_);
  }
  if (vocabulary_->has(token.id) && vocabulary_->token(token.id) != token.content) {
    fail(Code::data_loss, "{}: id {} belongs to {} and to the added token {}", name_, token.id,
         replace_invalid(std::string_view(vocabulary_->token(token.id)).substr(0, 40)),
         replace_invalid(std::string_view(token.content).substr(0, 40)));
  }
  size_ = std::max<int64_t>(size_, token.id + int64_t{1});
  std::string normalized = token.content;
  if (token.normalized && normalizer_ != nullptr && is_valid_utf8(normalized))
    normalizer_->apply(normalized);
  added_.add(std::move(token), normalized);
}

void Tokenizer::mark_special() {
  std::vector<bool> flags(static_cast<size_t>(vocabulary_->size()));
  for (const auto& [id, token] : added_.all()) {
    if (token.special && id < vocabulary_->size()) flags[static_cast<size_t>(id)] = true;
  }
  model_->set_special(std::move(flags));
}

int64_t Tokenizer::size() const {
  return size_;
}

std::optional<int32_t> Tokenizer::find(std::string_view name) const {
  if (const AddedToken* token = added_.find(name)) return token->id;
  const int32_t id = vocabulary_->find(name);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

int32_t Tokenizer::id(std::string_view name) const {
  const auto found = find(name);
  if (!found) {
    fail_with_hint("added tokens are looked up by their whole text, others as the file spells them",
                   Code::not_found, "{} has no token {}", name_,
                   replace_invalid(name.substr(0, 60)));
  }
  return *found;
}

void Tokenizer::check_ids(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < size_) continue;
    fail(Code::invalid_argument, "ids[{}] = {} is out of the vocabulary of {}", i, ids[i], size_);
  }
}

std::string_view Tokenizer::token(int32_t id) const {
  if (const AddedToken* token = added_.find(id)) return token->content;
  return vocabulary_->has(id) ? std::string_view(vocabulary_->token(id)) : std::string_view();
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = added_.find(id);
  return token != nullptr && token->special;
}

int32_t Tokenizer::add_special_token(const std::string& content) {
  if (content.empty()) fail(Code::invalid_argument, "a special token needs a text");
  AddedToken token{.id = static_cast<int32_t>(size_), .content = content, .special = true};
  if (const AddedToken* known = added_.find(content)) {
    token = *known;
    token.special = true;
  } else if (const int32_t id = vocabulary_->find(content); id >= 0) {
    token.id = id;
  }
  const int32_t id = token.id;
  add(std::move(token));
  mark_special();
  for (WordCache& words : caches_->words) words.clear();
  return id;
}

// One call of encode, which collects ids and uses the shared cache or its own.
class Tokenizer::Encoder {
public:
  Encoder(const Tokenizer& tokenizer, bool parse_special, const Task* task)
      : t_(tokenizer), parse_special_(parse_special), task_(task),
        lock_(t_.caches_->mutex, std::try_to_lock),
        cache_(lock_.owns_lock() ? t_.caches_->words[parse_special] : own_cache_) {}

  std::vector<int32_t> run(std::string_view text, bool at_start = true) {
    for (const TextPart& part : t_.added_.split(text, false, parse_special_, task_)) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
        continue;
      }
      const std::string_view plain = text.substr(part.begin, part.end - part.begin);
      if (!is_valid_utf8(plain) && !t_.keeps_bytes_) {
        valid(replace_invalid(plain), at_start && part.begin == 0);
      } else {
        bytes(plain, at_start && part.begin == 0);
      }
    }
    return std::move(ids_);
  }

private:
  // Encodes runs of characters, and single bytes that are not part of a character.
  void bytes(std::string_view text, bool at_start) {
    for (size_t at = 0; at < text.size();) {
      check_task(task_);
      const size_t end = valid_utf8_end(text, at);
      if (end > at) valid(std::string(text.substr(at, end - at)), at_start && at == 0);
      at = end;
      if (at < text.size()) word(to_utf8(byte_char(static_cast<unsigned char>(text[at++]))));
    }
  }

  void valid(std::string text, bool at_start) {
    size_t first = at_start && !text.empty() ? static_cast<size_t>(char_at(text, 0).size) : 0;
    if (t_.normalizer_ != nullptr) t_.normalizer_->apply_at(text, first, task_);
    for (const TextPart& part : t_.added_.split(text, true, parse_special_, task_)) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
        continue;
      }
      Pieces pieces(text.substr(part.begin, part.end - part.begin),
                    first - std::min(first, part.begin), task_);
      if (t_.pre_tokenizer_ != nullptr) t_.pre_tokenizer_->apply(pieces);
      for (size_t i = 0; i < pieces.spans.size(); ++i) {
        if (i % kWords == 0) check_task(task_);
        word(pieces.view(i));
      }
    }
  }

  void word(std::string_view text) {
    if (const std::vector<int32_t>* known = cache_.find(text)) {
      ids_.insert(ids_.end(), known->begin(), known->end());
      return;
    }
    const size_t before = ids_.size();
    t_.model_->encode(text, {parse_special_, task_}, ids_);
    cache_.add(text, ids_.data() + before, ids_.size() - before);
  }

  static constexpr size_t kWords = 1024; // between two checks of the task
  const Tokenizer& t_;
  bool parse_special_;
  const Task* task_;
  // The lock of the shared caches. A second caller at the same time uses own_cache_.
  std::unique_lock<std::mutex> lock_;
  WordCache own_cache_;
  WordCache& cache_;
  std::vector<int32_t> ids_;
};

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids =
      Encoder(*this, options.parse_special, options.task).run(text, options.at_start);
  if (options.add_special) return post_processor_.single(std::move(ids)).ids;
  return options.add_start ? post_processor_.begun(std::move(ids)) : ids;
}

std::vector<int32_t> Tokenizer::encode_part(std::string_view text, bool at_start,
                                            const Task* task) const {
  return Encoder(*this, false, task).run(text, at_start);
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  std::vector<int32_t> a = Encoder(*this, options.parse_special, options.task).run(first);
  std::vector<int32_t> b = Encoder(*this, options.parse_special, options.task).run(second);
  return post_processor_.pair(std::move(a), std::move(b));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  // Memory of the parts of tokens, their joined text and a copy that is valid.
  int64_t bytes = static_cast<int64_t>(ids.size() * sizeof(std::string));
  for (int32_t id : ids) bytes += id < 0 ? 0 : 4 * static_cast<int64_t>(token(id).size());
  const MeterCharge charge(bytes);
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0)
      fail(Code::invalid_argument, "token id {} at position {} is negative", ids[i], i);
    if (options.skip_special && is_special(ids[i])) continue;
    const std::string_view text = token(ids[i]);
    if (!text.empty()) tokens.emplace_back(text);
  }
  if (decoder_ != nullptr) decoder_->apply(tokens, options.raw);
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (decoder_ == nullptr && i > 0) out.push_back(' ');
    out += tokens[i];
  }
  return options.raw || is_valid_utf8(out) ? out : replace_invalid(out);
}

std::string Tokenizer::decode_stream(std::span<const int32_t> ids, const DecodeOptions& options,
                                     int64_t& used) const {
  for (size_t count = ids.size();; --count) {
    const std::string text = decode(ids.first(count), {options.skip_special, true});
    if (unfinished_tail(text) > 0) continue; // never for count 0
    used = static_cast<int64_t>(count);
    return options.raw || is_valid_utf8(text) ? text : replace_invalid(text);
  }
}

} // namespace dllm::text
