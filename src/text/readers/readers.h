#pragma once
// Formats of files with rows to train on: one file a format, one table. A new format is readers/NAME.cpp with a
// function that makes its Reader, and that function in the table of readers.cpp. The names that the option `format`
// takes, the options of a format, detection and the lists in errors come from the table.

#include "base/input_file.h"
#include "base/options.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
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

// One file to read. Formats that are read from front to back take open_bytes() (text_window.h), which decompresses;
// formats with an index at the end read `file` itself.
struct ReadJob {
  std::shared_ptr<const InputFile> file;
  const Options&
      options; // of dataset_schema(): those of every format, and text_key, prompt_key, response_key
  Task* task;  // may be null
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

// A file, or every file of a folder and its folders in order of name. Skipped there: hidden files, symbolic links,
// `.dat` indices of fortunes. Each is of the format of option `format`, or of the one detected for it. Fails with
// not_found, or as the reader of the format does. Files are read through a window: a row is in memory, never a whole
// file. Progress of `task` counts bytes on disk. Returns the files.
std::vector<ReadFile> read_records(const std::string& path, const Options& options,
                                   const ReaderTable& readers, Task* task, const RecordSink& sink);

} // namespace dllm::text
