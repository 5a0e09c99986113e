#pragma once
// Rows of text or of token numbers, from files or from a host.

#include "base/options.h"
#include "text/readers/readers.h"
#include "text/token_rows.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

// format, options of the formats (rows), text_key, prompt_key, response_key, append_eos, prepend_bos, parse_special.
const Schema& dataset_schema();
// The same with the formats of another table.
Schema make_dataset_schema(const ReaderTable& readers);

// Without a tokenizer it holds texts (to train one from), else token numbers. Not synchronised:
// many readers or one add at a time. Loaders keep it alive and see the rows that were there when
// they were made.
class Chat;

class Dataset {
public:
  // tokenizer may be null. Fails naming file, line and what was expected; not_found when there are
  // no rows at all.
  static std::shared_ptr<Dataset> open(const std::string& path,
                                       std::shared_ptr<const Tokenizer> tokenizer,
                                       const Options& options, Task* task,
                                       const ReaderTable& readers = record_readers());
  Dataset(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);

  // One JSON object or an array of them (readers/readers.h). Adds all or nothing.
  void add(std::string_view json);

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
  const SpecialIds& special() const { return info_.special; }
  int64_t vocabulary_size() const { return info_.vocabulary_size; }

  // Files that the rows came from. data_loss naming file `index` when it was written to or replaced
  // since it was read; a file that was removed counts as unchanged. REQUIRES: 0 <= index < file_count().
  int64_t file_count() const { return static_cast<int64_t>(files_.size()); }
  void check_file(int64_t index) const;

  // Writes a token file (token_rows.h). Fails with failed_precondition for texts.
  void save(const std::string& path, bool overwrite, Task* task) const;

private:
  void open_tokens(const Reader& reader, const std::string& path, const Task* task);
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
  TokenFileInfo info_;
  TokenRows rows_;
  int64_t text_bytes_ = 0; // of what rows_ were made from; -1: not known
  std::vector<std::string> texts_;
  std::vector<ReadFile> files_;
};

} // namespace dllm::text
