#include "text/record_reader.h"

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "text/unicode.h"

#include <algorithm>
#include <filesystem>

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

// The line at `at`, without its end; moves `at` behind it.
std::string_view take_line(std::string_view text, size_t& at) {
  const size_t end = std::min(text.find('\n', at), text.size());
  std::string_view line = text.substr(at, end - at);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  at = end + 1;
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

void read_parts(std::string_view text, const RecordSink& sink) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = part_end(text, at);
    Record record;
    record.text = text.substr(at, end - at);
    record.starts = at == 0;
    record.ends = end == text.size();
    sink(std::move(record));
    at = end;
  }
}

void add_text(std::string_view text, const RecordSink& sink) {
  if (trim(text).empty()) return;
  Record record;
  record.text = text;
  sink(std::move(record));
}

void read_text_rows(std::string_view text, RowsOf rows, const RecordSink& sink) {
  if (rows == RowsOf::file) return read_parts(text, sink);
  size_t begin = 0, end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t line_at = at;
    const std::string_view line = take_line(text, at);
    if (rows == RowsOf::line) {
      add_text(line, sink);
    } else if (trim(line).empty()) {
      add_text(text.substr(begin, end - begin), sink);
      begin = end = std::min(at, text.size());
    } else {
      end = line_at + line.size();
    }
  }
  if (rows == RowsOf::paragraph) add_text(text.substr(begin, end - begin), sink);
}

// Texts between lines that hold a single "%" (strfile(1)).
void read_fortunes(std::string_view text, const RecordSink& sink) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t line_at = at;
    if (take_line(text, at) != "%") continue;
    add_text(text.substr(begin, line_at - begin), sink);
    begin = std::min(at, text.size());
  }
  add_text(text.substr(begin), sink);
}

void read_jsonl(std::string_view text, const std::string& path, const RecordKeys& keys,
                const RecordSink& sink) {
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = take_line(text, at);
    ++number;
    if (trim(line).empty()) continue;
    sink(parse_record(line, fmt::format("{} line {}", path, number), keys));
  }
}

Format detect(const std::string& path) {
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return Format::jsonl;
  if (file_exists(path + ".dat")) return Format::fortunes;
  return Format::text;
}

void read_file(const std::string& path, const ReadSettings& settings, Task* task,
               const RecordSink& sink) {
  check_task(task);
  if (file_size(path) == 0) return;
  const Bytes file = map_file(path);
  int64_t records = 0;
  const RecordSink checked = [&](Record record) {
    if (records++ % kRecords == 0) check_task(task);
    sink(std::move(record));
  };
  const Format format = settings.format == Format::detect ? detect(path) : settings.format;
  switch (format) {
  case Format::jsonl: return read_jsonl(file.text(), path, settings.keys, checked);
  case Format::fortunes: return read_fortunes(file.text(), checked);
  default: return read_text_rows(file.text(), settings.rows, checked);
  }
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

void read_records(const std::string& path, const ReadSettings& settings, Task* task,
                  const RecordSink& sink) {
  std::vector<std::string> files;
  if (is_directory(path)) {
    list_files(path, 0, files);
    if (files.empty()) fail(Code::not_found, "{} holds no files to read", path);
  } else {
    files.push_back(path);
  }
  int64_t total = 0, done = 0;
  for (const std::string& file : files) total += file_size(file);
  for (const std::string& file : files) {
    read_file(file, settings, task, sink);
    done += file_size(file);
    if (task != nullptr) task->set_progress(done, total);
  }
}

} // namespace dllm::text
