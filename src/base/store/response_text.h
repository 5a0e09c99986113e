#pragma once
// The XML that S3 servers answer with: lists, upload ids, errors. Flat and without attributes, so elements are found by
// their tags. The text comes from outside: nothing in it is trusted to be there or to end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::store {

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
