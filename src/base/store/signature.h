#pragma once
// AWS Signature Version 4: what proves to an S3 server who sends a request, without sending the secret
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Cloud Storage takes it too.

#include "base/store/address.h"

#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::store {

using Query =
    std::vector<std::pair<std::string, std::string>>; // names and values as they are, not encoded

struct Unsigned {
  std::string method;
  std::string host;
  std::string path; // encoded
  Query query;
  std::map<std::string, std::string> headers; // names in lower case
  std::string payload_hash;                   // SHA-256 of the body, hexadecimal
  std::time_t time = 0;
};

// "a=1&b=%20", sorted by name and value as the signature wants it.
std::string query_text(Query query);

// The headers to send: those of the request, x-amz-date, x-amz-content-sha256, x-amz-security-token, authorization. All
// of them are signed, and so is the host.
std::map<std::string, std::string> sign(const Unsigned& request, const Credentials& credentials,
                                        const std::string& region);

} // namespace dllm::store
