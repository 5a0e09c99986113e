#pragma once
// Formats of files with rows to train on, in one table, and what they read with. A new format is readers/NAME.cpp with
// a function that makes its Reader, and that function in the table of readers.cpp. The names that the option `format`
// takes, the options of a format, detection and the lists in errors come from the table.

#include "base/files.h"
#include "base/options.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Error;
class Options;
class Task;
} // namespace dllm

namespace dllm::text {

// The names of the members a JSON row may have.
struct RecordKeys {
  std::string text = "text";
  std::string prompt = "prompt";
  std::string response = "response";
};

// As text_key, prompt_key and response_key of dataset_schema() have them.
RecordKeys record_keys(const Options& options);

struct Record {
  enum class Kind { text, answer, ids, chat } kind = Kind::text;
  std::string text;          // kind text; of an answer: the response; of a chat: the row's JSON
  std::string where;         // kind chat: file and line, for errors of the template
  std::string prompt;        // kind answer
  std::vector<int32_t> ids;  // kind ids
  std::vector<uint8_t> keep; // kind ids: empty or one per id
  bool starts = true;        // false: goes on where the record before it ends
  bool ends = true;          // false: the next one goes on here
};

// {"text"}, {"prompt", "response"}, {"ids", "keep"?} or {"messages", "tools"?}. Fails with data_loss; `where` names file
// and line.
Record parse_record(std::string_view json, const std::string& where, const RecordKeys& keys);
// The same from one object or an array of them.
std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RecordKeys& keys);

class TokenRows;
struct TokenFileInfo;

constexpr int64_t kMaxRecord = int64_t{64} << 20; // bytes of a row of text, and of a line
constexpr int64_t kHeadBytes = 64; // of the content that a format may be recognized by

using RecordSink = std::function<void(Record&&)>;

// One file as detection sees it.
struct FileHead {
  std::string name; // its path, without ".gz" where it is compressed
  std::string_view
      head; // the first kHeadBytes of its content, decompressed; fewer where it is shorter
};

// One file to read. Formats that are read from front to back take open_bytes(), which decompresses;
// formats with an index at the end read `file` itself.
struct ReadJob {
  std::shared_ptr<const InputFile> file;
  const Options&
      options; // of dataset_schema(): those of every format, and text_key, prompt_key, response_key
  Task* task;  // may be null
  // Takes a row that cannot be read, with the reason; empty: the error ends the reading.
  std::function<void(const Error&)> reject = {};
  int64_t* at = nullptr; // for open_bytes()
};

struct Reader {
  std::string name; // what the option `format` takes
  // A file is of the first format of the table that has the ending of its name, or that recognizes it (may be null).
  std::vector<std::string> endings = {};
  bool (*recognizes)(const FileHead&) = nullptr;
  // Keys of kind "dataset" that this format alone reads.
  std::vector<OptionSpec> options = {};

  // One of the two. read: gives each row to the sink; at most 10 ms of work without a record or a check of the task.
  // Fails with data_loss naming file, line and what was expected, resource_exhausted for a row above kMaxRecord.
  void (*read)(const ReadJob&, const RecordSink&) = nullptr;
  // open: rows of token numbers that stay in the file.
  TokenRows (*open)(std::shared_ptr<const InputFile>, TokenFileInfo&, const Task*) = nullptr;
};

class ReaderTable {
public:
  explicit ReaderTable(std::vector<Reader> readers) : readers_(std::move(readers)) {}

  const std::vector<Reader>& all() const { return readers_; }
  std::vector<std::string> names() const;
  // not_found with the names that there are.
  const Reader& find(std::string_view name) const;
  // By the name of the file and its first bytes. invalid_argument, with the names, when no format fits.
  const Reader& detect(const std::shared_ptr<const InputFile>& file, const Task* task) const;

private:
  std::vector<Reader> readers_;
};

// The formats of this library.
const ReaderTable& record_readers();

// The option `format` with the names of a table.
OptionSpec format_option(const ReaderTable& readers);

// A row that is one text; nothing when it is blank.
void give_text(std::string_view text, const RecordSink& sink);

// A file as it was when it was read.
struct ReadFile {
  std::string path;
  FileStamp stamp;
};

struct ReadSettings {
  const Options& options;
  const ReaderTable& readers;
  Task* task = nullptr;
  std::function<void(const Error&)> reject = {}; // as in ReadJob
  // Looks at a token file whose rows are added to others, and may throw. Empty: such a file is refused.
  std::function<void(const std::string& path, const TokenFileInfo&)> check_tokens = {};
};

// Bytes on disk over all files that are to be read.
struct ReadProgress {
  int64_t done = 0, total = 0;
};

// The file, or every file of a folder and its folders in order of name. Skipped there: hidden files, symbolic links,
// `.dat` indices of fortunes. not_found when there are none.
std::vector<std::string> list_record_files(const std::string& path);
// One file, of the format of option `format` or of the one detected for it. Fails as the reader of the format does. A file
// is read through a window: a row is in memory, never a whole file. Adds its bytes to progress.done and reports them to
// the task.
ReadFile read_record_file(const std::string& path, const ReadSettings& settings,
                          ReadProgress& progress, const RecordSink& sink);
// Each file of list_record_files().
std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings,
                                   const RecordSink& sink);

// The text of a file from front to back: bytes, decompressed where they are gzip, seen through a window that moves, so
// that a file larger than memory can be read; and what readers of lines share.

// The content of a file from front to back, decompressed in bounded memory: readers of records see the text alone.
class ByteSource {
public:
  // at: null, or holds the bytes of the file that were read.
  ByteSource(std::shared_ptr<const InputFile> file, int64_t* at)
      : file_(std::move(file)), at_(at) {}
  virtual ~ByteSource() = default;
  // The next `size` bytes of the content; fewer only where the content ends. data_loss when the file changed.
  virtual int64_t read(char* to, int64_t size) = 0;
  const std::string& path() const { return file_->path(); }

protected:
  const InputFile& file() const { return *file_; }
  void report(int64_t at) {
    if (at_ != nullptr) *at_ = at;
  }

private:
  std::shared_ptr<const InputFile> file_;
  int64_t* at_;
};

// True for content that begins with the magic bytes of gzip, and for every file called NAME.gz: a damaged one is an
// error then, not text.
bool is_gzip(const InputFile& file);
// The name that the content had before it was compressed: without ".gz".
std::string content_name(const std::string& path);

// `task` is checked between pieces of decompressed bytes; it and `at` (bytes of the file that were read, for progress)
// outlive the source and may be null.
std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task,
                                       int64_t* at = nullptr);
// The implementation for gzip (RFC 1952), also of several members in a row. Fails with data_loss naming the file and
// the byte near which it is damaged or cut.
std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task,
                                      int64_t* at = nullptr);

// The text of a file seen through a window that moves from front to back, so that a file larger than memory can be
// read; and what readers of lines share.

class TextWindow {
public:
  // longest_line: bytes of a line that next_line() takes.
  TextWindow(std::unique_ptr<ByteSource> source, int64_t longest_line);

  const std::string& path() const { return source_->path(); }
  bool at_end() { return look(1).empty(); }
  int64_t line() const { return line_; } // number of the line that was read last, from 1

  // At least `size` bytes from here on, or all that are left. Valid until the next call.
  std::string_view look(int64_t size) {
    if (end_ - begin_ < size && !ended_) fill(size);
    return {window_.get() + begin_, static_cast<size_t>(end_ - begin_)};
  }
  void skip(int64_t size) { begin_ += size; } // REQUIRES: at most what the last look() gave
  // The next line with its end; nothing at the end of the text. Valid until the next call.
  // resource_exhausted when it is longer than longest_line.
  std::optional<std::string_view> next_line();

private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  void resize(int64_t capacity);
  // Reads until `size` bytes are held, or the text ends.
  void fill(int64_t size);
  void skip_mark(); // at the begin of the text
  // Bytes up to and with the next line end, or to the end of the text.
  int64_t find_line_end();

  std::unique_ptr<ByteSource> source_;
  int64_t longest_line_;
  std::unique_ptr<char, Free> window_;
  int64_t capacity_ = 0;
  int64_t begin_ = 0, end_ = 0; // of the held bytes, in the window
  bool begun_ = false;          // something was read
  bool ended_ = false;          // the source gives no more
  int64_t line_ = 0;
};

// A raw line without its end.
inline std::string_view without_end(std::string_view line) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// White space of ASCII alone, or nothing.
inline bool is_blank(std::string_view text) {
  for (const char c : text) {
    if (c != ' ' && (c < 9 || c > 13)) return false;
  }
  return true;
}

// Lines that make one row, up to kMaxRecord bytes.
class LineGroup {
public:
  // what: the name of the row in an error. `text` is where the lines come from, for their number.
  LineGroup(const TextWindow& text, const char* what) : text_(text), what_(what) {}
  void add(std::string_view raw); // fails with resource_exhausted
  std::string take();             // leaves the group empty

private:
  const TextWindow& text_;
  const char* what_;
  std::string gathered_;
};

} // namespace dllm::text
