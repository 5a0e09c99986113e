#pragma once
// The parts of a URL, and its encoding.

#include <optional>
#include <string>
#include <string_view>

namespace dllm::http {

// A letter, a digit or one of "-._~", which a URL has as they are.
bool is_unreserved(char c);

// Percent-encodes all characters except letters, digits, "-._~" and, if keep_slash is true, '/'.
std::string uri_encoded(std::string_view text, bool keep_slash);

struct Url {
  std::string scheme; // "https", "http"
  std::string host;   // "huggingface.co", "127.0.0.1:9000", in lower case
  std::string path;   // from the first '/' on, with the query; "/" at least

  std::string origin() const { return scheme + "://" + host; }
  std::string text() const { return origin() + path; }
  bool is_loopback() const; // localhost, 127.x.x.x or [::1]
};

// Parses an absolute URL of http or https. Returns nothing for any other text, and for a URL with a
// user, a fragment or a character that a URL has encoded.
std::optional<Url> parse_url(std::string_view text);

// Returns the URL that `location` of a redirect names, which may be relative to `from`.
std::optional<Url> redirected(const Url& from, std::string_view location);

} // namespace dllm::http
