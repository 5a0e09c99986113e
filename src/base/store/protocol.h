#pragma once
// What requests and responses of S3 servers look like: signatures, and the XML of responses.

#include "base/store/address.h"

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::store {

// AWS Signature Version 4: what proves to an S3 server who sends a request, without sending the secret
// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). Cloud Storage takes it too.

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

// The XML that S3 servers answer with: lists, upload ids, errors. Flat and without attributes, so elements are found by
// their tags. The text comes from outside: nothing in it is trusted to be there or to end.

// The content of every <name>...</name>, in order, as it stands.
std::vector<std::string_view> elements(std::string_view xml, std::string_view name);
// The text of the first, with its references (&amp; &#38;) replaced; "" when there is none.
std::string element_text(std::string_view xml, std::string_view name);

struct ListedObject {
  std::string key;
  int64_t size = 0;
};
struct ListPage {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders; // common prefixes, with '/' at their end
  std::string next;                 // the token of the next page; "": it is the last
};
// The response of ListObjectsV2. data_loss when it is none.
ListPage parse_list(std::string_view xml);

} // namespace dllm::store
