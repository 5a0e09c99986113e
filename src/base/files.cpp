#include "base/files.h"

#include "base/error.h"
#include "base/store/objects.h"
#include "base/task.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio> // renameat2
#include <cstring>
#include <filesystem>

namespace dllm {
namespace {

namespace fs = std::filesystem;

std::atomic<FileHook> file_hook{nullptr};

void announce(const char* operation, const std::string& path) {
  if (const FileHook hook = file_hook.load(std::memory_order_relaxed)) hook(operation, path);
}

struct OpenFile {
  int fd;
  ~OpenFile() { ::close(fd); }
};

// Fails for a path in an object store. Without this check a function that writes would create a
// local folder named "s3:".
void refuse_store_path(const std::string& path) {
  if (!is_store_path(path)) return;
  fail_with_hint("write to a local folder: an object store takes only the checkpoints of a run",
                 Code::unimplemented, "cannot write {}: it is in an object store", path);
}

constexpr size_t kFlushed = size_t{8} << 20; // bytes of a piece that is written at a time

} // namespace

bool file_exists(const std::string& path) {
  if (is_store_path(path)) return store::has_object(path) || store::has_folder(path);
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_directory(const std::string& path) {
  if (is_store_path(path)) return store::has_folder(path);
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_link(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

int64_t file_size(const std::string& path) {
  if (is_store_path(path)) return store::object_size(path);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_errno("read", path);
  return info.st_size;
}

Bytes map_file(const std::string& path) {
  const InputFile file(path);
  const auto size = static_cast<size_t>(file.size());
  if (size == 0) return {};
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) fail_errno("map", path);
  std::shared_ptr<const void> owner(
      data, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return {data, size, std::move(owner)};
}

Bytes read_bytes(const std::string& path, int64_t limit) {
  const ContentRef file = open_content(path);
  if (file->size() > limit) {
    fail(Code::resource_exhausted, "{} has {} bytes, more than the limit of {}", path, file->size(),
         limit);
  }
  return file->read(0, file->size());
}

std::string read_text(const std::string& path, int64_t limit) {
  return std::string(read_bytes(path, limit).text());
}

void set_file_hook(FileHook hook) {
  file_hook.store(hook);
}

FileWriter::FileWriter(const std::string& path) : path_(path) {
  refuse_store_path(path_);
  announce("create", path_);
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
               0644);
  if (fd_ < 0) fail_errno("create", path);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, size_t size, const Task* task) {
  const char* from = static_cast<const char*>(data);
  size_t left = size;
  while (left > 0) {
    check_task(task);
    announce("write", path_);
    const ssize_t put = write_without_signal(fd_, from, std::min<size_t>(left, kFlushed));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno("write", path_);
    from += put;
    left -= static_cast<size_t>(put);
    written_ += put;
    if (written_ - flushing_ >= static_cast<int64_t>(kFlushed)) flush_behind();
  }
}

// Waits until the disk has stored the previous piece and starts storing the next one. Only close()
// makes the file durable, so a file system without sync_file_range loses nothing.
void FileWriter::flush_behind() {
  constexpr unsigned kWait =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (flushing_ > flushed_) ::sync_file_range(fd_, flushed_, flushing_ - flushed_, kWait);
  ::sync_file_range(fd_, flushing_, written_ - flushing_, SYNC_FILE_RANGE_WRITE);
  flushed_ = flushing_;
  flushing_ = written_;
}

void FileWriter::close() {
  announce("sync", path_);
  const int fd = fd_;
  fd_ = -1;
  const bool synced = ::fsync(fd) == 0;
  if (::close(fd) != 0 || !synced) fail_errno("write", path_);
}

void sync_path(const std::string& path) {
  announce("sync", path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_errno("open", path);
  const OpenFile file{fd};
  if (::fsync(fd) != 0 && errno != EINVAL) fail_errno("sync", path);
}

void write_file_atomic(const std::string& path, std::string_view content) {
  const std::string partial = path + ".partial";
  FileWriter writer(partial);
  try {
    writer.write(content.data(), content.size());
    writer.close();
    rename_path(partial, path);
  } catch (const Error&) {
    ::unlink(partial.c_str()); // the partial file would waste room on a full disk
    throw;
  }
}

void make_directories(const std::string& path) {
  refuse_store_path(path);
  announce("create", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    errno = error.value();
    fail_errno("create", path);
  }
}

void rename_path(const std::string& from, const std::string& to) {
  announce("rename", from);
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno("rename", from);
  sync_path(parent_path(to));
}

bool swap_paths(const std::string& a, const std::string& b) {
  announce("swap", a);
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  fail_errno("swap", a);
}

// Removes one entry at a time, so that the hook is called for each. Links are not followed.
void remove_all(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    fail_errno("remove", path);
  }
  const bool folder = S_ISDIR(info.st_mode);
  if (folder) {
    for (const std::string& name : list_directory(path)) remove_all(join_path(path, name));
  }
  announce("remove", path);
  const int status = folder ? ::rmdir(path.c_str()) : ::unlink(path.c_str());
  if (status != 0 && errno != ENOENT) fail_errno("remove", path);
}

std::vector<std::string> list_directory(const std::string& path) {
  if (is_store_path(path)) return store::object_names(path);
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) {
    errno = error.value();
    fail_errno("list", path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

std::string parent_path(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

} // namespace dllm
