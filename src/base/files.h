#pragma once
// Bytes and files: whole reads, and writes that survive a kill at any moment; files that a caller named, opened for reading,
// and sources; files that grow by whole records. Errors name the path.
//
// Paths may be places in an object store ("s3://bucket/folder/name", base/store/objects.h) for the functions that look and
// read: file_exists, is_directory, file_size, list_directory, read_bytes, read_text, open_content, open_source. Those that
// write, map or keep a file open refuse them.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {

// A read-only run of bytes that keeps its owner (a mapped file, a host's buffer, a string) alive.
class Bytes {
public:
  Bytes() = default;
  Bytes(const void* data, size_t size, std::shared_ptr<const void> owner)
      : data_(static_cast<const std::byte*>(data)), size_(size), owner_(std::move(owner)) {}

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // REQUIRES: begin + size <= this->size(). The part shares the owner.
  Bytes part(size_t begin, size_t size) const { return {data_ + begin, size, owner_}; }

private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

class Task;

bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_link(const std::string& path);      // a symbolic link, wherever it leads
int64_t file_size(const std::string& path); // not_found when there is none

// Memory-maps a regular file, read-only. The bytes stay valid as long as a copy of the result lives. Only for files
// that nothing cuts (shared libraries, fixtures): touching a removed page is SIGBUS. InputFile reads.
Bytes map_file(const std::string& path);
// Whole regular file; refuses more than `limit` bytes before anything is allocated. Fails as InputFile does.
Bytes read_bytes(const std::string& path, int64_t limit = int64_t{1} << 30);
std::string read_text(const std::string& path, int64_t limit = int64_t{1} << 30);

// 16 random hex digits of the system, a part of a file's name: equal ones by chance alone. Never a number that a model sees.
std::string unique_word();
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

// Files that a caller named, opened for reading, and sources: where the files of a model or tokenizer come from (a folder,
// one file, or a host's memory).

// Identifies one state of a file: equal as long as nothing writes to it.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0;
  int64_t seconds = 0, nanoseconds = 0; // of the last write
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Fails as InputFile does.
FileStamp file_stamp(const std::string& path);
// data_loss naming the path when it leads to other bytes than those of `stamp`. A removed file counts as unchanged.
void check_stamp(const std::string& path, const FileStamp& stamp);

// An open regular file. What a path leads to is looked at before it is opened: a pipe, a device or a socket would hang or
// never end, a folder has no bytes. Bytes are read, never mapped: a file that shrinks under a mapping ends the process
// with SIGBUS. Reads may run together.
class InputFile {
public:
  // not_found, permission_denied, or invalid_argument for what is no regular file.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return stamp_.size; }
  const FileStamp& stamp() const { return stamp_; }
  int descriptor() const { return fd_; } // open as long as this
  // REQUIRES: 0 <= at, at + size <= size(). data_loss when the file was written to or cut since it was opened.
  void read(int64_t at, void* to, int64_t size) const;
  // The same into memory of its own, aligned for any element type.
  Bytes read(int64_t at, int64_t size) const;

private:
  std::string path_;
  int fd_ = -1;
  FileStamp stamp_;
};

// Bytes that are read piece by piece: of a file, or of a host's memory.
class Content {
public:
  virtual ~Content() = default;
  virtual int64_t size() const = 0;
  // Bytes that are best read at once, between two checks of a task.
  virtual int64_t piece() const { return int64_t{4} << 20; }
  // REQUIRES: 0 <= at, at + size <= size(). A view of memory, a copy of a file's bytes.
  virtual Bytes read(int64_t at, int64_t size) const = 0;
  // The same into memory of the caller.
  virtual void read_to(int64_t at, int64_t size, void* to) const = 0;
};
using ContentRef = std::shared_ptr<const Content>;

ContentRef open_content(const std::string& path);
ContentRef memory_content(Bytes bytes);

// Where the files of a model or tokenizer come from: a folder, one file, or a host's memory.

class Source {
public:
  virtual ~Source() = default;
  // True when `name` ("config.json") can be opened.
  virtual bool has(const std::string& name) const = 0;
  // The whole file. Fails with not_found naming the source and the file, with resource_exhausted above 1 GiB.
  virtual Bytes open(const std::string& name) const = 0;
  // The same to read piece by piece, of any size: weights.
  virtual ContentRef content(const std::string& name) const = 0;
  virtual std::vector<std::string> names() const = 0; // sorted
  virtual std::string describe() const = 0;           // for error texts: the path, or "memory"
};

// A folder, or a single file (then the source holds that one name).
std::unique_ptr<Source> open_source(const std::string& path);

class MemorySource final : public Source {
public:
  // copy: the bytes are copied; else they must outlive the source. Refuses empty and repeated names.
  void add(const std::string& name, const void* data, size_t size, bool copy);

  bool has(const std::string& name) const override;
  Bytes open(const std::string& name) const override;
  ContentRef content(const std::string& name) const override { return memory_content(open(name)); }
  std::vector<std::string> names() const override;
  std::string describe() const override { return "memory"; }

private:
  std::map<std::string, Bytes> files_;
};

// Writing that cannot end the process, files that grow by whole records, and a lock for folders that are written to.

// write(2), but a file beyond the size limit is EFBIG and a closed pipe EPIPE where the system would send SIGXFSZ or
// SIGPIPE. Signals belong to the host: they are held back in this thread alone, and only the one that this write
// caused is taken.
ssize_t write_without_signal(int fd, const void* data, size_t size);

// A file that records are appended to. Not synchronised.
class AppendFile {
public:
  // append: what is there stays; else it is emptied. Takes a regular file or a device (/dev/stderr), no pipe: one
  // that nothing reads would hang the writer. permission_denied, not_found, invalid_argument.
  AppendFile(const std::string& path, bool append);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  // Writes the front of `data` and returns how many bytes were written: all of them, or less with errno set.
  size_t write(std::string_view data);

private:
  std::string path_;
  int fd_ = -1;
};

// An advisory lock on a folder (flock): of two saves into one place the second waits for the first.

class Task;

class FolderLock {
public:
  // Waits until no other holder in this or another process is left, and checks the task meanwhile. unavailable after
  // 30 seconds. A folder that cannot be locked (a file system without flock, one we may not read) is not locked.
  explicit FolderLock(const std::string& folder, const Task* task = nullptr);
  ~FolderLock(); // a killed process gives its locks up as well
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // False when the former holder renamed or removed the folder: what is at its path now, if anything, is not locked.
  bool at_path() const;

private:
  std::string path_;
  int fd_ = -1;
};

} // namespace dllm
