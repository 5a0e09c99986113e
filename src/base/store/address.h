#pragma once
// Parses "s3://bucket/key" and "gs://bucket/key", and reads endpoint and credentials from the
// environment.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {

// Returns true if the path begins with "s3://" or "gs://".
bool is_store_path(std::string_view path);

namespace store {

struct Address {
  std::string scheme; // "s3", "gs"
  std::string bucket;
  std::string key; // without '/' at either end; "" is the whole bucket
};

// Fails with invalid_argument if the bucket or the key is invalid. Parts "." and ".." of a key are
// invalid.
Address parse_address(std::string_view path);

struct Credentials {
  std::string access_key, secret_key;
  std::string session_token; // "" for permanent keys
};

struct Settings {
  std::string endpoint; // "https://host[:port]", without '/' at its end
  std::string region;
  Credentials credentials;
  bool bucket_in_path = true; // false: the bucket is part of the host name
  int attempts = 8;           // attempts for one request
};

// Reads the settings from the environment. Fails with unauthenticated, naming the variables, if the
// keys are not set.
// s3 reads AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION,
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
// gs reads GS_ENDPOINT_URL, GS_REGION, GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY (an HMAC key of
// Cloud Storage).
// Both read AWS_MAX_ATTEMPTS.
Settings settings_of(const Address& address);

// The parts of a URL. Host and path are "examplebucket.s3.eu-west-1.amazonaws.com" and "/key%20of",
// or "127.0.0.1:9000" and "/bucket/key%20of".
struct Target {
  std::string scheme; // "https", "http"
  std::string host;
  std::string path;
};
Target target_of(const Settings& settings, const Address& address);

// Removes the keys from `text`, for logs and errors.
std::string without_keys(std::string text, const Credentials& credentials);

} // namespace store
} // namespace dllm
