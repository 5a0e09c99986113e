#include "base/store/address.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/http/url.h"

#include <algorithm>
#include <charconv>

namespace dllm {

bool is_store_path(std::string_view path) {
  return path.starts_with("s3://") || path.starts_with("gs://");
}

namespace store {
namespace {

// A bucket name has 3 to 222 lower-case letters, digits, '-', '.' and '_', and begins and ends with
// a letter or digit.
bool is_bucket(std::string_view name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto fits = [&](char c) { return is_word(c) || c == '-' || c == '.' || c == '_'; };
  return name.size() >= 3 && name.size() <= 222 && is_word(name.front()) && is_word(name.back()) &&
         std::all_of(name.begin(), name.end(), fits);
}

// A key is relative, has at most 1024 bytes, no control character, and no part that is empty, "."
// or "..".
bool is_key(std::string_view key) {
  if (key.size() > 1024) return false;
  for (const char c : key) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
  }
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

int attempts_of_environment() {
  constexpr int kUsual = 8, kMost = 100;
  const std::string text = variable("AWS_MAX_ATTEMPTS");
  if (text.empty()) return kUsual;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMost) {
    fail(Code::invalid_argument, "AWS_MAX_ATTEMPTS is \"{}\", expected a number from 1 to {}", text,
         kMost);
  }
  return count;
}

void check_endpoint(std::string& endpoint, const char* name) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t host = endpoint.find("://");
  const bool known = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  const std::string_view rest =
      known ? std::string_view(endpoint).substr(host + 3) : std::string_view();
  const auto fits = [](char c) {
    return http::is_unreserved(c) || c == ':' || c == '[' || c == ']';
  };
  if (!rest.empty() && std::all_of(rest.begin(), rest.end(), fits)) return;
  // The error does not print the endpoint, because it may contain a password.
  fail_with_hint("write https://storage.example.com:9000, without a user or a path",
                 Code::invalid_argument, "{} is not the address of a server", name);
}

Credentials keys_of(const char* access, const char* secret, const char* token) {
  Credentials made{variable(access), variable(secret), *token != '\0' ? variable(token) : ""};
  if (made.access_key.empty() || made.secret_key.empty()) {
    fail_with_hint(fmt::format("set {} and {}", access, secret), Code::unauthenticated,
                   "the object store needs keys: {} is not set",
                   made.access_key.empty() ? access : secret);
  }
  return made;
}

} // namespace

Address parse_address(std::string_view path) {
  Address made;
  made.scheme = std::string(path.substr(0, 2));
  std::string_view rest = path.substr(std::min<size_t>(path.size(), 5));
  const size_t slash = std::min(rest.find('/'), rest.size());
  made.bucket = std::string(rest.substr(0, slash));
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  while (rest.ends_with('/')) rest.remove_suffix(1);
  made.key = std::string(rest);
  const bool sized = made.bucket.size() >= 3 && made.bucket.size() <= 63;
  if (is_store_path(path) && !made.bucket.empty() && !sized) {
    fail_with_hint("s3://bucket/folder/name", Code::invalid_argument,
                   "{}: the bucket {} has {} characters; a bucket's name has 3 to 63", path,
                   made.bucket, made.bucket.size());
  }
  if (!is_store_path(path) || !is_bucket(made.bucket) || (!made.key.empty() && !is_key(made.key))) {
    fail_with_hint("s3://bucket/folder/name", Code::invalid_argument,
                   "{} is not a path in an object store", path);
  }
  return made;
}

Settings settings_of(const Address& address) {
  Settings made;
  made.attempts = attempts_of_environment();
  if (address.scheme == "gs") {
    made.endpoint =
        first_variable("GS_ENDPOINT_URL", "GS_ENDPOINT_URL", "https://storage.googleapis.com");
    made.region = first_variable("GS_REGION", "GS_REGION", "auto");
    made.credentials = keys_of("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", "");
    check_endpoint(made.endpoint, "GS_ENDPOINT_URL");
    return made;
  }
  made.region = first_variable("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1");
  made.endpoint = first_variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "");
  if (made.endpoint.empty()) {
    made.endpoint = "https://s3." + made.region + ".amazonaws.com";
    // The certificate of *.s3.REGION.amazonaws.com does not cover a bucket name with a dot.
    made.bucket_in_path = address.bucket.find('.') != std::string::npos;
  }
  made.credentials = keys_of("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN");
  check_endpoint(made.endpoint, "AWS_ENDPOINT_URL");
  return made;
}

Target target_of(const Settings& settings, const Address& address) {
  const size_t host = settings.endpoint.find("://");
  Target made{settings.endpoint.substr(0, host), settings.endpoint.substr(host + 3), "/"};
  if (settings.bucket_in_path)
    made.path += address.bucket + (address.key.empty() ? "" : "/");
  else
    made.host = address.bucket + "." + made.host;
  made.path += http::uri_encoded(address.key, true);
  return made;
}

std::string without_keys(std::string text, const Credentials& credentials) {
  for (const std::string* key :
       {&credentials.secret_key, &credentials.session_token, &credentials.access_key}) {
    if (key->empty()) continue;
    for (size_t at = text.find(*key); at != std::string::npos; at = text.find(*key, at + 3))
      text.replace(at, key->size(), "***");
  }
  return text;
}

} // namespace store
} // namespace dllm
