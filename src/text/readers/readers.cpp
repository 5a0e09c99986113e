#include "text/readers/readers.h"

#include "base/error.h"
#include "base/files.h"
#include "base/named_table.h"
#include "base/task.h"
#include "text/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace dllm::text {

// One function per format, each in the file of the format.
Reader token_file_reader();
Reader parquet_reader();
Reader jsonl_reader();
Reader fortunes_reader();
Reader text_reader();

const ReaderTable& record_readers() {
  // The order of detection. `text` takes files that no other format recognizes.
  static const ReaderTable table({
      token_file_reader(),
      parquet_reader(),
      jsonl_reader(),
      fortunes_reader(),
      text_reader(),
  });
  return table;
}

std::vector<std::string> ReaderTable::names() const {
  return names_of(readers_, &Reader::name);
}

const Reader& ReaderTable::find(std::string_view name) const {
  return need_named(readers_, name, &Reader::name, {"format of records"});
}

namespace {

constexpr const char* kSame = "; to read it as plain text all the same: --dataset.format text";

std::string_view without_space(std::string_view text) {
  while (!text.empty() && is_blank(text.substr(0, 1))) text.remove_prefix(1);
  return text;
}

// Returns true for an array of objects, with any file name.
bool is_json_array(std::string_view head) {
  head = without_space(head);
  if (!head.starts_with("[")) return false;
  head = without_space(head.substr(1));
  if (!head.starts_with("{")) return false;
  return without_space(head.substr(1)).starts_with("\"");
}

// Fails for tables and JSON arrays, which are not supported: read as text they would be learned
// with braces and commas.
void refuse_tables(const FileHead& file) {
  std::string_view head = file.head;
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  const size_t slash = file.name.rfind('/');
  const std::string name = slash == std::string::npos ? file.name : file.name.substr(slash + 1);
  const std::string stem = name.substr(0, name.rfind('.'));
  if (is_json_array(head)) {
    fail_with_hint(
        fmt::format("make JSON lines of it: jq -c '.[]' {} > {}.jsonl{}", name, stem, kSame),
        Code::invalid_argument, "{} is an array in JSON, not one object a line", file.name);
  }
  if (file.name.ends_with(".json") && without_space(head).starts_with("{")) {
    fail_with_hint(fmt::format("if it has one object per line, give --dataset.format jsonl; else "
                               "run jq -c . {} > {}.jsonl{}",
                               name, stem, kSame),
                   Code::invalid_argument, "{} is JSON, not text", file.name);
  }
  const bool tabs = file.name.ends_with(".tsv");
  if (!tabs && !file.name.ends_with(".csv")) return;
  fail_with_hint(fmt::format("make JSON lines of it: python3 -c 'import csv, json, sys; "
                             "[print(json.dumps(row)) for row in "
                             "csv.DictReader(sys.stdin{})]' < {} > {}.jsonl{}",
                             tabs ? ", delimiter=\"\\t\"" : "", name, stem, kSame),
                 Code::invalid_argument, "{} is a table, not text", file.name);
}

} // namespace

const Reader& ReaderTable::detect(const std::shared_ptr<const InputFile>& file,
                                  const Task* task) const {
  const std::string& path = file->path();
  FileHead seen{is_gzip(*file) ? content_name(path) : path, {}};
  std::string head(static_cast<size_t>(kHeadBytes), '\0');
  head.resize(static_cast<size_t>(open_bytes(file, task)->read(head.data(), kHeadBytes)));
  seen.head = head;
  for (const Reader& reader : readers_) {
    const bool has_ending =
        std::any_of(reader.endings.begin(), reader.endings.end(),
                    [&](const std::string& ending) { return seen.name.ends_with(ending); });
    const bool fits = reader.recognizes != nullptr && reader.recognizes(seen);
    if (!has_ending && !fits) continue;
    if (!has_ending && reader.name == "text") refuse_tables(seen); // which takes every file
    return reader;
  }
  fail_with_hint(fmt::format("choose one with the option format: {}", fmt::join(names(), ", ")),
                 Code::invalid_argument, "the format of {} is unknown", path);
}

OptionSpec format_option(const ReaderTable& readers) {
  std::vector<std::string> choices = readers.names();
  std::reverse(choices.begin(), choices.end()); // the commonest first
  choices.insert(choices.begin(), "detect");
  return option_choice("format", "detect", std::move(choices),
                       "format of the files; detect: by name, index file and first bytes");
}

void give_text(std::string_view text, const RecordSink& sink) {
  if (is_blank(text)) return;
  Record record;
  record.text = text;
  sink(std::move(record));
}

namespace {

constexpr int kMaxFolders = 16;           // folders in folders
constexpr int64_t kRecordsUnchecked = 64; // between two checks of the task

// Passes the rows of a token file as records, which already have their end tokens.
void give_tokens(const std::shared_ptr<const InputFile>& file, const Reader& reader,
                 const ReadSettings& settings, const RecordSink& sink) {
  if (!settings.check_tokens) {
    fail_with_hint("open only this file, or move it out of the folder", Code::invalid_argument,
                   "{} is of format {}, whose rows cannot be added to others", file->path(),
                   reader.name);
  }
  TokenFileInfo info;
  const TokenRows rows = reader.open(file, info, settings.task);
  settings.check_tokens(file->path(), info);
  rows.scan([&](int64_t, const TokenRow& row) {
    Record record;
    record.kind = Record::Kind::ids;
    record.ids.assign(row.ids.begin(), row.ids.end());
    record.keep.assign(row.keep.begin(), row.keep.end());
    record.starts = row.starts;
    record.ends = false; // no eos is added
    sink(std::move(record));
  });
}

void list_files(const std::string& path, int depth, std::vector<std::string>& out) {
  if (depth > kMaxFolders)
    fail(Code::invalid_argument, "{} is deeper than {} folders", path, kMaxFolders);
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

std::vector<std::string> list_record_files(const std::string& path) {
  if (!is_directory(path)) return {path};
  std::vector<std::string> files;
  list_files(path, 0, files);
  if (files.empty()) fail(Code::not_found, "{} holds no files to read", path);
  return files;
}

ReadFile read_record_file(const std::string& path, const ReadSettings& settings,
                          ReadProgress& progress, const RecordSink& sink) {
  Task* task = settings.task;
  check_task(task);
  const auto file = std::make_shared<const InputFile>(path);
  const std::string& format = settings.options.str("format");
  const Reader& reader =
      format == "detect" ? settings.readers.detect(file, task) : settings.readers.find(format);
  const auto report = [&](int64_t done) {
    if (task != nullptr) task->set_progress(progress.done + done, progress.total);
  };
  int64_t records = 0, at = 0;
  const RecordSink counted = [&](Record&& record) {
    if (records++ % kRecordsUnchecked == 0) {
      check_task(task);
      report(at);
    }
    sink(std::move(record));
  };
  if (reader.read == nullptr)
    give_tokens(file, reader, settings, counted);
  else
    reader.read({file, settings.options, task, settings.reject, &at}, counted);
  progress.done += file->size();
  report(0);
  return {path, file->stamp()};
}

std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings,
                                   const RecordSink& sink) {
  const std::vector<std::string> files = list_record_files(path);
  ReadProgress progress;
  for (const std::string& file : files) progress.total += file_stamp(file).size;
  std::vector<ReadFile> read;
  for (const std::string& file : files)
    read.push_back(read_record_file(file, settings, progress, sink));
  return read;
}

} // namespace dllm::text
