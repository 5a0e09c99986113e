#pragma once
// One HTTP request over a connection that is kept for the next one. It does not retry and does not
// sign: client.h does both.

#include "base/task.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::store {

struct HttpRequest {
  std::string method; // GET, HEAD, PUT, POST, DELETE
  std::string url;
  std::vector<std::string> headers; // "name: value"
  std::string_view body;
  // Where the body of a 2xx response goes; null: into HttpResponse::body.
  char* to = nullptr;
  int64_t room = 0;
  int64_t silence_seconds = 30; // without a byte the request is given up
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;
  int64_t received = 0; // bytes at HttpRequest::to

  bool is_success() const { return status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// Any thread; connections are shared by all. Throws unavailable when the same request may succeed later (no connection,
// a broken or a silent one), failed_precondition when not (a certificate, an address), and what check_task throws. The
// text names the reason alone.
HttpResponse perform(const HttpRequest& request, const Task* task);

} // namespace dllm::store
