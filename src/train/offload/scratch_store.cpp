#include "train/offload/scratch_store.h"

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"
#include "base/store/address.h"
#include "base/write_at.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace dllm::train {
namespace {

constexpr int64_t kScratchPiece = int64_t{1} << 20; // bytes that one thread copies at a time
constexpr const char* kOtherPlace = "free space there, or set offload to another folder, to ram, "
                                    "or to an optimizer of fewer arrays";

std::string size_text(int64_t bytes) {
  return memory_text(static_cast<double>(bytes));
}

// Calls copy(begin, size) for the pieces of a range.
template <class Copy> void in_pieces(int64_t size, const Workers& workers, const Copy& copy) {
  parallel(workers, (size + kScratchPiece - 1) / kScratchPiece, [&](int64_t piece) {
    const int64_t begin = piece * kScratchPiece;
    copy(begin, std::min(kScratchPiece, size - begin));
  });
}

void check_scratch_folder(const std::string& folder) {
  if (is_store_path(folder)) {
    fail_with_hint("name a folder of a disk of this machine", Code::invalid_argument,
                   "offload {} is in an object store, which cannot hold arrays that change",
                   folder);
  }
  if (!file_exists(folder)) {
    fail_with_hint("make the folder first; for memory write ram", Code::not_found,
                   "offload {}: there is no such folder", folder);
  }
  if (!is_directory(folder)) {
    fail_with_hint("name the folder that holds it", Code::invalid_argument,
                   "offload {} is not a folder", folder);
  }
}

} // namespace

ScratchStore::ScratchStore(const std::string& place, int64_t bytes) : place_(place), bytes_(bytes) {
  if (place != kOffloadToRam) check_scratch_folder(place);
  if (bytes == 0) return;
  try {
    if (place == kOffloadToRam) {
      map_memory();
    } else {
      open_in(place);
      reserve(place);
    }
  } catch (...) {
    if (fd_ >= 0) ::close(fd_);
    throw;
  }
}

ScratchStore::~ScratchStore() {
  if (base_ != nullptr) ::munmap(base_, static_cast<size_t>(bytes_));
  if (fd_ >= 0) ::close(fd_);
}

void ScratchStore::open_in(const std::string& folder) {
  fd_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ >= 0) return;
  // A file system without O_TMPFILE: the file loses its name at once.
  std::string name = join_path(folder, "dllm-offload-XXXXXX");
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) fail_errno("write a scratch file into", folder);
  ::unlink(name.c_str());
}

void ScratchStore::reserve(const std::string& folder) const {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (is_limited && limit.rlim_cur < static_cast<rlim_t>(bytes_)) {
    fail_with_hint("raise the limit (ulimit -f), or set offload to ram", Code::resource_exhausted,
                   "offload {}: the arrays need a file of {}, the limit of a file is {}", folder,
                   size_text(bytes_), size_text(static_cast<int64_t>(limit.rlim_cur)));
  }
  const int number = ::posix_fallocate(fd_, 0, bytes_);
  if (number == 0) return;
  struct statvfs disk {};
  const bool known = ::fstatvfs(fd_, &disk) == 0;
  if (number != ENOSPC && number != EDQUOT && number != EFBIG) {
    errno = number;
    fail_errno("reserve a scratch file in", folder);
  }
  fail_with_hint(kOtherPlace, Code::resource_exhausted,
                 "offload {}: the arrays need {}, and {} are free there ({})", folder,
                 size_text(bytes_),
                 known ? size_text(static_cast<int64_t>(disk.f_bavail * disk.f_frsize)) : "fewer",
                 std::strerror(number));
}

void ScratchStore::map_memory() {
  void* base = ::mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    fail_with_hint("set offload to a folder", Code::resource_exhausted,
                   "offload {}: {} cannot be mapped: {}", place_, size_text(bytes_),
                   std::strerror(errno));
  }
  base_ = static_cast<std::byte*>(base);
}

void ScratchStore::read(int64_t at, void* to, int64_t size, const Workers& workers) const {
  in_pieces(size, workers, [&](int64_t begin, int64_t count) {
    std::byte* const target = static_cast<std::byte*>(to) + begin;
    if (fd_ < 0) {
      std::memcpy(target, base_ + at + begin, static_cast<size_t>(count));
      return;
    }
    for (int64_t done = 0; done < count;) {
      const ssize_t got =
          ::pread(fd_, target + done, static_cast<size_t>(count - done), at + begin + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno("read the scratch file in", place_);
      if (got == 0) fail(Code::data_loss, "the scratch file in {} was cut off", place_);
      done += got;
    }
  });
}

void ScratchStore::write(int64_t at, const void* from, int64_t size, const Workers& workers) {
  in_pieces(size, workers, [&](int64_t begin, int64_t count) {
    const std::byte* const source = static_cast<const std::byte*>(from) + begin;
    if (fd_ < 0) {
      std::memcpy(base_ + at + begin, source, static_cast<size_t>(count));
      return;
    }
    for (int64_t done = 0; done < count;) {
      const ssize_t put = write_at_without_signal(
          fd_, source + done, static_cast<size_t>(count - done), at + begin + done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail_errno("write the scratch file in", place_);
      done += put;
    }
  });
}

void ScratchStore::announce(int64_t at, int64_t size) const {
  if (fd_ >= 0 && size > 0) ::posix_fadvise(fd_, at, size, POSIX_FADV_WILLNEED);
}

} // namespace dllm::train
