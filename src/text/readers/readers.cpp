#include "text/readers/readers.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/files.h"
#include "base/named_table.h"
#include "base/task.h"
#include "text/data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace dllm::text {

// One function per format, each in the file of the format.
Reader token_file_reader();
Reader parquet_reader();
Reader jsonl_reader();
Reader json_reader();
Reader csv_reader();
Reader fortunes_reader();
Reader text_reader();

const ReaderTable& record_readers() {
  // The order of detection. `text` takes files that no other format recognizes.
  static const ReaderTable table({
      token_file_reader(),
      parquet_reader(),
      jsonl_reader(),
      json_reader(),
      csv_reader(),
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

const Reader& ReaderTable::detect(const std::shared_ptr<const InputFile>& file,
                                  const Task* task) const {
  const std::string& path = file->path();
  FileHead seen{is_gzip(*file) ? content_name(path) : path, {}};
  const std::string name = lower_case(seen.name);
  std::string head(static_cast<size_t>(kHeadBytes), '\0');
  head.resize(static_cast<size_t>(open_bytes(file, task)->read(head.data(), kHeadBytes)));
  seen.head = head;
  for (const Reader& reader : readers_) {
    const bool has_ending =
        std::any_of(reader.endings.begin(), reader.endings.end(),
                    [&](const std::string& ending) { return name.ends_with(ending); });
    const bool fits = reader.recognizes != nullptr && reader.recognizes(seen);
    if (has_ending || fits) return reader;
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

// Returns true for a link that is not read: its file is below `top` under its own name, or it leads
// to a folder, which may contain the link, or to nothing. The cache of a hub has a link for each
// file of a data set.
bool is_second_name(const std::string& path, const std::filesystem::path& top) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return false;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error || std::filesystem::is_directory(target, error)) return true;
  return target.native().starts_with(top.native() + "/");
}

// Returns true for the index of a file of fortunes: NAME.dat next to NAME.
bool is_index(const std::string& path) {
  constexpr std::string_view kEnding = ".dat";
  return path.ends_with(kEnding) && file_exists(path.substr(0, path.size() - kEnding.size()));
}

void list_files(const std::string& path, int depth, const std::filesystem::path& top,
                std::vector<std::string>& out) {
  if (depth > kMaxFolders)
    fail(Code::invalid_argument, "{} is deeper than {} folders", path, kMaxFolders);
  for (const std::string& name : list_directory(path)) {
    const std::string inner = join_path(path, name);
    std::error_code ignored;
    if (name[0] == '.' || is_index(inner) || is_second_name(inner, top)) continue;
    if (is_directory(inner)) {
      list_files(inner, depth + 1, top, out);
    } else if (std::filesystem::is_regular_file(inner, ignored)) {
      out.push_back(inner);
    }
  }
}

} // namespace

std::vector<std::string> list_record_files(const std::string& path) {
  if (!is_directory(path)) return {path};
  std::vector<std::string> files;
  std::error_code ignored;
  list_files(path, 0, std::filesystem::canonical(path, ignored), files);
  if (files.empty()) fail(Code::not_found, "{} holds no files to read", path);
  return files;
}

void ReadProgress::report(Task* task, int64_t more) const {
  if (task != nullptr) task->set_progress(done + more + (loaded ? loaded() : 0), total);
}

void read_record_file(const std::shared_ptr<const InputFile>& file, const ReadSettings& settings,
                      ReadProgress& progress, const RecordSink& sink) {
  Task* task = settings.task;
  check_task(task);
  const std::string& format = settings.options.str("format");
  const Reader& reader =
      format == "detect" ? settings.readers.detect(file, task) : settings.readers.find(format);
  int64_t records = 0, at = 0;
  const RecordSink counted = [&](Record&& record) {
    if (records++ % kRecordsUnchecked == 0) {
      check_task(task);
      progress.report(task, at);
    }
    sink(std::move(record));
  };
  if (reader.read == nullptr)
    give_tokens(file, reader, settings, counted);
  else
    reader.read({file, settings.options, task, settings.reject, &at}, counted);
  progress.done += file->size();
  progress.report(task, 0);
}

std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings,
                                   const RecordSink& sink) {
  const std::vector<std::string> files = list_record_files(path);
  ReadProgress progress;
  for (const std::string& file : files) progress.total += file_stamp(file).size;
  std::vector<ReadFile> read;
  for (const std::string& path : files) {
    const auto file = std::make_shared<const InputFile>(path);
    read_record_file(file, settings, progress, sink);
    read.push_back({path, file->stamp()});
  }
  return read;
}

} // namespace dllm::text
