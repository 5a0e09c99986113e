#pragma once
// The content of a file from front to back. Content that was compressed by gzip is decompressed on the way, in bounded
// memory: readers of records see the text alone.

#include "base/input_file.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm {
class Task;
}

namespace dllm::text {

class ByteSource {
public:
  explicit ByteSource(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}
  virtual ~ByteSource() = default;
  // The next `size` bytes of the content; fewer only where the content ends. data_loss when the file changed.
  virtual int64_t read(char* to, int64_t size) = 0;
  const std::string& path() const { return file_->path(); }

protected:
  const InputFile& file() const { return *file_; }

private:
  std::shared_ptr<const InputFile> file_;
};

// True for content that begins with the magic bytes of gzip, and for every file called NAME.gz: a damaged one is an
// error then, not text.
bool is_gzip(const InputFile& file);
// The name that the content had before it was compressed: without ".gz".
std::string content_name(const std::string& path);

// `task` is checked between pieces of decompressed bytes; it outlives the source and may be null.
std::unique_ptr<ByteSource> open_bytes(std::shared_ptr<const InputFile> file, const Task* task);
// The implementation for gzip (RFC 1952), also of several members in a row. Fails with data_loss naming the file and
// the byte near which it is damaged or cut.
std::unique_ptr<ByteSource> open_gzip(std::shared_ptr<const InputFile> file, const Task* task);

} // namespace dllm::text
