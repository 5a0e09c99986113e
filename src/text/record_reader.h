#pragma once
// Reads the records of a file, or of every file of a folder.

#include "text/readers/readers.h"

#include <string>
#include <vector>

namespace dllm::text {

// A file as it was when it was read.
struct ReadFile {
  std::string path;
  FileStamp stamp;
};

// A file, or every file of a folder and its folders in order of name. Skipped there: hidden files, symbolic links,
// `.dat` indices of fortunes. Each is of the format of option `format`, or of the one detected for it. Fails with
// not_found, or as the reader of the format does. Files are read through a window: a row is in memory, never a whole
// file. Progress of `task` counts bytes on disk. Returns the files.
std::vector<ReadFile> read_records(const std::string& path, const Options& options, const ReaderTable& readers,
                                   Task* task, const RecordSink& sink);

} // namespace dllm::text
