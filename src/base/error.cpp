#include "base/error.h"

#include <cerrno>
#include <cstring>

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
