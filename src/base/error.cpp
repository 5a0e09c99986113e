#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

namespace dllm {

const char* code_name(Code code) noexcept {
  switch (code) {
  case Code::ok: return "ok";
  case Code::cancelled: return "cancelled";
  case Code::unknown: return "unknown";
  case Code::invalid_argument: return "invalid_argument";
  case Code::deadline_exceeded: return "deadline_exceeded";
  case Code::not_found: return "not_found";
  case Code::already_exists: return "already_exists";
  case Code::permission_denied: return "permission_denied";
  case Code::resource_exhausted: return "resource_exhausted";
  case Code::failed_precondition: return "failed_precondition";
  case Code::aborted: return "aborted";
  case Code::out_of_range: return "out_of_range";
  case Code::unimplemented: return "unimplemented";
  case Code::internal: return "internal";
  case Code::unavailable: return "unavailable";
  case Code::data_loss: return "data_loss";
  case Code::unauthenticated: return "unauthenticated";
  case Code::callback_failed: return "callback_failed";
  case Code::script_failed: return "script_failed";
  }
  return "unknown";
}

namespace {

size_t edit_distance(const std::string& a, const char* b) {
  const size_t n = std::strlen(b);
  std::vector<size_t> row(n + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < n; ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] != b[j])});
      diagonal = above;
    }
  }
  return row[n];
}

} // namespace

std::string nearest(const std::string& word, const char* const* names, size_t count) {
  constexpr size_t kLongest =
      256; // a longer word is no slip of the finger, and the table would be large
  if (word.size() > kLongest) return {};
  // Half of the word may be wrong; more is no help to the reader.
  size_t best = std::max<size_t>(word.size() / 2, 1) + 1;
  std::string found;
  for (size_t i = 0; i < count; ++i) {
    const size_t distance = edit_distance(word, names[i]);
    if (distance < best) {
      best = distance;
      found = names[i];
    }
  }
  return found;
}

Code errno_code(int number) {
  switch (number) {
  case ENOENT:
  case ENOTDIR: return Code::not_found;
  case EACCES:
  case EPERM:
  case EROFS: return Code::permission_denied;
  case ENAMETOOLONG:
  case EISDIR:
  case EINVAL:
  case ELOOP:
  case ENXIO: return Code::invalid_argument;
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case ENOMEM:
  case EMFILE:
  case ENFILE: return Code::resource_exhausted;
  default: return Code::internal;
  }
}

void fail_errno(const char* verb, const std::string& path) {
  const int number = errno;
  fail(errno_code(number), "cannot {} {}: {}", verb, path, std::strerror(number));
}

} // namespace dllm
