#pragma once
// A lock by which one process at a time writes a file.

#include <string>

namespace dllm {

// Makes this object the only writer of a file until it is destroyed.
class WriterLock {
public:
  // Makes the file when it does not exist. Fails with unavailable while another process, or another
  // object of this process, is the writer. A file that cannot be locked stays without a lock.
  explicit WriterLock(const std::string& path);
  ~WriterLock();
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

private:
  int fd_;
};

} // namespace dllm
