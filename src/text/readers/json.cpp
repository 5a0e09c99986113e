// This file reads files of JSON: an array of objects, or objects one after another, each of which
// may have several lines. One object at a time is in memory.
#include "base/error.h"
#include "base/task.h"
#include "text/readers/readers.h"

#include <algorithm>
#include <optional>
#include <string>

namespace dllm::text {

namespace {

constexpr int64_t kRowsUnchecked = 64;         // between two checks of the task
constexpr int64_t kPiece = int64_t{256} << 10; // bytes that a search looks at first
constexpr const char* kHint = "a file has an array of objects, [{...}, ...], or objects alone";

// Finds the end of one value. It counts brackets, and ignores those in strings.
class ValueEnd {
public:
  // Returns the bytes of the value that begins at the start of `text`, or 0 when `text` ends before
  // it does. A later call gets the same text with more bytes.
  size_t find(std::string_view text);

private:
  size_t at_ = 0;
  int64_t depth_ = 0;
  bool in_string_ = false;
};

size_t ValueEnd::find(std::string_view text) {
  while (at_ < text.size()) {
    if (in_string_) {
      at_ = text.find_first_of("\"\\", at_);
      if (at_ >= text.size()) break;
      if (text[at_] == '\\') {
        if (at_ + 1 >= text.size()) return 0; // the escaped character comes with more bytes
        at_ += 2;
        continue;
      }
      in_string_ = false;
    } else {
      at_ = text.find_first_of("\"{}[]", at_);
      if (at_ >= text.size()) break;
      const char c = text[at_];
      in_string_ = c == '"';
      depth_ += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    }
    ++at_;
    if (depth_ <= 0 && !in_string_) return at_;
  }
  at_ = text.size();
  return 0;
}

class JsonRows {
public:
  explicit JsonRows(TextWindow& text) : text_(text) {}

  // Moves to the next object; returns false at the end of the file. Fails with data_loss where
  // something else is.
  bool next();
  // Returns the text of the object, which next() found. Fails with data_loss when it has no end,
  // and with resource_exhausted above kMaxRecord.
  std::string_view object();
  std::string where() const { return fmt::format("{} row {}", text_.path(), row_); }

private:
  // Returns the next character that is not white space, or 0 at the end.
  char peek();
  [[noreturn]] void refuse(const char* expected);

  TextWindow& text_;
  int64_t row_ = 0; // number of the object, from 1
  bool in_array_ = false, ended_ = false;
};

char JsonRows::peek() {
  while (!text_.at_end()) {
    const std::string_view rest = text_.look(1);
    const size_t first = std::min(rest.find_first_not_of(" \t\r\n"), rest.size());
    text_.skip(static_cast<int64_t>(first));
    if (first < rest.size()) return rest[first];
  }
  return 0;
}

void JsonRows::refuse(const char* expected) {
  const char c = peek();
  const bool is_shown = c > ' ' && c < 127;
  fail_with_hint(kHint, Code::data_loss, "{}: expected {} after row {}, found {}", text_.path(),
                 expected, row_,
                 is_shown ? std::string(1, c)
                 : c == 0 ? "the end of the file"
                          : fmt::format("byte {:#04x}", static_cast<unsigned char>(c)));
}

bool JsonRows::next() {
  char c = peek();
  if (row_ == 0 && c == '[' && !in_array_) {
    in_array_ = true;
    text_.skip(1);
    c = peek();
    ended_ = c == ']';
  } else if (in_array_ && !ended_) {
    ended_ = c == ']';
    if (!ended_ && c != ',') refuse("a comma or ]");
    if (!ended_) {
      text_.skip(1);
      c = peek();
    }
  }
  if (ended_) {
    text_.skip(1);
    if (peek() != 0) refuse("the end of the file");
    return false;
  }
  if (c == 0 && !in_array_) return false;
  if (c != '{') refuse("an object");
  ++row_;
  return true;
}

std::string_view JsonRows::object() {
  ValueEnd end;
  for (int64_t size = kPiece;; size *= 2) {
    const std::string_view rest = text_.look(std::min(size, kMaxRecord + 1));
    if (const size_t bytes = end.find(rest); bytes > 0) {
      text_.skip(static_cast<int64_t>(bytes));
      return rest.substr(0, bytes);
    }
    if (static_cast<int64_t>(rest.size()) > kMaxRecord) {
      fail_with_hint("cut it, or choose other rows", Code::resource_exhausted,
                     "{} has more than {} bytes", where(), kMaxRecord);
    }
    if (static_cast<int64_t>(rest.size()) < size)
      fail_with_hint("copy or download the file again", Code::data_loss,
                     "{}: the file ends inside of it", where());
  }
}

void read_json(const ReadJob& job, const RecordSink& sink) {
  const RowShapes shapes = record_keys(job.options);
  TextWindow text(open_bytes(job.file, job.task, job.at), kMaxRecord);
  JsonRows rows(text);
  for (int64_t row = 0; rows.next(); ++row) {
    if (row % kRowsUnchecked == 0) check_task(job.task);
    std::optional<Record> record;
    const std::string_view object = rows.object();
    try {
      record = parse_record(object, rows.where(), shapes);
    } catch (const Error& error) {
      if (!job.reject) throw;
      job.reject(error);
    }
    if (record) sink(std::move(*record));
  }
}

// Returns true for an array of objects in a file of any name.
bool is_array(const FileHead& file) {
  std::string_view head = file.head;
  for (const std::string_view part : {"\xEF\xBB\xBF", "[", "{", "\""}) {
    const bool is_mark = part.size() > 1; // a byte order mark, which may be absent
    if (!is_mark && !head.starts_with(part)) return false;
    if (head.starts_with(part)) head.remove_prefix(part.size());
    head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  }
  return true;
}

} // namespace

Reader json_reader() {
  return {.name = "json", .endings = {".json"}, .recognizes = is_array, .read = read_json};
}

} // namespace dllm::text
