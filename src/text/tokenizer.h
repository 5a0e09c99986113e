#pragma once
// A Tokenizer turns text into token ids and token ids into text. This header also trains tokenizers
// and edits their files.

#include "base/files.h"
#include "base/options.h"
#include "base/task.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

class Dataset;

// Options of a tokenizer: bos, eos, pad, mask (names of tokens), add_tokens, add_special,
// add_start, parse_special, skip_special, chat_template.
const Schema& tokenizer_schema();

struct EncodeOptions {
  bool add_special = false; // adds the special tokens that the file puts around a text
  // Special tokens written in the text become special tokens. Never set it for text of a user.
  bool parse_special = false;
  const Task* task = nullptr; // checked every few milliseconds; may be null
  bool add_start = false;     // adds only the special tokens that the file puts before a text
  bool at_start = true;       // false: another text precedes this one, which begins no word
};

struct DecodeOptions {
  bool skip_special = false; // leaves special tokens out
  bool raw = false;          // keeps bytes unchanged; false: broken characters become U+FFFD
};

// Any number of threads may encode and decode at once. add_special_token() must run alone.
class Tokenizer {
public:
  // Loads a tokenizer.json of any name, a .gguf file, a folder, or a run or checkpoint
  // (ckpt/checkpoint/checkpoint_folder.h). Fails with not_found or data_loss naming the file and
  // the fault.
  static std::shared_ptr<Tokenizer> load(const std::string& path, const Options& options);
  // Loads tokenizer.json, else a .gguf file, else vocab.json + merges.txt. Next to a config.json
  // vocab.json + merges.txt precede a .gguf file. Special tokens are named by
  // tokenizer_config.json, where it exists.
  static std::shared_ptr<Tokenizer> load(const Source& source, const Options& options);
  static std::shared_ptr<Tokenizer> from_gguf(const ckpt::GgufVocabulary& vocabulary,
                                              const Options& options);

  Tokenizer(TokenizerParts parts, const Options& options);
  ~Tokenizer();

  // Returns the largest id + 1; some ids below it may be unused.
  int64_t size() const;
  // Returns the id of the token with this text, or nothing.
  std::optional<int32_t> find(std::string_view name) const;
  int32_t id(std::string_view name) const; // as find(); fails with not_found
  // As id(), but the names "bos", "eos", "pad" and "mask" mean the tokens with these roles.
  int32_t id_of_role(std::string_view name) const;
  // Fails with invalid_argument naming the first id that is not in [0, size()).
  void check_ids(std::span<const int32_t> ids) const;
  // Returns the token's text as the file spells it, or "" for an unused id.
  std::string_view token(int32_t id) const;
  bool is_special(int32_t id) const;
  const SpecialIds& special() const { return special_; }
  // Returns the ids of all tokens that end an answer, ascending: eos, and the end tokens of
  // generation_config.json, config.json or a GGUF file (eot, eom).
  const std::vector<int32_t>& ends() const { return ends_; }
  const std::string& name() const { return name_; }

  // The defaults that the options of load() set.
  const EncodeOptions& encode_options() const { return encode_options_; }
  const DecodeOptions& decode_options() const { return decode_options_; }

  std::vector<int32_t> encode(std::string_view text, const Task* task = nullptr) const {
    EncodeOptions options = encode_options_;
    options.task = task;
    return encode(text, options);
  }
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const;
  // Cuts a text of several authors (text/chat/chat.h) into added tokens and plain text. A special
  // token counts only where trusted() returns true.
  std::vector<TextPart> split(std::string_view text, const AddedTokens::Trusted& trusted,
                              const Task* task = nullptr) const {
    return added_.split(text, trusted, task);
  }
  // Encodes plain text of split(). at_start: the whole text begins with this part.
  std::vector<int32_t> encode_part(std::string_view text, bool at_start,
                                   const Task* task = nullptr) const;
  // Returns the chat templates of the files; empty when the files have no chat template.
  const std::vector<ChatSource>& chat_templates() const { return chat_templates_; }
  // Encodes two texts with the file's template for pairs, always with its special tokens.
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options) const;

  std::string decode(std::span<const int32_t> ids) const { return decode(ids, decode_options_); }
  // Skips ids without a token. Fails with invalid_argument for negative ids.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options) const;
  // Returns the text of the first `used` ids. It leaves out ids at the end whose last character is
  // incomplete. Pass the ids from the start of the text, because some decoders (Metaspace,
  // WordPiece) treat the first token differently.
  std::string decode_stream(std::span<const int32_t> ids, const DecodeOptions& options,
                            int64_t& used) const;

  // Adds a special token with the next id and returns its id. A token that exists keeps its id and
  // becomes special.
  int32_t add_special_token(const std::string& content);
  void set_special(const SpecialIds& special) { special_ = special; }

  // Returns tokenizer.json, the file format of the tokenizers library.
  std::string to_json() const;
  // Returns tokenizer_config.json, which names the tokens with a role and the tokenizer's class.
  std::string config_json() const;
  // Writes tokenizer.json to `path`, or into the folder `path` together with tokenizer_config.json.
  // Fails with already_exists for a file that save() did not write.
  void save(const std::string& path) const;

private:
  class Encoder;

  void add(AddedToken token);
  void mark_special();
  // Makes the tokenizer, with the settings in tokenizer_config.json of `source`.
  static std::shared_ptr<Tokenizer> finish(TokenizerParts parts, const Source& source,
                                           const Options& options);
  void choose_special(const Options& options);
  void choose_ends(const TokenizerParts& parts);

  std::string name_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<TokenModel> model_;
  AddedTokens added_;
  TreeJson normalizer_json_, pre_tokenizer_json_, post_processor_json_, decoder_json_;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<TokenDecoder> decoder_;
  PostProcessor post_processor_;
  SpecialIds special_;
  std::vector<int32_t> ends_;
  std::vector<ChatSource> chat_templates_;
  EncodeOptions encode_options_;
  DecodeOptions decode_options_;
  bool keeps_bytes_ = false; // every byte has a token, so text that is not UTF-8 is not changed
  int64_t size_ = 0;

  struct Caches;
  std::unique_ptr<Caches> caches_;
};

// Options of train_tokenizer(): vocab_size, pre_tokenizer, normalizer, min_count, max_token_bytes,
// bos, eos, pad, mask, special_tokens, chat_template.
const Schema& tokenizer_train_schema();

// Learns a byte-level BPE vocabulary from texts: it repeatedly makes a token of the most frequent
// pair of neighbours (Sennrich et al. 2016). The same texts and options make the same file on every
// machine. Special tokens have the first ids, the 256 bytes the next ids, then merges in order.
// Stops early when no pair occurs `min_count` times. Fails with failed_precondition unless `texts`
// is a dataset of texts.
std::shared_ptr<Tokenizer> train_tokenizer(const Dataset& texts, const Options& options,
                                           Task* task);

// The functions below read and edit the text of tokenizer files without making a Tokenizer. Each
// walks over the text once and accepts every type of tokenizer model. Models use them for the
// tokenizer files that they carry along.

constexpr const char* kMaskToken = "<|mask|>"; // the token that add_mask_token() adds

// Returns the id of the first of `names` that is a token of a tokenizer.json, or nothing. Fails
// with data_loss for a text that is not JSON. Ignores parts of an unknown form.
std::optional<int64_t> find_token(std::string_view tokenizer_json,
                                  std::span<const std::string> names);
// Gets each token. is_added: the token is listed in added_tokens. An id below 0 means that the
// token has no id.
using VisitToken = std::function<void(std::string_view text, int64_t id, bool is_added)>;
void list_tokens(std::string_view tokenizer_json, const VisitToken& visit);
// vocab_json: {"token": id}.
void list_vocabulary(std::string_view vocab_json, const VisitToken& visit);
// Returns the largest id + 1.
int64_t count_tokens(std::string_view tokenizer_json);
// Returns the file with the special token kMaskToken added.
std::string add_mask_token(std::string_view tokenizer_json, int64_t id);
// Returns tokenizer_config.json with kMaskToken as its mask token.
std::string name_mask_token(std::string_view config_json, int64_t id);

} // namespace dllm::text
