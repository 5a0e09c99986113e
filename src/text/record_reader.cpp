#include "text/record_reader.h"

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"

#include <filesystem>
#include <utility>

namespace dllm::text {

namespace {

constexpr int kMaxFolders = 16;    // folders in folders
constexpr int64_t kRecordsUnchecked = 64; // between two checks of the task

ReadFile read_file(const std::string& path, const Options& options, const ReaderTable& readers, Task* task,
                   const RecordSink& sink) {
  check_task(task);
  const auto file = std::make_shared<const InputFile>(path);
  const std::string& format = options.str("format");
  const Reader& reader = format == "detect" ? readers.detect(file, task) : readers.find(format);
  if (reader.read == nullptr) {
    fail_with_hint("open it alone, or move it out of the folder", Code::invalid_argument,
                   "{} is of format {}, whose rows cannot be added to others", path, reader.name);
  }
  int64_t records = 0;
  reader.read({file, options, task}, [&](Record&& record) {
    if (records++ % kRecordsUnchecked == 0) check_task(task);
    sink(std::move(record));
  });
  return {path, file->stamp()};
}

void list_files(const std::string& path, int depth, std::vector<std::string>& out) {
  if (depth > kMaxFolders)
    fail(Code::invalid_argument, "{} lies deeper than {} folders", path, kMaxFolders);
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

std::vector<ReadFile> read_records(const std::string& path, const Options& options, const ReaderTable& readers,
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
    read.push_back(read_file(file, options, readers, task, sink));
    done += read.back().stamp.size;
    if (task != nullptr) task->set_progress(done, total);
  }
  return read;
}

} // namespace dllm::text
