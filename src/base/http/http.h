#pragma once
// Performs one HTTP request over a pooled connection. It follows no redirect, does not retry and
// signs nothing: base/store/client.h and hub/protocol/client.h do.

#include "base/task.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::http {

struct HttpResponse;

struct HttpRequest {
  std::string method; // GET, HEAD, PUT, POST, DELETE
  std::string url;
  std::vector<std::string> headers; // "name: value"
  std::string_view body;
  // Receives the body of a 2xx response. If null, the body goes to HttpResponse::body.
  char* to = nullptr;
  int64_t room = 0; // bytes at `to`
  // Gets the body of a 2xx response piece by piece, with the response's status and headers, in
  // place of `to`. An exception ends the transfer, and perform() throws it.
  std::function<void(const HttpResponse&, std::string_view)> receive = nullptr;
  int64_t silence_seconds = 30; // the request fails after this time without a byte
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers; // names in lower case
  std::string body;
  int64_t received = 0; // bytes that HttpRequest::to or HttpRequest::receive got

  bool is_success() const { return status >= 200 && status < 300; }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// Performs a request. Any thread may call; all threads share the pool of connections. Fails with
// unavailable if the same request may succeed later (no connection, a broken or a silent one).
// Fails with failed_precondition if it cannot (a certificate, an address), and as check_task does.
// The error text contains only the reason.
HttpResponse perform(const HttpRequest& request, const Task* task);

} // namespace dllm::http
