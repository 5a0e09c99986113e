#include "text/record_reader.h"

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "text/text_window.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace dllm::text {

namespace {

constexpr size_t kPart = 4096; // bytes of a part of a long text
constexpr int kMaxDepth = 16;  // folders in folders
constexpr int64_t kRecords = 64; // between two checks of the task

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || (c >= 9 && c <= 13); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// A raw line without its end.
std::string_view without_end(std::string_view line) {
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Where a part that begins at `begin` ends: after a blank line, else after a line, else after a
// character.
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
    record.ends = text.left() == 0;
    sink(std::move(record));
  }
}

void add_text(std::string_view text, const RecordSink& sink) {
  if (trim(text).empty()) return;
  Record record;
  record.text = text;
  sink(std::move(record));
}

// Lines that belong together, up to kMaxRecord bytes.
class Gathered {
public:
  Gathered(const TextWindow& text, const char* what) : text_(text), what_(what) {}
  void add(std::string_view raw) {
    if (static_cast<int64_t>(gathered_.size() + raw.size()) > kMaxRecord) {
      fail_with_hint("cut it, or choose other rows", Code::resource_exhausted,
                     "{} line {}: a {} has more than {} bytes", text_.path(), text_.line(), what_,
                     kMaxRecord);
    }
    gathered_ += raw;
  }
  std::string take() { return std::exchange(gathered_, {}); }

private:
  const TextWindow& text_;
  const char* what_;
  std::string gathered_;
};

void read_lines(TextWindow& text, Task* task, const RecordSink& sink) {
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(task);
    add_text(without_end(*raw), sink);
  }
}

// A paragraph ends at a blank line, and before the end of its own last line.
void read_paragraphs(TextWindow& text, Task* task, const RecordSink& sink) {
  Gathered paragraph(text, "paragraph");
  std::string end; // of the line before
  while (const auto raw = text.next_line()) {
    if (text.line() % 256 == 0) check_task(task);
    const std::string_view line = without_end(*raw);
    if (trim(line).empty()) {
      add_text(paragraph.take(), sink);
      end.clear();
      continue;
    }
    paragraph.add(end);
    paragraph.add(line);
    end = raw->substr(line.size());
  }
  add_text(paragraph.take(), sink);
}

void read_text_rows(TextWindow& text, RowsOf rows, Task* task, const RecordSink& sink) {
  switch (rows) {
  case RowsOf::file: return read_parts(text, sink);
  case RowsOf::line: return read_lines(text, task, sink);
  case RowsOf::paragraph: return read_paragraphs(text, task, sink);
  }
}

// Texts between lines that hold a single "%" (strfile(1)).
void read_fortunes(TextWindow& text, const RecordSink& sink) {
  Gathered fortune(text, "fortune");
  while (const auto raw = text.next_line()) {
    if (without_end(*raw) == "%")
      add_text(fortune.take(), sink);
    else
      fortune.add(*raw);
  }
  add_text(fortune.take(), sink);
}

void read_jsonl(TextWindow& text, const RecordKeys& keys, Task* task, const RecordSink& sink) {
  while (const auto raw = text.next_line()) {
    const std::string_view line = without_end(*raw);
    if (trim(line).empty()) continue;
    if (text.line() % 256 == 0) check_task(task);
    sink(parse_record(line, fmt::format("{} line {}", text.path(), text.line()), keys));
  }
}

Format detect(const std::string& path) {
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return Format::jsonl;
  if (file_exists(path + ".dat")) return Format::fortunes;
  return Format::text;
}

ReadFile read_file(const std::string& path, const ReadSettings& settings, Task* task,
                   const RecordSink& sink) {
  check_task(task);
  TextWindow text(path, kMaxRecord);
  int64_t records = 0;
  const RecordSink checked = [&](Record record) {
    if (records++ % kRecords == 0) check_task(task);
    sink(std::move(record));
  };
  const Format format = settings.format == Format::detect ? detect(path) : settings.format;
  switch (format) {
  case Format::jsonl: read_jsonl(text, settings.keys, task, checked); break;
  case Format::fortunes: read_fortunes(text, checked); break;
  default: read_text_rows(text, settings.rows, task, checked); break;
  }
  return {path, text.stamp()};
}

void list_files(const std::string& path, int depth, std::vector<std::string>& out) {
  if (depth > kMaxDepth)
    fail(Code::invalid_argument, "{} lies deeper than {} folders", path, kMaxDepth);
  for (const std::string& name : list_directory(path)) {
    const std::string inner = join_path(path, name);
    std::error_code ignored;
    if (name[0] == '.' || name.ends_with(".dat") || std::filesystem::is_symlink(inner, ignored))
      continue;
    if (is_directory(inner)) {
      list_files(inner, depth + 1, out);
    } else if (std::filesystem::is_regular_file(inner, ignored)) {
      out.push_back(inner);
    }
  }
}

} // namespace

std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings,
                                   Task* task, const RecordSink& sink) {
  std::vector<std::string> files;
  if (is_directory(path)) {
    list_files(path, 0, files);
    if (files.empty()) fail(Code::not_found, "{} holds no files to read", path);
  } else {
    files.push_back(path);
  }
  int64_t total = 0, done = 0;
  for (const std::string& file : files) total += file_stamp(file).size;
  std::vector<ReadFile> read;
  for (const std::string& file : files) {
    read.push_back(read_file(file, settings, task, sink));
    done += read.back().stamp.size;
    if (task != nullptr) task->set_progress(done, total);
  }
  return read;
}

} // namespace dllm::text
