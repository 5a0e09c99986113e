#pragma once
// Text to token numbers and back.

#include "base/files.h"
#include "base/options.h"
#include "base/task.h"
#include "text/tokenizer/parts.h"

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

// bos, eos, pad, mask (names), add_tokens, add_special, add_start, parse_special, skip_special, chat_template.
const Schema& tokenizer_schema();

// A text of any length may be encoded under a task: it is checked every few milliseconds.
struct EncodeOptions {
  bool add_special = false; // put the file's special tokens around the text
  bool parse_special =
      false; // special tokens written in the text count as such; never for what a user typed
  const Task* task = nullptr;
  bool add_start = false; // put those before the text that the file puts there, and none behind it
};

struct DecodeOptions {
  bool skip_special = false;
  bool raw = false; // bytes as they are, else broken characters become U+FFFD
};

// Encoding and decoding may run on any number of threads at once; add_special_token only alone.
class Tokenizer {
public:
  // A tokenizer.json of any name, a .gguf file, a folder, or a run or checkpoint (ckpt/checkpoint_folder.h). Fails with
  // not_found or data_loss naming what is wrong in which file.
  static std::shared_ptr<Tokenizer> load(const std::string& path, const Options& options);
  // tokenizer.json, else a .gguf file, else vocab.json + merges.txt (those first next to a config.json); tokenizer_config.json
  // names the special tokens when it is there.
  static std::shared_ptr<Tokenizer> load(const Source& source, const Options& options);
  static std::shared_ptr<Tokenizer> from_gguf(const ckpt::GgufVocabulary& vocabulary,
                                              const Options& options);

  Tokenizer(TokenizerParts parts, const Options& options);
  ~Tokenizer();

  // Numbers are below size(); some may be unused.
  int64_t size() const;
  // The number of a token by its text, nothing when there is none.
  std::optional<int32_t> find(std::string_view name) const;
  int32_t id(std::string_view name) const; // fails with not_found
  // The same, but "bos", "eos", "pad" and "mask" are the tokens with these jobs.
  int32_t id_of_role(std::string_view name) const;
  // Fails with invalid_argument naming the first that is not in [0, size()).
  void check_ids(std::span<const int32_t> ids) const;
  // The token's text as the file has it, "" for an unused number.
  std::string_view token(int32_t id) const;
  bool is_special(int32_t id) const;
  const SpecialIds& special() const { return special_; }
  // Every token that ends an answer as the files say, ascending: eos, and others of generation_config.json, config.json,
  // a GGUF file (eot, eom).
  const std::vector<int32_t>& ends() const { return ends_; }
  const std::string& name() const { return name_; }

  // As the options of load() set them.
  const EncodeOptions& encode_options() const { return encode_options_; }
  const DecodeOptions& decode_options() const { return decode_options_; }

  std::vector<int32_t> encode(std::string_view text, const Task* task = nullptr) const {
    EncodeOptions options = encode_options_;
    options.task = task;
    return encode(text, options);
  }
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const;
  // For texts of several authors (text/chat.h): cuts out added tokens, special ones only where
  // `trusted` answers true; then encodes the parts between. at_start: the part begins the whole text.
  std::vector<TextPart> split(std::string_view text, const AddedTokens::Trusted& trusted,
                              const Task* task = nullptr) const {
    return added_.split(text, trusted, task);
  }
  std::vector<int32_t> encode_part(std::string_view text, bool at_start,
                                   const Task* task = nullptr) const;
  // How conversations are written, as the files have it; empty when they do not hold any.
  const std::vector<ChatSource>& chat_templates() const { return chat_templates_; }
  // Two texts in the file's template for pairs (always with its special tokens).
  Encoding encode_pair(std::string_view first, std::string_view second,
                       const EncodeOptions& options) const;

  std::string decode(std::span<const int32_t> ids) const { return decode(ids, decode_options_); }
  // Numbers without a token give nothing; negative ones fail with invalid_argument.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options) const;
  // The text of the first `used` numbers: all of them, less those at the end whose last character
  // is not whole yet. Decoders that treat the first token apart (Metaspace, WordPiece) need the
  // numbers from the start of the text.
  std::string decode_stream(std::span<const int32_t> ids, const DecodeOptions& options,
                            int64_t& used) const;

  // Gives a new special token the next number, or returns the number it has.
  int32_t add_special_token(const std::string& content);
  void set_special(const SpecialIds& special) { special_ = special; }

  // The file format of the tokenizers library.
  std::string to_json() const;
  // tokenizer_config.json: which tokens have a job, and the class that other readers take.
  std::string config_json() const;
  // A folder (then tokenizer_config.json is written too) or the path of the file. already_exists
  // when a file is there that no save() wrote.
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
  bool keeps_bytes_ = false; // every byte has a token: text that is no UTF-8 survives
  int64_t size_ = 0;

  struct Caches;
  std::unique_ptr<Caches> caches_;
};

// Learns a byte-level BPE vocabulary from texts: the most frequent pair of neighbours becomes a
// token, again and again (Sennrich et al. 2016). The same texts and options give the same file on
// every machine.

// vocab_size, pre_tokenizer, normalizer, min_count, max_token_bytes, bos, eos, pad, mask,
// special_tokens.
const Schema& tokenizer_train_schema();

// Special tokens get the first numbers, the 256 bytes the next, then merges in order. Stops early
// when no pair is left that occurs `min_count` times. Fails with failed_precondition unless `texts`
// is a dataset of texts.
std::shared_ptr<Tokenizer> train_tokenizer(const Dataset& texts, const Options& options,
                                           Task* task);

// Lookups and edits in the files of a tokenizer without making it: one walk over the text, whatever the type of the
// tokenizer's model. For models, which carry these files along.

constexpr const char* kMaskToken = "<|mask|>"; // what add_mask_token() adds

// The id of the first of `names` that is a token of a tokenizer.json; nothing when none is. Fails with data_loss for
// what is not JSON; parts that are of no known form hold no tokens.
std::optional<int64_t> find_token(std::string_view tokenizer_json,
                                  std::span<const std::string> names);
// visit(text, id, whether it stands in added_tokens) for every token; an id below 0 is none.
using VisitToken = std::function<void(std::string_view text, int64_t id, bool is_added)>;
void list_tokens(std::string_view tokenizer_json, const VisitToken& visit);
void list_vocabulary(std::string_view vocab_json, const VisitToken& visit); // {"token": id}
// The largest id + 1.
int64_t count_tokens(std::string_view tokenizer_json);
// The same file with one more special token.
std::string add_mask_token(std::string_view tokenizer_json, int64_t id);
// The same tokenizer_config.json with that token as its mask token.
std::string name_mask_token(std::string_view config_json, int64_t id);

} // namespace dllm::text
