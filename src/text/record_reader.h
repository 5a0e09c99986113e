#pragma once
// Reads the records of files on disk: text, fortunes, JSONL, and folders of them.

#include "base/input_file.h"
#include "text/record.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

enum class Format { detect, text, jsonl, fortunes };
// How a text file becomes rows. file: one text, in parts of some kilobytes that know they belong
// together.
enum class RowsOf { file, paragraph, line };

struct ReadSettings {
  Format format = Format::detect;
  RowsOf rows = RowsOf::file;
  RecordKeys keys;
};

using RecordSink = std::function<void(Record)>;

// A file as it was when it was read.
struct ReadFile {
  std::string path;
  FileStamp stamp;
};

constexpr int64_t kMaxRecord = int64_t{64} << 20; // bytes of a line, of a paragraph, of a fortune

// A file, or every file of a folder and its folders in order of name. Skipped there: hidden files,
// symbolic links,
// `.dat` indices of fortunes. Fails with not_found, or with data_loss naming file, line and what
// was expected, with resource_exhausted for a row above kMaxRecord. Files are read through a window:
// a row is in memory, never a whole file. Progress of `task` counts bytes. Answers the files.
std::vector<ReadFile> read_records(const std::string& path, const ReadSettings& settings, Task* task,
                  const RecordSink& sink);

} // namespace dllm::text
