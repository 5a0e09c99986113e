#pragma once
// Signs requests to S3 servers and parses the XML of their responses.

#include "base/store/address.h"

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::store {

// Names and values, not encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

// A request before it is signed with AWS Signature Version 4, which proves the sender's identity
// without sending the secret
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Cloud Storage
// accepts it too.
struct Unsigned {
  std::string method;
  std::string host;
  std::string path; // encoded
  Query query;
  std::map<std::string, std::string> headers; // names in lower case
  std::string payload_hash;                   // SHA-256 of the body, hexadecimal
  std::time_t time = 0;
};

// Returns the encoded query, "a=1&b=%20", sorted by name and value as the signature requires.
std::string query_text(Query query);

// Returns the headers of the request with x-amz-date, x-amz-content-sha256, x-amz-security-token
// (if there is a session token) and authorization. The signature covers the host and all headers
// but authorization.
std::map<std::string, std::string> sign(const Unsigned& request, const Credentials& credentials,
                                        const std::string& region);

// The XML of S3 responses (lists, upload ids, errors) is flat and has no attributes, so elements
// are found by their tags. The text comes from outside, so an element may be missing or may not
// end.

// Returns the content of every <name>...</name> in order, with references not replaced.
std::vector<std::string_view> elements(std::string_view xml, std::string_view name);
// Returns the text of the first such element with its references (&amp; &#38;) replaced, or ""
// without one.
std::string element_text(std::string_view xml, std::string_view name);

struct ListedObject {
  std::string key;
  int64_t size = 0;
};
struct ListPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders; // common prefixes, with '/' at their end
  std::string next;                 // token of the next page; "" on the last page
};
// Parses a response of ListObjectsV2. Fails with data_loss for any other text.
ListPage parse_list(std::string_view xml);

} // namespace dllm::store
