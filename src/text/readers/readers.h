#pragma once
// A Reader reads the rows of one file format for training; a ReaderTable lists the formats. A new
// format needs readers/NAME.cpp with a function that makes its Reader, and an entry for the
// function in the table of readers.cpp. Names of option `format`, options of a format, detection
// and the lists in errors come from the table.

#include "base/files.h"
#include "base/options.h"
#include "text/readers/row_shape.h"

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

struct Record {
  enum class Kind { text, answer, instruction, ids, chat } kind = Kind::text;
  // kind text: the text; answer and instruction: the response; chat: JSON, an object with the
  // messages of the row, and its tools and system text where it has them
  std::string text;
  std::string where;         // file and line, for errors; kind text, token files: empty
  std::string prompt;        // kinds answer and instruction
  std::string input;         // kind instruction; empty: none
  std::vector<int32_t> ids;  // kind ids
  std::vector<uint8_t> keep; // kind ids: empty or one per id
  bool has_names = false;    // false: plain text
  uint32_t chosen = 0;       // members by which the row was recognized (RowShape::chosen)
  bool starts = true;        // false: this record continues the record before it
  bool ends = true;          // false: the next record continues this one
};

// Parses one object of a shape of the table. Fails with data_loss; `where` names file and line.
Record parse_record(std::string_view json, const std::string& where, const RowShapes& shapes);
// Parses one object or an array of objects.
std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RowShapes& shapes);
// Returns the record of a row of a table, such as CSV. texts: the values of the shape's members in
// their order, then the value of its optional member. REQUIRES: the shape has no token numbers.
Record record_of_texts(const RowShape& shape, std::vector<std::string> texts,
                       const std::string& where);

class TokenRows;
struct TokenFileInfo;

constexpr int64_t kMaxRecord = int64_t{64} << 20; // bytes of a row of text, and of a line
constexpr int64_t kHeadBytes = 64;                // bytes of FileHead::head

using RecordSink = std::function<void(Record&&)>;

// The parts of a file from which its format is detected.
struct FileHead {
  std::string name;      // path of the file, without ".gz" where it is compressed
  std::string_view head; // the first kHeadBytes bytes of the decompressed content, or all of it
};

// One file to read. A format that is read from front to back calls open_bytes(), which
// decompresses; a format with an index at the end reads `file`.
struct ReadJob {
  std::shared_ptr<const InputFile> file;
  const Options& options; // of dataset_schema()
  Task* task;             // may be null
  // Gets the error of each row that cannot be read. Empty: such an error ends the reading.
  std::function<void(const Error&)> reject = {};
  int64_t* at = nullptr; // argument of open_bytes()
};

struct Reader {
  std::string name; // value of option `format`
  // A file has the first format of the table that lists the ending of its name, or whose
  // recognizes() returns true.
  std::vector<std::string> endings = {};
  bool (*recognizes)(const FileHead&) = nullptr; // may be null
  // Options of kind "dataset" that only this format reads.
  std::vector<OptionSpec> options = {};

  // A reader sets either `read` or `open`.
  // read: passes each row to the sink. It works at most 10 ms without a record or a check of the
  // task. Fails with data_loss naming file, line and what was expected, and with
  // resource_exhausted for a row above kMaxRecord.
  void (*read)(const ReadJob&, const RecordSink&) = nullptr;
  // open: returns rows of token ids, which stay in the file.
  TokenRows (*open)(std::shared_ptr<const InputFile>, TokenFileInfo&, const Task*) = nullptr;
};

class ReaderTable {
public:
  explicit ReaderTable(std::vector<Reader> readers) : readers_(std::move(readers)) {}

  const std::vector<Reader>& all() const { return readers_; }
  std::vector<std::string> names() const;
  // Fails with not_found naming the formats.
  const Reader& find(std::string_view name) const;
  // Chooses the format by the name and the first bytes of the file. Fails with invalid_argument
  // naming the formats when no format fits.
  const Reader& detect(const std::shared_ptr<const InputFile>& file, const Task* task) const;

private:
  std::vector<Reader> readers_;
};

// The formats of this library.
const ReaderTable& record_readers();

// Returns the option `format`, whose choices are the formats of a table.
OptionSpec format_option(const ReaderTable& readers);

// Passes a record of kind text to the sink, unless the text is blank.
void give_text(std::string_view text, const RecordSink& sink);

// A file, with its stamp at the time of reading.
struct ReadFile {
  std::string path;
  FileStamp stamp;
};

struct ReadSettings {
  const Options& options;
  const ReaderTable& readers;
  Task* task = nullptr;
  std::function<void(const Error&)> reject = {}; // as in ReadJob
  // Checks a token file whose rows are mixed with other rows, and may throw. Empty: such a file is
  // refused.
  std::function<void(const std::string& path, const TokenFileInfo&)> check_tokens = {};
};

// Bytes of all files to read, and of those that are loaded first.
struct ReadProgress {
  int64_t done = 0, total = 0;
  std::function<int64_t()> loaded = {}; // returns bytes that are loaded and not part of `done`
  // Reports `more` bytes of the file that is read.
  void report(Task* task, int64_t more) const;
};

// Returns `path` when it is a file, else every file in the folder and its folders, in order of
// name. In folders it skips hidden files and `.dat` indices of fortunes. It also skips symbolic
// links to folders, and links to files inside of `path`. Fails with not_found when there
// is no file.
std::vector<std::string> list_record_files(const std::string& path);
// Reads one open file with the format of option `format`, or with the detected format. It keeps one
// row in memory, never the whole file. Adds the bytes of the file to progress.done and reports them
// to the task. Fails as the reader of the format does.
void read_record_file(const std::shared_ptr<const InputFile>& file, const ReadSettings& settings,
                      ReadProgress& progress, const RecordSink& sink);
// Reads each file of list_record_files().
std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings,
                                   const RecordSink& sink);

// The content of a file, read from front to back and decompressed in bounded memory.
class ByteSource {
public:
  // at: null, or gets the number of bytes of the file that were read.
  ByteSource(std::shared_ptr<const InputFile> file, int64_t* at)
      : file_(std::move(file)), at_(at) {}
  virtual ~ByteSource() = default;
  // Copies the next `size` bytes of the content and returns their number, which is smaller only at
  // the end of the content. Fails with data_loss when the file changed.
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

// Returns true for content that begins with the magic bytes of gzip, and for every file NAME.gz. A
// damaged NAME.gz is therefore an error and is not read as text.
bool is_gzip(const InputFile& file);
// Returns the path without ".gz".
std::string content_name(const std::string& path);

// Opens a file, and decompresses it when is_gzip(). `task` is checked between pieces of
// decompressed bytes. `at` gets the number of bytes of the file that were read. Both may be null
// and must outlive the source.
std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task,
                                       int64_t* at = nullptr);
// Opens a gzip file (RFC 1952), also one of several members. Reading fails with data_loss naming
// the file and the byte near which it is damaged or cut.
std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task,
                                      int64_t* at = nullptr);

// A window over the text of a file that moves from front to back, so that the file may be larger
// than memory.
class TextWindow {
public:
  // longest_line: most bytes of a line, without its end.
  TextWindow(std::unique_ptr<ByteSource> source, int64_t longest_line);

  const std::string& path() const { return source_->path(); }
  bool at_end() { return look(1).empty(); }
  int64_t line() const { return line_; } // number of the line that was read last, from 1

  // Returns at least `size` bytes from the current position, or all bytes that are left. Valid
  // until the next call.
  std::string_view look(int64_t size) {
    if (end_ - begin_ < size && !ended_) fill(size);
    return {window_.get() + begin_, static_cast<size_t>(end_ - begin_)};
  }
  void skip(int64_t size) { begin_ += size; } // REQUIRES: size <= bytes that look() returned last
  // Returns the next line with its end, or nothing at the end of the text. Valid until the next
  // call. Fails with resource_exhausted for a line longer than longest_line.
  std::optional<std::string_view> next_line();

private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  void resize(int64_t capacity);
  // Reads until the window holds `size` bytes, or the text ends.
  void fill(int64_t size);
  void skip_mark(); // skips a byte order mark at the beginning of the text
  // Returns the number of bytes up to and including the next line end, or to the end of the text.
  int64_t find_line_end();

  std::unique_ptr<ByteSource> source_;
  int64_t longest_line_;
  std::unique_ptr<char, Free> window_;
  int64_t capacity_ = 0;
  int64_t begin_ = 0, end_ = 0; // offsets of the unread bytes in the window
  bool begun_ = false;          // the source was read
  bool ended_ = false;          // the source is at its end
  int64_t line_ = 0;
};

// Returns the line without "\n" or "\r\n".
inline std::string_view without_end(std::string_view line) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Returns true when the text has only ASCII white space, or is empty.
inline bool is_blank(std::string_view text) {
  for (const char c : text) {
    if (c != ' ' && (c < 9 || c > 13)) return false;
  }
  return true;
}

// Collects lines that make one row of at most kMaxRecord bytes.
class LineGroup {
public:
  // text: the window that the lines come from, for line numbers. what: name of the row in errors.
  LineGroup(const TextWindow& text, const char* what) : text_(text), what_(what) {}
  void add(std::string_view raw); // fails with resource_exhausted above kMaxRecord bytes
  std::string take();             // returns the lines and leaves the group empty

private:
  const TextWindow& text_;
  const char* what_;
  std::string gathered_;
};

} // namespace dllm::text
