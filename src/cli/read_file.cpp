#include "read_file.h"

#include "command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dllm::cli {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

void check_regular(const struct stat& info, const std::string& path) {
  if (S_ISREG(info.st_mode)) return;
  throw Failure(DLLM_INVALID_ARGUMENT, path + " is not a regular file: it is " + kind_of(info.st_mode),
                S_ISDIR(info.st_mode) ? "name a file in it" : "write its content to a file first");
}

}  // namespace

std::string read_file(const std::string& path) {
  struct stat info {};
  const auto cannot = [&] {
    return Failure(errno == EACCES ? DLLM_PERMISSION_DENIED : DLLM_NOT_FOUND,
                   "cannot read " + path + ": " + std::strerror(errno));
  };
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw Failure(DLLM_NOT_FOUND, "there is no file or folder " + path);
    throw cannot();
  }
  check_regular(info, path);  // before it is opened
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0 || ::fstat(file.number, &info) != 0) throw cannot();
  check_regular(info, path);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.number, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace dllm::cli
