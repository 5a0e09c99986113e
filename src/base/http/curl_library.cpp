#include "base/http/curl_library.h"

#include "base/error.h"

#include <dlfcn.h>

#include <cstdlib>

namespace dllm::http {
namespace {

constexpr const char* kCurlNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};
constexpr const char* kInstallCurl =
    "install libcurl (Debian: libcurl4), or name its file in DLLM_CURL_LIBRARY";

template <class F> void take(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(::dlsym(library, name));
  if (*function != nullptr) return;
  fail_with_hint(kInstallCurl, Code::failed_precondition,
                 "libcurl has no function {}: it is older than 7.66", name);
}

void* open_curl() {
  const char* own = std::getenv("DLLM_CURL_LIBRARY");
  if (own != nullptr && *own != '\0') return ::dlopen(own, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : kCurlNames) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

CurlLibrary load_curl() {
  void* library = open_curl();
  if (library == nullptr) {
    fail_with_hint(kInstallCurl, Code::failed_precondition,
                   "transfers need libcurl, which this system does not have");
  }
  CurlLibrary made{};
  take(library, "curl_global_init", &made.global_init);
  take(library, "curl_easy_init", &made.easy_init);
  take(library, "curl_easy_reset", &made.easy_reset);
  take(library, "curl_easy_cleanup", &made.easy_cleanup);
  take(library, "curl_easy_setopt", &made.easy_setopt);
  take(library, "curl_easy_getinfo", &made.easy_getinfo);
  take(library, "curl_easy_strerror", &made.easy_strerror);
  take(library, "curl_slist_append", &made.slist_append);
  take(library, "curl_slist_free_all", &made.slist_free_all);
  take(library, "curl_multi_init", &made.multi_init);
  take(library, "curl_multi_cleanup", &made.multi_cleanup);
  take(library, "curl_multi_add_handle", &made.multi_add_handle);
  take(library, "curl_multi_remove_handle", &made.multi_remove_handle);
  take(library, "curl_multi_perform", &made.multi_perform);
  take(library, "curl_multi_poll", &made.multi_poll);
  take(library, "curl_multi_info_read", &made.multi_info_read);
  constexpr long kEverything = 3; // CURL_GLOBAL_ALL
  if (made.global_init(kEverything) != 0) fail(Code::internal, "libcurl cannot be initialized");
  return made;
}

} // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load_curl(); // the next call retries after an exception
  return library;
}

bool is_passing(int result) {
  switch (result) {
  case 5:  // COULDNT_RESOLVE_PROXY
  case 6:  // COULDNT_RESOLVE_HOST
  case 7:  // COULDNT_CONNECT
  case 16: // HTTP2
  case 18: // PARTIAL_FILE
  case 28: // OPERATION_TIMEDOUT
  case 35: // SSL_CONNECT_ERROR
  case 52: // GOT_NOTHING
  case 55: // SEND_ERROR
  case 56: // RECV_ERROR
  case 65: // SEND_FAIL_REWIND
  case 92: // HTTP2_STREAM
    return true;
  default: return false;
  }
}

} // namespace dllm::http
