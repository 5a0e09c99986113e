#pragma once
// A dataset holds rows of text or of token ids, which come from files or from the host. This header
// also declares the rows of tokens (TokenRows) and the file that a tokenized dataset is saved in.

#include "base/files.h"
#include "base/json.h"
#include "base/options.h"
#include "text/readers/readers.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text {

// One row of a dataset, or a part of a row. `ids` and `keep` point into the TokenRows when the
// tokens are in memory, and into own_ids and own_keep when they were read from a file.
struct TokenRow {
  std::span<const int32_t> ids;
  // One per id. 1: given (a prompt), never corrupted; 0: learned. An empty span means all 0.
  std::span<const uint8_t> keep;
  bool starts = true; // false: this row continues the row before it (a long text in parts)
  Bytes own_ids, own_keep;
};

// The offsets of the tokens in a token file.
struct TokenPlaces {
  int64_t ids = 0;   // byte of the first id
  int64_t keep = -1; // byte of the first keep; -1: the file has no keep
  int64_t id_bytes = 4;
};

// Rows of token ids, stored one after another in memory or in a token file.
class TokenRows {
public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()); }
  int64_t tokens() const { return offsets_.back(); }
  bool has_keep() const { return file_ != nullptr ? places_.keep >= 0 : !keep_.empty(); }
  // REQUIRES: 0 <= index < size().
  int64_t length(int64_t index) const { return begin(index + 1) - begin(index); }
  int64_t begin(int64_t index) const { return offsets_[static_cast<size_t>(index)]; }
  bool starts(int64_t index) const { return starts_[static_cast<size_t>(index)] != 0; }
  // Returns row `index`; its spans are valid until the next add. Fails with data_loss when the
  // file changed since it was opened. REQUIRES: 0 <= index < size().
  TokenRow row(int64_t index) const;
  // Returns `count` tokens from token `first` on; tokens are numbered over all rows.
  TokenRow part(int64_t first, int64_t count) const;
  // Visits every row in order; a file is read in blocks of some megabytes.
  void scan(const std::function<void(int64_t index, const TokenRow&)>& visit) const;

  // Appends a row. keep is empty or has one value per id. Fails with failed_precondition when
  // the rows are stored in a file.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);

  // Returns size() + 1 numbers.
  std::span<const int64_t> offsets() const { return offsets_; }
  std::span<const uint8_t> starts() const { return starts_; }

  TokenRows() = default;
  // Rows of a token file whose header, offsets and sizes the caller has checked.
  TokenRows(std::shared_ptr<const InputFile> file, TokenPlaces places, std::vector<int64_t> offsets,
            std::vector<uint8_t> starts);

private:
  std::vector<int64_t> offsets_{0};
  std::vector<uint8_t> starts_;
  std::vector<uint8_t> keep_; // empty or one per id
  std::vector<int32_t> ids_;
  std::shared_ptr<const InputFile> file_; // null: in memory
  TokenPlaces places_;
};

// A 64-bit hash of bytes, used for the split of a row and the checksum of token files. It reads
// little-endian words, so it is equal on every machine. It never changes. It is not for security.

// The finalizer of SplitMix64 (Steele et al. 2014).
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Hashes `size` bytes that arrive in pieces. REQUIRES: the size of every piece but the last is a
// multiple of 8 bytes.
class HashStream {
public:
  explicit HashStream(size_t size, uint64_t seed = 0)
      : h_(mix64(seed + size + 0x9E3779B97F4A7C15u)) {}

  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, bytes, 8);
      h_ = (h_ ^ word) * 0x9E3779B97F4A7C15u;
      h_ ^= h_ >> 29;
    }
    for (size_t i = 0; i < size; ++i) rest_ |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  }
  uint64_t finish() const { return mix64(h_ ^ rest_); }

private:
  uint64_t h_;
  uint64_t rest_ = 0;
};

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0) {
  HashStream hash(size, seed);
  hash.add(data, size);
  return hash.finish();
}

// Collects rows of data that is larger than memory. It keeps 9 bytes of each row in memory and
// writes the tokens to `path`.ids and `path`.keep; the destructor removes both files.
class TokenSpill {
public:
  explicit TokenSpill(const std::string& path);
  ~TokenSpill();
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);
  // Returns the collected rows, which are valid while this object lives. REQUIRES: called once.
  TokenRows finish(const Task* task);

private:
  std::string ids_path_, keep_path_;
  std::unique_ptr<FileWriter> ids_, keep_;
  bool has_keep_ = false;
  std::vector<int64_t> offsets_{0};
  std::vector<uint8_t> starts_;
};

// A token file stores a tokenized dataset; batches read their tokens from it. Little-endian:
//
//   0    "dllmtok1"
//   8    u32 version (2), u32 has_keep
//   16   i64 rows, i64 tokens
//   32   i32 vocabulary size, bos, eos, pad, mask (-1: none),
//        i32 bytes of an id (2 up to 65536 tokens, else 4)
//   56   u64 hash of the vocabulary, u64 hash of the payload, u64 hash of the 72 bytes before it
//   80   i64 offsets[rows + 1], u8 starts[rows], u8 keep[tokens] if has_keep, u16 or i32
//        ids[tokens]; each array is padded to 8 bytes

struct TokenFileInfo {
  int64_t vocabulary_size = 0;
  SpecialIds special;
  uint64_t vocabulary_hash = 0; // 0: unknown
};

// Returns the hash of the tokens' texts in the order of their ids.
uint64_t vocabulary_hash(const Tokenizer& tokenizer);

bool is_token_file(const std::string& path);
// Writes a token file. Fails with already_exists when `path` exists, unless `overwrite` is set and
// the file at `path` is a token file.
void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     bool overwrite, const Task* task);
// Opens a token file, and checks every size, offset and id before it uses them. Reads offsets and
// starts into memory; the tokens stay in the file. Fails with data_loss naming file and fault.
TokenRows open_token_file(std::shared_ptr<const InputFile> file, TokenFileInfo& info,
                          const Task* task);

// Options of a dataset: format, options of the formats (rows), text_key, prompt_key,
// response_key, instruction_key, messages_key, template, append_eos, prepend_bos, parse_special,
// bad_rows, token_file, stream.
const Schema& dataset_schema();
// Returns the same schema with the formats of another table.
Schema make_dataset_schema(const ReaderTable& readers);

class Chat;
class RowFiles;
struct ChatRow;
struct SpecPart;

// Counts conversations, those that are silent, those that lose tool calls, and messages of unknown
// roles. Every token of a silent conversation is given.
class ChatCounts {
public:
  void add(const Json& conversation, const ChatRow& row);
  void add_text() { ++rows_; } // a conversation of a dataset of texts
  int64_t rows() const { return rows_; }
  void warn() const; // logs a line about each of these

private:
  int64_t rows_ = 0, silent_ = 0, unknown_ = 0, without_calls_ = 0;
  std::set<std::string> roles_;         // roles in silent conversations, at most 8
  std::set<std::string> unknown_roles_; // at most 8
};

// A dataset holds token ids, or, without a tokenizer, texts from which a tokenizer can be trained.
// It is not synchronised: any number of threads may read, or one may add. A loader keeps its
// dataset alive and uses the rows that were there when the loader was made.
class Dataset {
public:
  // Reads the rows of `path`, a SPEC of parse_spec(). tokenizer may be null. Fails naming file,
  // line and what was expected, and with not_found when there are no rows.
  static std::shared_ptr<Dataset> open(const std::string& path,
                                       std::shared_ptr<const Tokenizer> tokenizer,
                                       const Options& options, Task* task,
                                       const ReaderTable& readers = record_readers());
  Dataset(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // Adds rows of the host: one JSON object or an array of objects (readers/readers.h). Fails with
  // invalid_argument for a wrong row, and then adds none of the rows.
  void add(std::string_view json);
  // Returns a lock under which rows may be read while another thread calls add(). A loader that
  // makes batches ahead needs it, because the host may add rows in a callback.
  [[nodiscard]] std::shared_lock<std::shared_mutex> reading() const {
    return std::shared_lock(rows_mutex_);
  }

  int64_t size() const { return is_text() ? static_cast<int64_t>(texts_.size()) : rows_.size(); }
  int64_t tokens() const { return rows_.tokens(); }
  // Returns the mean of text bytes per learned token; 0 where they are unknown (token files, rows
  // of ids without a tokenizer).
  double bytes_per_token() const;
  bool is_text() const { return is_text_; }
  // REQUIRES: !is_text(), 0 <= index < size().
  TokenRow row(int64_t index) const { return rows_.row(index); }
  // Returns the first words of these tokens, at most 40 bytes; "" without a tokenizer.
  std::string first_words(std::span<const int32_t> ids) const;
  // Returns the number of tokens before the row.
  int64_t row_begin(int64_t index) const { return rows_.begin(index); }
  int64_t row_length(int64_t index) const { return rows_.length(index); }
  bool row_starts(int64_t index) const { return rows_.starts(index); }
  // As in TokenRows.
  TokenRow part(int64_t first, int64_t count) const { return rows_.part(first, count); }
  void scan(const std::function<void(int64_t, const TokenRow&)>& visit) const { rows_.scan(visit); }
  // REQUIRES: is_text(), 0 <= index < size().
  std::string_view text(int64_t index) const { return texts_[static_cast<size_t>(index)]; }

  bool has_keep() const { return rows_.has_keep(); } // some tokens are given
  // Returns true when rows were written by a chat template, or are texts of conversations.
  bool has_conversations() const { return chats_.rows() > 0; }
  // Of the tokenizer, or of the tokenizer that the token file was made with.
  const SpecialIds& special() const { return info_.special; }
  int64_t vocabulary_size() const { return info_.vocabulary_size; }

  // Returns the hash of the tokens' texts (vocabulary_hash); 0 where it is not known.
  uint64_t vocabulary() const;
  // Returns a hash of all rows: their tokens, and which of them are given. Reads every row.
  // REQUIRES: !is_text().
  uint64_t content() const;

  // Returns the number of files of the rows.
  int64_t file_count() const { return static_cast<int64_t>(files_.size()); }
  // Fails with data_loss naming file `index` when it was written to or replaced since it was
  // read. A removed file counts as unchanged. REQUIRES: 0 <= index < file_count().
  void check_file(int64_t index) const;

  // Writes a token file. Fails with failed_precondition when the dataset holds texts.
  void save(const std::string& path, bool overwrite, Task* task) const;

private:
  void open_tokens(const Reader& reader, const std::string& path, const Task* task);
  void check_vocabulary(const std::string& path, const TokenFileInfo& info) const;
  void read(const std::vector<SpecPart>& parts, RowFiles& files, const Options& options, Task* task,
            const ReaderTable& readers);
  void add(Record&& record, const Task* task = nullptr);
  void add_tokens(Record&& record, const Task* task);
  void count_learned_text(std::span<const int32_t> ids, std::span<const uint8_t> keep);
  // Makes a record of kind text, answer, ids or chat. A record of kind chat gets its ids and keep.
  void render(Record& record, const Task* task = nullptr);
  void check_ids(const Record& record) const;
  std::string place_of(const Record& record) const; // file and line, else "row N"

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool is_text_;
  bool append_eos_, prepend_bos_, parse_special_;
  RowShapes shapes_;
  std::string template_;             // of option template; empty: the tokenizer's own
  std::shared_ptr<const Chat> chat_; // made for the first conversation
  ChatCounts chats_;
  TokenFileInfo info_;
  TokenRows rows_;
  mutable std::shared_mutex rows_mutex_; // add writes under it
  std::unique_ptr<TokenSpill> spill_;    // not null while a token file is made
  int64_t spilled_rows_ = 0;
  // Bytes of the texts that rows_ were made from, without prompts; -1: unknown.
  int64_t text_bytes_ = 0;
  int64_t given_tokens_ = 0; // of prompts
  std::vector<std::string> texts_;
  std::vector<ReadFile> files_;
};

} // namespace dllm::text
