// This file reads the formats of lines: plain text, JSON lines, and files of fortune(6).
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/task.h"
#include "text/readers/content_check.h"
#include "text/readers/readers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dllm::text {

namespace {

constexpr size_t kPart = 4096; // bytes of a part of a long text

// Returns the end of a part that begins at `begin`: after a blank line, else after a line, else
// after a character.
size_t part_end(std::string_view text, size_t begin) {
  if (text.size() - begin <= kPart + kPart / 4) return text.size();
  const std::string_view window = text.substr(begin, kPart);
  for (const std::string_view border : {"\n\n", "\n", " "}) {
    const size_t at = window.rfind(border);
    // A space stays with the word after it, as byte-level tokenizers want it.
    if (at != std::string_view::npos && at > kPart / 4)
      return begin + at + (border == " " ? 0 : border.size());
  }
  size_t end = begin + kPart;
  while (end > begin + 1 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

// Passes one text in parts of some kilobytes; each part continues the part before it.
void read_parts(TextWindow& text, const RecordSink& sink) {
  constexpr int64_t kAhead = 16 * kPart; // more than part_end() looks at
  for (bool starts = true;; starts = false) {
    const std::string_view rest = text.look(kAhead);
    if (rest.empty()) return;
    const size_t end = part_end(rest, 0);
    Record record;
    record.text = rest.substr(0, end);
    record.starts = starts;
    text.skip(static_cast<int64_t>(end));
    record.ends = text.at_end();
    sink(std::move(record));
  }
}

// Warns about a file whose lines end with CR alone, as on old Macs: all of them are one line here.
void warn_of_lone_cr(TextWindow& text, std::string_view first) {
  if (text.line() != 1 || !text.at_end() || first.find('\r') == std::string_view::npos) return;
  log(LogLevel::warn,
      "{}: its lines end with CR alone, so the file is one row; tr '\\r' '\\n' ends them with LF",
      text.path());
}

void read_lines(TextWindow& text, const Task* task, const RecordSink& sink) {
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(task);
    if (text.line() == 1) warn_of_lone_cr(text, without_end(*raw));
    give_text(without_end(*raw), sink);
  }
}

// A paragraph ends at a blank line, and before the end of its own last line.
void read_paragraphs(TextWindow& text, const Task* task, const RecordSink& sink) {
  LineGroup paragraph(text, "paragraph");
  bool has_line = false;
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(task);
    const std::string_view line = without_end(*raw);
    if (is_blank(line)) {
      give_text(paragraph.take(), sink);
      has_line = false;
      continue;
    }
    if (has_line) paragraph.add("\n"); // also between lines that end with CR and LF
    paragraph.add(line);
    has_line = true;
  }
  give_text(paragraph.take(), sink);
}

// Returns false for a file that the job leaves out because it is not text.
bool is_readable(const ReadJob& job, TextWindow& text) {
  if (job.options.str("format") != "detect") return true;
  try {
    check_is_text(text.look(kCheckedBytes), text.path());
  } catch (const Error& error) {
    if (!job.reject) throw;
    job.reject(error);
    return false;
  }
  return true;
}

void read_text_file(const ReadJob& job, const RecordSink& sink) {
  TextWindow text(open_bytes(job.file, job.task, job.at), kMaxRecord);
  if (!is_readable(job, text)) return;
  const std::string& rows = job.options.str("rows");
  if (rows == "line") return read_lines(text, job.task, sink);
  if (rows == "paragraph") return read_paragraphs(text, job.task, sink);
  read_parts(text, sink);
}

} // namespace

Reader text_reader() {
  return {.name = "text",
          .recognizes = [](const FileHead&) { return true; },
          .options = {option_choice("rows", "file", {"file", "paragraph", "line"},
                                    "part of a text file that becomes a row")},
          .read = read_text_file};
}

// Reads JSON lines: each row is one object (readers.h), and blank lines are skipped.

namespace {

void read_jsonl(const ReadJob& job, const RecordSink& sink) {
  const RowShapes shapes = record_keys(job.options);
  TextWindow text(open_bytes(job.file, job.task, job.at), kMaxRecord);
  std::string where = text.path() + " line ";
  const size_t number_at = where.size();
  while (const auto raw = text.next_line()) {
    const std::string_view line = without_end(*raw);
    if (text.line() % 256 == 0) check_task(job.task);
    if (is_blank(line)) continue;
    where.resize(number_at);
    where += std::to_string(text.line());
    std::optional<Record> record;
    try {
      record = parse_record(line, where, shapes);
    } catch (const Error& error) {
      if (!job.reject) throw;
      job.reject(error);
    }
    if (record) sink(std::move(*record));
  }
}

// Returns true for lines of objects in a file whose name ends with .txt or has no ending. Files
// with other endings, such as notebooks, may be texts that begin like this.
bool is_lines_of_objects(const FileHead& file) {
  const std::string name = file.name.substr(file.name.rfind('/') + 1);
  if (!name.ends_with(".txt") && name.find('.') != std::string::npos) return false;
  std::string_view head = file.head;
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  if (!head.starts_with('{')) return false;
  head.remove_prefix(1);
  head.remove_prefix(std::min(head.find_first_not_of(" \t"), head.size()));
  return head.starts_with('"');
}

} // namespace

Reader jsonl_reader() {
  return {.name = "jsonl",
          .endings = {".jsonl", ".ndjson", ".jsonlines"},
          .recognizes = is_lines_of_objects,
          .read = read_jsonl};
}

// Reads files of fortune(6): texts between lines that hold a single "%", with an index NAME.dat
// next to the file (strfile(1)).

namespace {

void read_fortunes(const ReadJob& job, const RecordSink& sink) {
  TextWindow text(open_bytes(job.file, job.task, job.at), kMaxRecord);
  LineGroup fortune(text, "fortune");
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(job.task);
    if (without_end(*raw) == "%")
      give_text(fortune.take(), sink);
    else
      fortune.add(*raw);
  }
  give_text(fortune.take(), sink);
}

} // namespace

Reader fortunes_reader() {
  return {.name = "fortunes",
          .recognizes = [](const FileHead& file) { return file_exists(file.name + ".dat"); },
          .read = read_fortunes};
}

} // namespace dllm::text
