#pragma once
// Declares the functions and constants of libcurl that dllm uses. The first transfer opens libcurl,
// so building does not need it and a process that never transfers a file does not load it. The
// constants are part of the binary interface of libcurl.so.4, unchanged since 2006
// (https://curl.se/libcurl/abi.html).

#include <cstddef>
#include <cstdint>
#include <string>

namespace dllm::http {

struct CurlList; // a list of header lines
struct CurlVersion;

// A transfer that ended and its result, as curl_multi_info_read returns it.
struct CurlMessage {
  int kind;
  void* easy;
  union {
    void* pointer;
    int result;
  } data;
};

enum CurlOption : int {
  kCurlWriteData = 10001,
  kCurlUrl = 10002,
  kCurlErrorBuffer = 10010,
  kCurlPostFields = 10015,
  kCurlHttpHeader = 10023,
  kCurlHeaderData = 10029,
  kCurlCustomRequest = 10036,
  kCurlNoProxy = 10177,
  kCurlWriteFunction = 20011,
  kCurlHeaderFunction = 20079,
  kCurlLowSpeedLimit = 19,
  kCurlLowSpeedTime = 20,
  kCurlNoBody = 44,
  kCurlPost = 47,
  kCurlHttpGet = 80,
  kCurlHttpVersion = 84,
  kCurlNoSignal = 99,
  kCurlConnectTimeoutMs = 156,
  kCurlPostFieldSizeLarge = 30120,
};
inline constexpr int kCurlResponseCode = 0x200002; // CURLINFO_RESPONSE_CODE, a long
inline constexpr int kCurlDone = 1;                // CURLMSG_DONE
inline constexpr long kCurlHttp11 = 2;             // CURL_HTTP_VERSION_1_1
inline constexpr size_t kCurlErrorSize = 256;      // CURL_ERROR_SIZE

struct CurlLibrary {
  int (*global_init)(long flags);
  void* (*easy_init)();
  void (*easy_reset)(void* easy);
  void (*easy_cleanup)(void* easy);
  int (*easy_setopt)(void* easy, int option, ...);
  int (*easy_getinfo)(void* easy, int info, ...);
  const char* (*easy_strerror)(int result);
  CurlList* (*slist_append)(CurlList* list, const char* line);
  void (*slist_free_all)(CurlList* list);
  void* (*multi_init)();
  int (*multi_cleanup)(void* multi);
  int (*multi_add_handle)(void* multi, void* easy);
  int (*multi_remove_handle)(void* multi, void* easy);
  int (*multi_perform)(void* multi, int* running);
  int (*multi_poll)(void* multi, void* extra, unsigned int extra_count, int milliseconds,
                    int* ready);
  CurlMessage* (*multi_info_read)(void* multi, int* left);
};

// Opens DLLM_CURL_LIBRARY, else the system's libcurl. Fails with failed_precondition if there is
// none; the hint names the package to install.
const CurlLibrary& curl_library();

// Returns true if the same request may succeed after this result (CURLcode): there was no
// connection, or it broke or stayed silent.
bool is_passing(int result);

} // namespace dllm::http
