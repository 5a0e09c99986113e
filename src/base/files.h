#pragma once
// Files: whole reads, and writes that survive a kill at any moment. Errors name the path.

#include "base/bytes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {

class Task;

bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_link(const std::string& path);      // a symbolic link, wherever it leads
int64_t file_size(const std::string& path); // not_found when there is none

// Memory-maps a regular file, read-only. The bytes stay valid as long as a copy of the result lives. Only for files
// that nothing cuts (shared libraries, fixtures): touching a removed page is SIGBUS. input_file.h reads.
Bytes map_file(const std::string& path);
// Whole regular file; refuses more than `limit` bytes before anything is allocated. input_file.h has the errors.
Bytes read_bytes(const std::string& path, int64_t limit = int64_t{1} << 30);
std::string read_text(const std::string& path, int64_t limit = int64_t{1} << 30);

// Writes `path`.partial, fsyncs, renames over `path`, fsyncs the folder: a reader sees old or new, never half.
void write_file_atomic(const std::string& path, std::string_view content);
// Makes a file's or folder's content durable.
void sync_path(const std::string& path);
void make_directories(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
// Exchanges two existing paths of one file system in one step. False where the file system cannot.
bool swap_paths(const std::string& a, const std::string& b);
// Removes a file or a folder with all it holds; nothing there is fine.
void remove_all(const std::string& path);
std::vector<std::string> list_directory(const std::string& path); // names, sorted
std::string join_path(std::string_view folder, std::string_view name);
std::string parent_path(const std::string& path);
std::string file_name(const std::string& path);

// A seam for tests: called with "create", "write", "sync", "rename", "swap" or "remove" and the path right before the
// disk is changed, so that a test can die at any of them. Null: none.
using FileHook = void (*)(const char* operation, const std::string& path);
void set_file_hook(FileHook hook);

// An open file that is written front to back and made durable on close(). The destructor closes without fsync. What
// lies at the path is replaced, but never written to through a link.
class FileWriter {
public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Large data in pieces, between which the task is checked; the disk works on a piece while the next is written, so
  // that close() waits for the last one only.
  void write(const void* data, size_t size, const Task* task = nullptr);
  void close(); // flush, fsync, close
  int64_t written() const { return written_; }

private:
  void flush_behind();

  std::string path_;
  int fd_ = -1;
  int64_t written_ = 0;
  int64_t flushing_ = 0; // bytes [flushed_, flushing_) are on their way to the disk
  int64_t flushed_ = 0;
};

} // namespace dllm
