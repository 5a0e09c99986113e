#pragma once
// Signs requests to an S3 server, sends them, and retries a failed request with growing pauses if a
// retry can help. Errors name the object and the reason, never a key.

#include "base/http/http.h"
#include "base/http/transfers.h"
#include "base/store/address.h"
#include "base/store/protocol.h"
#include "base/task.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dllm::store {

using http::HttpRequest;
using http::HttpResponse;
using http::kTransfersAtOnce;
using http::run_transfers;

struct Call {
  std::string method;
  std::string key; // key in the bucket; "" is the bucket itself
  Query query;
  std::map<std::string, std::string> headers; // names in lower case
  std::string_view body;
  char* to = nullptr; // `to`, `room` and `silence_seconds` as in HttpRequest
  int64_t room = 0;
  int64_t silence_seconds = 30;
  int attempts = 0; // 0: as many as the settings allow
};

// A client of one bucket. It reads the environment once, when it is constructed. Any thread may use
// it.
class Client {
public:
  explicit Client(const Address& address) : Client(address, settings_of(address)) {}
  Client(const Address& address, Settings settings);

  const Settings& settings() const { return settings_; }
  // "s3://bucket/key"
  std::string path_of(const std::string& key) const;

  // Sends a request and returns the response, whose status may be an error that a retry cannot
  // help. Fails with unavailable after the last attempt.
  HttpResponse send(const Call& call, const Task* task) const;
  // Sends a request and fails unless the status is 2xx. The error begins with "cannot <verb>".
  HttpResponse expect(const char* verb, const Call& call, const Task* task) const;
  [[noreturn]] void fail_response(const char* verb, const std::string& key,
                                  const HttpResponse& response) const;

private:
  HttpResponse send_once(const Call& call, const Task* task) const;

  Address bucket_; // with an empty key
  Settings settings_;
};

// Returns a client of the path's bucket and writes the path's key to `key`.
Client client_of(const std::string& path, std::string* key);

// Returns the <Code> of an error ("NoSuchUpload"), or "" if the response has none.
std::string error_code(const HttpResponse& response);

// A PartPlan divides a large object into parts. A request of its own uploads each part.
struct PartPlan {
  int64_t part = 0;  // bytes of every part but the last
  int64_t count = 0; // 1: one ordinary request instead of a multipart upload
  int64_t begin(int64_t index) const { return index * part; }
};

// Cuts an object into parts of 16 MiB, or of the fewest whole MiB that give at most 10,000 parts.
// Fails with out_of_range above 5 TiB. S3 allows parts of 5 MiB to 5 GiB, 10,000 parts, and objects
// of 5 TiB.
PartPlan plan_parts(int64_t size);

} // namespace dllm::store
