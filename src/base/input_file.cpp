#include "base/files.h"

#include "base/error.h"
#include "base/store/objects.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace dllm {

namespace {

// Names the type of a file that is not regular; "" for a regular file.
const char* other_kind(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void check_regular(const struct stat& info, const std::string& path) {
  const std::string kind = other_kind(info.st_mode);
  if (kind.empty()) return;
  fail_with_hint(kind == "a folder" ? "name a file in it"
                                    : "write its content to a file first: files are read in pieces",
                 Code::invalid_argument, "{} is not a regular file: it is {}", path, kind);
}

FileStamp stamp_of(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_dev), static_cast<uint64_t>(info.st_ino), info.st_size,
          info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

[[noreturn]] void fail_changed(const std::string& path, const FileStamp& before,
                               const FileStamp& now) {
  const char* hint = "open it again; a file that is in use must not be written to";
  if (before.size != now.size) {
    fail_with_hint(hint, Code::data_loss,
                   "{} changed while it was in use: {} bytes when it was opened, now {}", path,
                   before.size, now.size);
  }
  fail_with_hint(hint, Code::data_loss,
                 "{} changed while it was in use: it was written to after it was opened", path);
}

class FileContent final : public Content {
public:
  explicit FileContent(const std::string& path) : file_(path) {}
  int64_t size() const override { return file_.size(); }
  Bytes read(int64_t at, int64_t size) const override { return file_.read(at, size); }
  void read_to(int64_t at, int64_t size, void* to) const override { file_.read(at, to, size); }

private:
  InputFile file_;
};

class MemoryContent final : public Content {
public:
  explicit MemoryContent(Bytes bytes) : bytes_(std::move(bytes)) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  Bytes read(int64_t at, int64_t size) const override {
    return bytes_.part(static_cast<size_t>(at), static_cast<size_t>(size));
  }
  void read_to(int64_t at, int64_t size, void* to) const override {
    if (size > 0) std::memcpy(to, bytes_.data() + at, static_cast<size_t>(size));
  }

private:
  Bytes bytes_;
};

} // namespace

FileStamp file_stamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_errno("read", path);
  check_regular(info, path);
  return stamp_of(info);
}

void check_stamp(const std::string& path, const FileStamp& stamp) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return;
  const FileStamp now = stamp_of(info);
  if (!(now == stamp)) fail_changed(path, stamp, now);
}

// The type is checked before opening, because opening a device may already affect it. The path may
// become a pipe between check and open; O_NONBLOCK keeps that open() from blocking.
InputFile::InputFile(const std::string& path) : path_(path) {
  if (is_store_path(path)) {
    fail_with_hint(
        "copy it to a local folder: only models and checkpoints are read from an object store",
        Code::unimplemented, "cannot open {}: it is in an object store", path);
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_errno("open", path);
  check_regular(info, path);
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd_ < 0) fail_errno("open", path);
  try {
    if (::fstat(fd_, &info) != 0) fail_errno("open", path);
    check_regular(info, path);
  } catch (...) {
    ::close(fd_);
    throw;
  }
  stamp_ = stamp_of(info);
}

InputFile::InputFile(std::string name, ContentRef content)
    : path_(std::move(name)), content_(std::move(content)) {
  stamp_.size = content_->size();
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::announce(int64_t begin, int64_t end) const {
  if (content_ != nullptr) content_->announce(begin, end);
}

void InputFile::read(int64_t at, void* to, int64_t size) const {
  if (content_ != nullptr) return content_->read_to(at, size, to);
  constexpr int64_t kChunk = int64_t{1} << 26;
  char* out = static_cast<char*>(to);
  int64_t done = 0;
  while (done < size) {
    const auto wanted = static_cast<size_t>(std::min(kChunk, size - done));
    const ssize_t got = ::pread(fd_, out + done, wanted, at + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path_);
    if (got == 0) break; // end of the file; if the file was cut, its stamp differs
    done += got;
  }
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail_errno("read", path_);
  const FileStamp now = stamp_of(info);
  if (!(now == stamp_)) fail_changed(path_, stamp_, now);
  if (done < size) {
    fail(Code::data_loss, "{} ended {} bytes into a read of {} at {}; its size is {}", path_, done,
         size, at, now.size);
  }
}

Bytes InputFile::read(int64_t at, int64_t size) const {
  constexpr size_t kAlignment = 64;
  if (size == 0) return {};
  const size_t room = (static_cast<size_t>(size) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, room);
  if (memory == nullptr) throw std::bad_alloc();
  const std::shared_ptr<void> owner(memory, &std::free);
  read(at, memory, size);
  return {memory, static_cast<size_t>(size), owner};
}

ContentRef open_content(const std::string& path) {
  if (is_store_path(path)) return store::object_content(path);
  return std::make_shared<FileContent>(path);
}

ContentRef memory_content(Bytes bytes) {
  return std::make_shared<MemoryContent>(std::move(bytes));
}

namespace {

class FolderSource final : public Source {
public:
  explicit FolderSource(std::string folder) : folder_(std::move(folder)) {}

  bool has(const std::string& name) const override { return file_exists(join_path(folder_, name)); }
  Bytes open(const std::string& name) const override {
    return read_bytes(join_path(folder_, name));
  }
  ContentRef content(const std::string& name) const override {
    return open_content(join_path(folder_, name));
  }
  std::vector<std::string> names() const override { return list_directory(folder_); }
  std::string describe() const override { return folder_; }

private:
  std::string folder_;
};

class FileSource final : public Source {
public:
  explicit FileSource(std::string path) : path_(std::move(path)) {}

  bool has(const std::string& name) const override { return name == file_name(path_); }
  Bytes open(const std::string& name) const override {
    check_name(name);
    return read_bytes(path_);
  }
  ContentRef content(const std::string& name) const override {
    check_name(name);
    return open_content(path_);
  }
  std::vector<std::string> names() const override { return {file_name(path_)}; }
  std::string describe() const override { return path_; }

private:
  void check_name(const std::string& name) const {
    if (!has(name)) fail(Code::not_found, "{} is one file, it has no {}", path_, name);
  }

  std::string path_;
};

} // namespace

std::unique_ptr<Source> open_source(const std::string& path) {
  if (is_directory(path)) return std::make_unique<FolderSource>(path);
  if (!file_exists(path)) fail(Code::not_found, "there is no file or folder {}", path);
  if (!is_store_path(path)) file_stamp(path); // fails for a pipe or a device
  return std::make_unique<FileSource>(path);
}

void MemorySource::add(const std::string& name, const void* data, size_t size, bool copy) {
  if (name.empty()) fail(Code::invalid_argument, "a file in a source needs a name");
  if (files_.count(name) != 0) fail(Code::already_exists, "the source already holds {}", name);
  if (!copy) {
    files_[name] = Bytes(data, size, nullptr);
    return;
  }
  auto owner = std::make_shared<std::string>(static_cast<const char*>(data), size);
  files_[name] = Bytes(owner->data(), size, owner);
}

bool MemorySource::has(const std::string& name) const {
  return files_.count(name) != 0;
}

Bytes MemorySource::open(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) fail(Code::not_found, "the source in memory holds no {}", name);
  return found->second;
}

std::vector<std::string> MemorySource::names() const {
  std::vector<std::string> list;
  for (const auto& [name, bytes] : files_) list.push_back(name);
  return list;
}

} // namespace dllm
