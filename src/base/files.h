#pragma once
// Reads and writes whole files, parts of files, files that grow by records, and sources of model
// files. Atomic writes survive a kill at any moment. Errors name the path.
//
// These functions also accept a path in an object store ("s3://bucket/folder/name",
// base/store/objects.h): file_exists, is_directory, file_size, list_directory, read_bytes,
// read_text, open_content, open_source. Functions that write, map or keep a file open refuse such a
// path.

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

  // Returns a part that shares the owner. REQUIRES: begin + size <= this->size().
  Bytes part(size_t begin, size_t size) const { return {data_ + begin, size, owner_}; }

private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

class Task;

bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
bool is_link(const std::string& path);      // true for a symbolic link, also a dangling one
int64_t file_size(const std::string& path); // in bytes; fails with not_found

// Memory-maps a regular file, read-only. The bytes stay valid as long as a copy of the result
// lives. Map only files that no process truncates (shared libraries, fixtures), because access to a
// page that was cut off raises SIGBUS. InputFile reads any other file.
Bytes map_file(const std::string& path);
// Reads a whole regular file. Fails with resource_exhausted, before it allocates memory, if the
// file has more than `limit` bytes; else as InputFile does.
Bytes read_bytes(const std::string& path, int64_t limit = int64_t{1} << 30);
std::string read_text(const std::string& path, int64_t limit = int64_t{1} << 30);

// Returns 16 random hex digits from the operating system, for unique file names. Models never see
// these digits.
std::string unique_word();
// Writes `path`.partial, fsyncs it, renames it over `path` and fsyncs the folder. A reader sees the
// old content or the new content, never a part of it.
void write_file_atomic(const std::string& path, std::string_view content);
// Makes the content of a file or folder durable (fsync).
void sync_path(const std::string& path);
void make_directories(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
// Exchanges two existing paths of one file system in one step. Returns false if the file system
// cannot do that.
bool swap_paths(const std::string& a, const std::string& b);
// Removes a file, or a folder with its content. A missing path is not an error.
void remove_all(const std::string& path);
// Returns the names in a folder, sorted.
std::vector<std::string> list_directory(const std::string& path);
std::string join_path(std::string_view folder, std::string_view name);
std::string parent_path(const std::string& path);
std::string file_name(const std::string& path);

// A hook for tests. The library calls it right before each change of the disk, so that a test can
// end the process there. operation: "create", "write", "sync", "rename", "swap" or "remove". A null
// hook is never called.
using FileHook = void (*)(const char* operation, const std::string& path);
void set_file_hook(FileHook hook);

// A file that is written from front to back and made durable by close(). The destructor closes it
// without fsync. The constructor empties an existing file and refuses a symbolic link.
class FileWriter {
public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Writes in pieces and checks the task before each. The disk stores a piece while the next one is
  // written, so close() waits for the last piece only.
  void write(const void* data, size_t size, const Task* task = nullptr);
  void close(); // flush, fsync, close
  int64_t written() const { return written_; }

private:
  void flush_behind();

  std::string path_;
  int fd_ = -1;
  int64_t written_ = 0;
  int64_t flushing_ = 0; // the disk is storing bytes [flushed_, flushing_)
  int64_t flushed_ = 0;
};

// Identifies one state of a file. Two stamps of a path are equal if no process wrote to the file.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0;
  int64_t seconds = 0, nanoseconds = 0; // time of the last write
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Returns the stamp of a regular file. Fails as InputFile does.
FileStamp file_stamp(const std::string& path);
// Fails with data_loss if the file at `path` changed since `stamp` was taken. A removed file counts
// as unchanged.
void check_stamp(const std::string& path, const FileStamp& stamp);

// Bytes of a file or of a host's memory that are read piece by piece.
class Content {
public:
  virtual ~Content() = default;
  virtual int64_t size() const = 0;
  // Returns the preferred size of one read in bytes. Readers check their task between reads.
  virtual int64_t piece() const { return int64_t{4} << 20; }
  // Returns a view of the host's memory, or a copy of the file's bytes.
  // REQUIRES: 0 <= at, at + size <= size().
  virtual Bytes read(int64_t at, int64_t size) const = 0;
  // Copies the bytes into memory of the caller.
  virtual void read_to(int64_t at, int64_t size, void* to) const = 0;
  // Says that [begin, end) is read next from front to back, perhaps in turn with other ranges. A
  // content that is loaded from a server loads no more than that ahead.
  virtual void announce(int64_t /*begin*/, int64_t /*end*/) const {}
};
using ContentRef = std::shared_ptr<const Content>;

// A regular file that is open for reading. Several threads may read at once. The constructor checks
// the type before it opens the file, because opening or reading a pipe, device or socket may never
// return. Bytes are read, never mapped: if a mapped file shrinks, SIGBUS ends the process.
class InputFile {
public:
  // Fails with not_found, permission_denied, or with invalid_argument if the path is not a regular
  // file.
  explicit InputFile(const std::string& path);
  // A file of a server, which is read through `content`. Its stamp has the size alone.
  InputFile(std::string name, ContentRef content);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return stamp_.size; }
  const FileStamp& stamp() const { return stamp_; }
  int descriptor() const { return fd_; } // open until this object is destroyed; -1: of a server
  // Copies bytes [at, at + size) to `to`. Fails with data_loss if the file changed since it was
  // opened. REQUIRES: 0 <= at, at + size <= size().
  void read(int64_t at, void* to, int64_t size) const;
  // Returns the bytes in new memory that is aligned for any element type.
  Bytes read(int64_t at, int64_t size) const;
  // As Content::announce.
  void announce(int64_t begin, int64_t end) const;

private:
  std::string path_;
  int fd_ = -1;
  ContentRef content_; // null for a file of this machine
  FileStamp stamp_;
};

ContentRef open_content(const std::string& path);
ContentRef memory_content(Bytes bytes);

// The files of a model or tokenizer, by name: a folder, a single file, or a host's memory.
class Source {
public:
  virtual ~Source() = default;
  // Returns true if `name` ("config.json") can be opened.
  virtual bool has(const std::string& name) const = 0;
  // Returns the whole file. Fails with not_found, naming the source and the file, or with
  // resource_exhausted above 1 GiB.
  virtual Bytes open(const std::string& name) const = 0;
  // Opens a file of any size (weights) for reading piece by piece.
  virtual ContentRef content(const std::string& name) const = 0;
  virtual std::vector<std::string> names() const = 0; // sorted
  virtual std::string describe() const = 0;           // for error texts: the path, or "memory"
};

// Opens a folder, or a single file as a source with one name.
std::unique_ptr<Source> open_source(const std::string& path);

class MemorySource final : public Source {
public:
  // Adds a file. copy: the bytes are copied; false: they must outlive the source. Refuses empty and
  // repeated names.
  void add(const std::string& name, const void* data, size_t size, bool copy);

  bool has(const std::string& name) const override;
  Bytes open(const std::string& name) const override;
  ContentRef content(const std::string& name) const override { return memory_content(open(name)); }
  std::vector<std::string> names() const override;
  std::string describe() const override { return "memory"; }

private:
  std::map<std::string, Bytes> files_;
};

// Calls write(2) without raising SIGXFSZ or SIGPIPE. A file beyond the size limit fails with EFBIG,
// a closed pipe with EPIPE. The function blocks both signals in this thread during the call. It
// consumes only a signal that the call caused, because signals belong to the host.
ssize_t write_without_signal(int fd, const void* data, size_t size);

// A file to which records are appended. One thread at a time.
class AppendFile {
public:
  // Opens a regular file or a character device (/dev/stderr). append: existing content stays;
  // false: the file is emptied. Fails with permission_denied, with not_found, or with
  // invalid_argument for a pipe, because a pipe without a reader would block the writer.
  AppendFile(const std::string& path, bool append);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  // Returns the number of bytes written. If it is less than data.size(), errno is set.
  size_t write(std::string_view data);

private:
  std::string path_;
  int fd_ = -1;
};

class Task;

// An advisory lock on a folder (flock). Of two saves into one folder the second waits for the
// first.
class FolderLock {
public:
  // Waits until no other thread or process holds the lock, and checks the task while it waits.
  // Fails with unavailable after 30 seconds. A folder that cannot be locked (its file system lacks
  // flock, or it cannot be read) stays unlocked, without an error.
  explicit FolderLock(const std::string& folder, const Task* task = nullptr);
  ~FolderLock(); // the system also releases the locks of a killed process
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // Returns false if the path no longer leads to the locked folder, because the former holder
  // renamed or removed it.
  bool at_path() const;

private:
  std::string path_;
  int fd_ = -1;
};

} // namespace dllm
