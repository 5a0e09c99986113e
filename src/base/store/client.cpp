#include "base/store/client.h"

#include "base/error.h"
#include "base/http/retry.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/store/protocol.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace dllm::store {
namespace {

// Returns true if another attempt may succeed: after an overload, a gateway error or a time-out.
bool is_passing(const HttpResponse& response) {
  return http::is_passing_status(response.status) || error_code(response) == "RequestTimeout";
}

// Returns the server's error as one short line without keys.
std::string reason_of(const HttpResponse& response, const Credentials& credentials) {
  constexpr size_t kLongest = 200;
  const std::string code = error_code(response);
  std::string text = element_text(response.body, "Message");
  text = fmt::format("status {}{}{}", response.status, code.empty() ? "" : " " + code,
                     text.empty() ? "" : ": " + text);
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  text = without_keys(text, credentials);
  if (text.size() > kLongest) text.resize(kLongest);
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  return text;
}

struct Meaning {
  Code code;
  std::string hint;
};

Meaning meaning_of(const HttpResponse& response, bool is_gs) {
  const std::string code = error_code(response);
  const char* keys = is_gs ? "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY"
                           : "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN";
  if (code == "NoSuchBucket") return {Code::failed_precondition, "make the bucket first"};
  if (code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch" || code == "ExpiredToken" ||
      code == "InvalidToken" || response.status == 401)
    return {Code::unauthenticated, fmt::format("check {}", keys)};
  if (code == "RequestTimeTooSkewed")
    return {Code::failed_precondition, "set this machine's clock"};
  if (code == "AuthorizationHeaderMalformed" || response.status == 301 || response.status == 307) {
    const std::string region = response.header("x-amz-bucket-region");
    return {Code::failed_precondition, region.empty() ? "set AWS_REGION to the region of the bucket"
                                                      : "set AWS_REGION=" + region};
  }
  switch (response.status) {
  case 403: return {Code::permission_denied, fmt::format("check {} and their permissions", keys)};
  case 404: return {Code::not_found, ""};
  case 409: return {Code::aborted, ""};
  case 412: return {Code::data_loss, "the object was replaced while it was read"};
  case 416: return {Code::data_loss, "the object was cut while it was read"};
  case 507: return {Code::resource_exhausted, "the store is full"};
  default: return {response.status >= 500 ? Code::unavailable : Code::unknown, ""};
  }
}

} // namespace

std::string error_code(const HttpResponse& response) {
  return element_text(response.body, "Code");
}

Client::Client(const Address& address, Settings settings)
    : bucket_{address.scheme, address.bucket, ""}, settings_(std::move(settings)) {}

Client client_of(const std::string& path, std::string* key) {
  Address address = parse_address(path);
  *key = std::exchange(address.key, "");
  return Client(address);
}

std::string Client::path_of(const std::string& key) const {
  return bucket_.scheme + "://" + bucket_.bucket + (key.empty() ? "" : "/" + key);
}

HttpResponse Client::send_once(const Call& call, const Task* task) const {
  Address address = bucket_;
  address.key = call.key;
  const Target target = target_of(settings_, address);
  Unsigned request{call.method,       target.host,  target.path,
                   call.query,        call.headers, hex(sha256(call.body)),
                   std::time(nullptr)};
  HttpRequest sent;
  sent.method = call.method;
  const std::string query = query_text(call.query);
  sent.url = target.scheme + "://" + target.host + target.path + (query.empty() ? "" : "?" + query);
  for (const auto& [name, value] : sign(request, settings_.credentials, settings_.region))
    sent.headers.push_back(name + ": " + value);
  sent.body = call.body;
  sent.to = call.to;
  sent.room = call.room;
  sent.silence_seconds = call.silence_seconds;
  return http::perform(sent, task);
}

HttpResponse Client::send(const Call& call, const Task* task) const {
  const int attempts = call.attempts > 0 ? call.attempts : settings_.attempts;
  for (int attempt = 0;; ++attempt) {
    std::string reason;
    try {
      HttpResponse response = send_once(call, task);
      if (!is_passing(response)) return response;
      reason = reason_of(response, settings_.credentials);
    } catch (const Error& error) {
      if (error.code() == Code::cancelled || error.code() == Code::deadline_exceeded) throw;
      reason = without_keys(error.text(), settings_.credentials);
      if (error.code() != Code::unavailable) // a retry cannot help
        throw Error(error.code(), path_of(call.key) + ": " + reason, error.hint());
    }
    if (attempt + 1 >= attempts) {
      fail_with_hint("check that the server runs; AWS_MAX_ATTEMPTS is the number of attempts",
                     Code::unavailable,
                     "{}: the server did not answer {} in {} attempts, the last: {}",
                     path_of(call.key), call.method, attempts, reason);
    }
    const double seconds = http::pause_seconds(attempt, call.method + call.key, ::getpid());
    log(LogLevel::info, "{}: {} is tried again in {:.1f} s: {}", path_of(call.key), call.method,
        seconds, reason);
    http::wait(seconds, task);
  }
}

void Client::fail_response(const char* verb, const std::string& key,
                           const HttpResponse& response) const {
  const Meaning meaning = meaning_of(response, bucket_.scheme == "gs");
  throw Error(meaning.code,
              fmt::format("cannot {} {}: {}", verb, path_of(key),
                          reason_of(response, settings_.credentials)),
              meaning.hint);
}

HttpResponse Client::expect(const char* verb, const Call& call, const Task* task) const {
  HttpResponse response = send(call, task);
  if (!response.is_success()) fail_response(verb, call.key, response);
  return response;
}

} // namespace dllm::store
