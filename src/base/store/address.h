#pragma once
// Where an object store is and who asks it: "s3://bucket/key" and "gs://bucket/key", and what the environment says.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {

// Begins with "s3://" or "gs://".
bool is_store_path(std::string_view path);

namespace store {

struct Address {
  std::string scheme; // "s3", "gs"
  std::string bucket;
  std::string key; // without '/' at either end; "" is the whole bucket
};

// invalid_argument for a bucket or a key that cannot be one; parts "." and ".." among them.
Address parse_address(std::string_view path);

struct Credentials {
  std::string access_key, secret_key;
  std::string session_token; // "" for keys that last
};

struct Settings {
  std::string endpoint; // "https://host[:port]", without '/' at its end
  std::string region;
  Credentials credentials;
  bool bucket_in_path = true; // else in the host's name
  int attempts = 8;           // of one request
};

// s3: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN. gs: GS_ENDPOINT_URL, GS_REGION, GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY (an HMAC key of Cloud Storage).
// Both: AWS_MAX_ATTEMPTS. unauthenticated naming the variables without keys.
Settings settings_of(const Address& address);

// Percent-encodes all but letters, digits and "-._~"; '/' stays where `keep_slash`.
std::string uri_encoded(std::string_view text, bool keep_slash);

// "examplebucket.s3.eu-west-1.amazonaws.com" and "/key%20of", or "127.0.0.1:9000" and "/bucket/key%20of".
struct Target {
  std::string scheme; // "https", "http"
  std::string host;
  std::string path;
};
Target target_of(const Settings& settings, const Address& address);

// `text` without the keys, for logs and errors.
std::string without_keys(std::string text, const Credentials& credentials);

} // namespace store
} // namespace dllm
