#pragma once
// Writing that cannot end the process, and files that grow by whole records.

#include <cstddef>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace dllm {

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
  // Writes the front of `data` and answers how many bytes were written: all of them, or less with errno set.
  size_t write(std::string_view data);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace dllm
