// This file reads tables of texts, CSV (RFC 4180) and TSV. The first row has the names of the
// columns.
#include "base/ascii.h"
#include "base/error.h"
#include "base/task.h"
#include "text/readers/readers.h"
#include "text/unicode.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::text {

namespace {

constexpr int64_t kRowsUnchecked = 64; // between two checks of the task

using Fields = std::vector<std::string>;

// Reads the rows of a table. A row ends at \n, \r\n or \r outside of quotes. A field that begins
// with a quote ends at the next single quote; two quotes in it are one.
class CsvRows {
public:
  explicit CsvRows(TextWindow& text) : text_(text) {}

  // Reads the next row that is not an empty line; returns false at the end. Fails with data_loss
  // for a quote without its end, and with resource_exhausted for a row above kMaxRecord.
  bool next(Fields& fields);
  void set_delimiter(char delimiter) { delimiter_ = delimiter; }
  int64_t line() const { return row_line_; } // number of the line where the row begins, from 1
  // Returns what is wrong with the quotes of the row, or "".
  const std::string& fault() const { return fault_; }

private:
  // Appends the text up to the next of `stops`, or to the end of the file, and skips it.
  void take_until(std::string_view stops, std::string& field);
  void take_quoted(std::string& field);
  // Skips the end of a line; returns false where there is none.
  bool skip_line_end();
  void count(size_t bytes);
  char peek() { return text_.at_end() ? '\0' : text_.look(1)[0]; }

  TextWindow& text_;
  char delimiter_ = ',';
  int64_t line_ = 1, row_line_ = 1, bytes_ = 0;
  std::string fault_;
};

void CsvRows::count(size_t bytes) {
  bytes_ += static_cast<int64_t>(bytes);
  if (bytes_ > kMaxRecord) {
    fail_with_hint("look for a quote without its end in this row", Code::resource_exhausted,
                   "{} line {}: a row has more than {} bytes", text_.path(), row_line_, kMaxRecord);
  }
}

void CsvRows::take_until(std::string_view stops, std::string& field) {
  while (!text_.at_end()) {
    const std::string_view rest = text_.look(1);
    const size_t end = std::min(rest.find_first_of(stops), rest.size());
    count(end);
    field += rest.substr(0, end);
    text_.skip(static_cast<int64_t>(end));
    if (end < rest.size()) return;
  }
}

bool CsvRows::skip_line_end() {
  const std::string_view next = text_.look(2);
  if (!next.starts_with("\n") && !next.starts_with("\r")) return false;
  text_.skip(next.starts_with("\r\n") ? 2 : 1);
  ++line_;
  return true;
}

void CsvRows::take_quoted(std::string& field) {
  text_.skip(1); // the quote
  for (;;) {
    const size_t before = field.size();
    take_until("\"", field);
    line_ += std::count(field.begin() + static_cast<std::ptrdiff_t>(before), field.end(), '\n');
    if (text_.at_end()) {
      fail_with_hint("close the quote, or remove it", Code::data_loss,
                     "{} line {}: a quote of this row has no end", text_.path(), row_line_);
    }
    text_.skip(1);
    if (peek() != '"') return;
    text_.skip(1);
    field += '"';
  }
}

bool CsvRows::next(Fields& fields) {
  fields.clear();
  fault_.clear();
  bytes_ = 0;
  while (skip_line_end()) {
  }
  row_line_ = line_;
  if (text_.at_end()) return false;
  const std::string stops = {delimiter_, '\n', '\r'};
  for (;;) {
    std::string field;
    if (peek() == '"') {
      take_quoted(field);
      std::string rest;
      take_until(stops, rest);
      if (!rest.empty() && fault_.empty())
        fault_ = fmt::format("text follows the end quote of field {}", fields.size() + 1);
    } else {
      take_until(stops, field);
    }
    fields.push_back(std::move(field));
    if (text_.at_end() || skip_line_end()) return true;
    text_.skip(1); // the delimiter
    count(1);
  }
}

// Returns the delimiter: tabs in NAME.tsv, else the first of comma, semicolon and tab that the line
// with the names has.
char find_delimiter(const std::string& path, std::string_view head) {
  if (lower_case(path).ends_with(".tsv")) return '\t';
  head = head.substr(0, head.find_first_of("\r\n"));
  for (const char delimiter : {',', ';', '\t'}) {
    if (head.find(delimiter) != std::string_view::npos) return delimiter;
  }
  return ',';
}

// The columns from which rows are made. The columns of the shape's members come first, then the
// column of its optional member.
struct Columns {
  const RowShape* shape;
  std::vector<size_t> indices;
};

Columns choose_columns(const Fields& names, const RowShapes& shapes, const std::string& path) {
  const auto index = [&](int slot) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), shapes.name(slot)) -
                               names.begin());
  };
  const RowShape* shape = shapes.find([&](const RowShape& one, int slot) {
    // A cell is a text, so columns have no lists of ids or of turns.
    const bool is_list = one.kind == RowShape::Kind::ids || one.kind == RowShape::Kind::turns;
    return !is_list && index(slot) < names.size();
  });
  if (shape == nullptr)
    shapes.refuse(path, shown_columns(names), index(shapes.prompt()) < names.size());
  if (shape->kind == RowShape::Kind::pair) shapes.refuse_pair(path);
  Columns chosen{shape, {}};
  for (const int slot : shape->members) chosen.indices.push_back(index(slot));
  const int optional = shape->optional;
  if (optional >= 0 && index(optional) < names.size()) chosen.indices.push_back(index(optional));
  for (const size_t one : chosen.indices) {
    const auto after = names.begin() + static_cast<std::ptrdiff_t>(one) + 1;
    const auto same = std::find(after, names.end(), names[one]);
    if (same == names.end()) continue;
    fail_with_hint("rename one of them in the first line", Code::data_loss,
                   "{}: columns {} and {} are both named \"{}\"", path, one + 1,
                   same - names.begin() + 1, names[one]);
  }
  return chosen;
}

Record make_record(const Columns& columns, Fields& fields, const std::string& where) {
  std::vector<std::string> texts;
  for (const size_t index : columns.indices) {
    if (!is_valid_utf8(fields[index])) {
      fail_with_hint("convert the file: iconv -f WINDOWS-1252 -t UTF-8", Code::data_loss,
                     "{}: field {} is not UTF-8", where, index + 1);
    }
    texts.push_back(std::move(fields[index]));
  }
  return record_of_texts(*columns.shape, std::move(texts), where);
}

void read_csv(const ReadJob& job, const RecordSink& sink) {
  const RowShapes shapes = record_keys(job.options);
  TextWindow text(open_bytes(job.file, job.task, job.at), kMaxRecord);
  constexpr int64_t kHeader = 64 << 10; // bytes that are looked at for the delimiter
  CsvRows rows(text);
  rows.set_delimiter(find_delimiter(content_name(text.path()), text.look(kHeader)));
  Fields names, fields;
  if (!rows.next(names)) return;
  const Columns columns = choose_columns(names, shapes, text.path());
  for (int64_t row = 0; rows.next(fields); ++row) {
    if (row % kRowsUnchecked == 0) check_task(job.task);
    std::optional<Record> record;
    const std::string where = fmt::format("{} line {}", text.path(), rows.line());
    try {
      if (!rows.fault().empty()) fail(Code::data_loss, "{}: {}", where, rows.fault());
      if (fields.size() != names.size()) {
        fail_with_hint("put quotes around a field with a comma or a line break", Code::data_loss,
                       "{}: the row has {} fields, the table has {} columns", where, fields.size(),
                       names.size());
      }
      record = make_record(columns, fields, where);
    } catch (const Error& error) {
      if (!job.reject) throw;
      job.reject(error);
    }
    if (record) sink(std::move(*record));
  }
}

} // namespace

Reader csv_reader() {
  return {.name = "csv", .endings = {".csv", ".tsv"}, .read = read_csv};
}

} // namespace dllm::text
