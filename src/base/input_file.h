#pragma once
// Files that a caller named, opened for reading, and sources: where the files of a model or tokenizer come from (a folder,
// one file, or a host's memory).

#include "base/bytes.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm {

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

} // namespace dllm
