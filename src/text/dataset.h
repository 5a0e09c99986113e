#pragma once
// Rows of text or of token numbers, from files or from a host: rows of tokens end to end, in memory or in a file, the file a
// tokenized dataset is saved in, and the dataset itself.

#include "base/files.h"
#include "base/json.h"
#include "base/options.h"
#include "text/readers/readers.h"
#include "text/tokenizer.h"
#include "text/tokenizer/parts.h"

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

// One row of a dataset, or a part of one. Tokens in memory are views of it, those of a file are copies.
struct TokenRow {
  std::span<const int32_t> ids;
  std::span<const uint8_t> keep; // 1: given (a prompt), never corrupted; 0: learned. Empty: all 0
  bool starts = true; // false: goes on where the row before it ends (a long text in parts)
  Bytes own_ids, own_keep;
};

// Where the tokens of a file lie in it.
struct TokenPlaces {
  int64_t ids = 0;   // byte of the first id
  int64_t keep = -1; // byte of the first keep; -1: none
  int64_t id_bytes = 4;
};

class TokenRows {
public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()); }
  int64_t tokens() const { return offsets_.back(); }
  bool has_keep() const { return file_ != nullptr ? places_.keep >= 0 : !keep_.empty(); }
  // REQUIRES: 0 <= index < size().
  int64_t length(int64_t index) const { return begin(index + 1) - begin(index); }
  int64_t begin(int64_t index) const { return offsets_[static_cast<size_t>(index)]; }
  bool starts(int64_t index) const { return starts_[static_cast<size_t>(index)] != 0; }
  // REQUIRES: 0 <= index < size(). Views are valid until the next add. data_loss when the file
  // changed since it was opened.
  TokenRow row(int64_t index) const;
  // The same for `count` tokens from number `first` of all, over the borders of rows.
  TokenRow part(int64_t first, int64_t count) const;
  // Every row in order, some megabytes of a file at a time.
  void scan(const std::function<void(int64_t index, const TokenRow&)>& visit) const;

  // keep: empty or one per id. Fails with failed_precondition when the rows are a file.
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);

  std::span<const int64_t> offsets() const { return offsets_; } // size() + 1
  std::span<const uint8_t> starts() const { return starts_; }

  TokenRows() = default;
  // Of a file, already checked.
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

// A 64-bit hash of bytes: which split a row falls in, and the checksum of token files. The same
// everywhere and for ever (little-endian words); not for security.

inline uint64_t mix64(uint64_t x) { // finalizer of SplitMix64 (Steele et al. 2014)
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The hash of `size` bytes that come in pieces. Every piece but the last is a multiple of 8 bytes.
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

// Rows on their way into a file, for data larger than memory: 9 bytes a row stay in memory, the tokens go to
// `path`.ids and `path`.keep, which are removed at the end.
class TokenSpill {
public:
  explicit TokenSpill(const std::string& path);
  ~TokenSpill();
  void add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts);
  // The rows, in the file. Once; valid as long as this.
  TokenRows finish(const Task* task);

private:
  std::string ids_path_, keep_path_;
  std::unique_ptr<FileWriter> ids_, keep_;
  bool has_keep_ = false;
  std::vector<int64_t> offsets_{0};
  std::vector<uint8_t> starts_;
};

// The file a tokenized dataset is saved in; batches read their tokens from it. Little-endian:
//
//   0    "dllmtok1"
//   8    u32 version (2), u32 has_keep
//   16   i64 rows, i64 tokens
//   32   i32 vocabulary size, bos, eos, pad, mask (-1: none), i32 bytes of an id: 2 up to 65536 tokens, else 4
//   56   u64 hash of the vocabulary, u64 hash of the payload, u64 hash of the 72 bytes before
//   80   i64 offsets[rows + 1], u8 starts[rows], u8 keep[tokens] if has_keep, u16 or i32 ids[tokens]; each
//   padded to 8 bytes

struct TokenFileInfo {
  int64_t vocabulary_size = 0;
  SpecialIds special;
  uint64_t vocabulary_hash = 0; // 0: not known
};

// Of the tokens in the order of their ids.
uint64_t vocabulary_hash(const Tokenizer& tokenizer);

bool is_token_file(const std::string& path);
// already_exists when something is at `path`: overwrite replaces a token file, never another.
void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     bool overwrite, const Task* task);
// Every size, offset and number is checked before anything is used. Fails with data_loss naming the
// file and the fault. Offsets and starts are in memory from here on, the tokens stay in the file.
TokenRows open_token_file(std::shared_ptr<const InputFile> file, TokenFileInfo& info,
                          const Task* task);

// format, options of the formats (rows), text_key, prompt_key, response_key, append_eos, prepend_bos, parse_special,
// bad_rows, token_file.
const Schema& dataset_schema();
// The same with the formats of another table.
Schema make_dataset_schema(const ReaderTable& readers);

// Without a tokenizer it holds texts (to train one from), else token numbers. Not synchronised:
// many readers or one add at a time. Loaders keep it alive and see the rows that were there when
// they were made.
class Chat;
struct ChatRow;
struct SpecPart;

// How many conversations of a dataset teach nothing, and which roles they have.
class ChatCounts {
public:
  void add(const Json& conversation, const ChatRow& row);
  void warn() const; // a line of the log, where there are such rows

private:
  int64_t rows_ = 0, silent_ = 0;
  std::set<std::string> roles_; // of silent rows
};

class Dataset {
public:
  // path: what parse_spec() takes. tokenizer may be null. Fails naming file, line and what was expected; not_found when
  // there are no rows at all.
  static std::shared_ptr<Dataset> open(const std::string& path,
                                       std::shared_ptr<const Tokenizer> tokenizer,
                                       const Options& options, Task* task,
                                       const ReaderTable& readers = record_readers());
  Dataset(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // One JSON object or an array of them (readers/readers.h), from the host: what is wrong with it is invalid_argument. Adds
  // all or nothing.
  void add(std::string_view json);
  // Held by the thread of a loader that makes batches ahead: the host may add rows in a callback.
  [[nodiscard]] std::shared_lock<std::shared_mutex> reading() const {
    return std::shared_lock(rows_mutex_);
  }

  int64_t size() const { return is_text() ? static_cast<int64_t>(texts_.size()) : rows_.size(); }
  int64_t tokens() const { return rows_.tokens(); }
  // On average; 0 when the bytes of a row are not known (token files, rows of ids).
  double bytes_per_token() const;
  bool is_text() const { return is_text_; }
  // REQUIRES: !is_text(), 0 <= index < size().
  TokenRow row(int64_t index) const { return rows_.row(index); }
  int64_t row_begin(int64_t index) const { return rows_.begin(index); } // tokens before it
  int64_t row_length(int64_t index) const { return rows_.length(index); }
  bool row_starts(int64_t index) const { return rows_.starts(index); }
  // As TokenRows: tokens by number over the borders of rows, and all rows in order.
  TokenRow part(int64_t first, int64_t count) const { return rows_.part(first, count); }
  void scan(const std::function<void(int64_t, const TokenRow&)>& visit) const { rows_.scan(visit); }
  // REQUIRES: is_text(), 0 <= index < size().
  std::string_view text(int64_t index) const { return texts_[static_cast<size_t>(index)]; }

  // Of the tokenizer, or of the one the token file was made with.
  bool has_keep() const { return rows_.has_keep(); } // some tokens are given
  const SpecialIds& special() const { return info_.special; }
  int64_t vocabulary_size() const { return info_.vocabulary_size; }

  // Files that the rows came from. data_loss naming file `index` when it was written to or replaced
  // since it was read; a file that was removed counts as unchanged. REQUIRES: 0 <= index < file_count().
  int64_t file_count() const { return static_cast<int64_t>(files_.size()); }
  void check_file(int64_t index) const;

  // Writes a token file. Fails with failed_precondition for texts.
  void save(const std::string& path, bool overwrite, Task* task) const;

private:
  void open_tokens(const Reader& reader, const std::string& path, const Task* task);
  void check_vocabulary(const std::string& path, const TokenFileInfo& info) const;
  void read(const std::vector<SpecPart>& parts, const Options& options, Task* task,
            const ReaderTable& readers);
  void add(Record&& record, const Task* task = nullptr);
  void add_tokens(Record&& record, const Task* task);
  // A chat with its ids and keep; other records as they are.
  void render(Record& record, const Task* task = nullptr);
  void check_ids(const Record& record) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool is_text_;
  bool append_eos_, prepend_bos_, parse_special_;
  RecordKeys keys_;
  std::shared_ptr<const Chat> chat_; // made for the first row of messages
  ChatCounts chats_;
  TokenFileInfo info_;
  TokenRows rows_;
  mutable std::shared_mutex rows_mutex_; // add writes under it
  std::unique_ptr<TokenSpill> spill_;    // while a token file is made
  int64_t spilled_rows_ = 0;
  int64_t text_bytes_ = 0; // of what rows_ were made from; -1: not known
  std::vector<std::string> texts_;
  std::vector<ReadFile> files_;
};

} // namespace dllm::text
