#include "base/store/protocol.h"

#include "base/http/url.h"
#include "base/sha256.h"

#include <algorithm>
#include <array>

namespace dllm::store {
namespace {

std::string bytes_of(const Sha256::Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

// HMAC-SHA256 (RFC 2104).
Sha256::Digest hmac(const std::string& key, std::string_view text) {
  constexpr size_t kBlock = 64;
  std::string padded = key.size() > kBlock ? bytes_of(sha256(key)) : key;
  padded.resize(kBlock, '\0');
  std::string inner_pad = padded, outer_pad = padded;
  for (char& c : inner_pad) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer_pad) c = static_cast<char>(c ^ 0x5c);
  Sha256 inner, outer;
  inner.add(inner_pad);
  inner.add(text);
  outer.add(outer_pad);
  outer.add(bytes_of(inner.finish()));
  return outer.finish();
}

// "20130524T000000Z"
std::string time_text(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return std::string(text.data(), size);
}

} // namespace

std::string query_text(Query query) {
  for (auto& [name, value] : query) {
    name = http::uri_encoded(name, false);
    value = http::uri_encoded(value, false);
  }
  std::sort(query.begin(), query.end());
  std::string text;
  for (const auto& [name, value] : query) text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::map<std::string, std::string> sign(const Unsigned& request, const Credentials& credentials,
                                        const std::string& region) {
  const std::string time = time_text(request.time), day = time.substr(0, 8);
  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = time;
  headers["x-amz-content-sha256"] = request.payload_hash;
  if (!credentials.session_token.empty())
    headers["x-amz-security-token"] = credentials.session_token;

  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = request.method + "\n" + request.path + "\n" +
                                query_text(request.query) + "\n" + lines + "\n" + names + "\n" +
                                request.payload_hash;
  const std::string scope = day + "/" + region + "/s3/aws4_request";
  const std::string text =
      "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + hex(sha256(canonical));
  std::string key = "AWS4" + credentials.secret_key;
  for (const std::string& part : {day, region, std::string("s3"), std::string("aws4_request")})
    key = bytes_of(hmac(key, part));
  headers["authorization"] = "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + scope +
                             ",SignedHeaders=" + names + ",Signature=" + hex(hmac(key, text));
  headers.erase("host"); // libcurl adds it
  return headers;
}

} // namespace dllm::store
