#pragma once
// Requests to an S3 server: signed, sent, repeated with growing pauses where that may help. Errors name the place and the
// reason, never a key.

#include "base/store/address.h"
#include "base/store/http.h"
#include "base/store/protocol.h"
#include "base/task.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace dllm::store {

// The pause after attempt `attempt` (from 0) of a request: doubling from 0.25 to 20 seconds, times a share in [1/2, 1) that
// depends on the name and the process, so that ranks do not come back all at once.
double pause_seconds(int attempt, std::string_view name, int64_t process);

struct Call {
  std::string method;
  std::string key; // within the bucket; "": the bucket itself
  Query query;
  std::map<std::string, std::string> headers; // names in lower case
  std::string_view body;
  char* to = nullptr; // as in HttpRequest
  int64_t room = 0;
  int64_t silence_seconds = 30;
  int attempts = 0; // 0: those of the settings
};

// One bucket, with what the environment said when this was made. Any thread.
class Client {
public:
  explicit Client(const Address& address) : Client(address, settings_of(address)) {}
  Client(const Address& address, Settings settings);

  const Settings& settings() const { return settings_; }
  // "s3://bucket/key"
  std::string path_of(const std::string& key) const;

  // The response of any status that is not worth another attempt. unavailable when the attempts are used up.
  HttpResponse send(const Call& call, const Task* task) const;
  // The same, and fails unless the status is 2xx. `verb` is for the text: "cannot read s3://...".
  HttpResponse expect(const char* verb, const Call& call, const Task* task) const;
  [[noreturn]] void fail_response(const char* verb, const std::string& key,
                                  const HttpResponse& response) const;

private:
  HttpResponse send_once(const Call& call, const Task* task) const;

  Address bucket_; // with an empty key
  Settings settings_;
};

// Of the bucket of a path, whose key goes to `key`.
Client client_of(const std::string& path, std::string* key);

// The <Code> of an error: "NoSuchUpload"; "" without one.
std::string error_code(const HttpResponse& response);

// Large objects in parts: how an upload is cut, and several transfers at once.

struct PartPlan {
  int64_t part = 0;  // bytes of all but the last
  int64_t count = 0; // 1: one request, no multipart upload
  int64_t begin(int64_t index) const { return index * part; }
};

// S3's limits: 5 MiB to 5 GiB a part, 10,000 parts, 5 TiB an object; out_of_range above. Parts are 16 MiB, and whole MiB where
// an object needs larger ones.
PartPlan plan_parts(int64_t size);

inline constexpr int64_t kTransfersAtOnce = 4;

// Calls work(index, task) for every index from 0 to count - 1, on up to kTransfersAtOnce threads. The first failure cancels
// the task of the others and is thrown when all have ended.
void run_transfers(int64_t count, const Task* task,
                   const std::function<void(int64_t index, const Task* task)>& work);

} // namespace dllm::store
