#pragma once
// Reads the records of files on disk: text, fortunes, JSONL, and folders of them.

#include "text/record.h"

#include <functional>
#include <string>

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

// A file, or every file of a folder and its folders in order of name. Skipped there: hidden files,
// symbolic links,
// `.dat` indices of fortunes. Fails with not_found, or with data_loss naming file, line and what
// was expected. Progress of `task` counts bytes.
void read_records(const std::string& path, const ReadSettings& settings, Task* task,
                  const RecordSink& sink);

} // namespace dllm::text
