#include "base/http/url.h"

#include "base/ascii.h"

#include <algorithm>

namespace dllm::http {
namespace {

// A character that may be in a host with its port.
bool is_host(char c) {
  return is_unreserved(c) || c == ':' || c == '[' || c == ']';
}

// A character that may be in a path with its query. A URL has others only percent-encoded.
bool is_in_path(char c) {
  return c > 0x20 && c < 0x7F && std::string_view("\\\"<>^`{|}#").find(c) == std::string_view::npos;
}

} // namespace

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string uri_encoded(std::string_view text, bool keep_slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string made;
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      made += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    made += '%';
    made += kDigits[byte >> 4];
    made += kDigits[byte & 15];
  }
  return made;
}

bool Url::is_loopback() const {
  const std::string name =
      host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos;
  return name == "localhost" || name == "[::1]" || (is_number && name.starts_with("127."));
}

std::optional<Url> parse_url(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos) return std::nullopt;
  Url made;
  made.scheme = std::string(text.substr(0, colon));
  made.scheme = lower_case(std::move(made.scheme));
  if (made.scheme != "https" && made.scheme != "http") return std::nullopt;
  const std::string_view rest = text.substr(colon + 3);
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  made.host = std::string(rest.substr(0, end));
  made.host = lower_case(std::move(made.host));
  made.path = std::string(rest.substr(end));
  if (!made.path.starts_with('/')) made.path.insert(0, "/");
  const bool fits = !made.host.empty() && made.host.front() != ':' &&
                    std::all_of(made.host.begin(), made.host.end(), is_host) &&
                    std::all_of(made.path.begin(), made.path.end(), is_in_path);
  return fits ? std::optional(made) : std::nullopt;
}

std::optional<Url> redirected(const Url& from, std::string_view location) {
  location = location.substr(0, location.find('#'));
  if (location.empty()) return std::nullopt;
  if (location.find("://") < location.find_first_of("/?")) return parse_url(location);
  if (location.starts_with("//")) return parse_url(from.scheme + ":" + std::string(location));
  if (location.starts_with('/')) return parse_url(from.origin() + std::string(location));
  const std::string path = from.path.substr(0, from.path.find('?'));
  return parse_url(from.origin() + path.substr(0, path.rfind('/') + 1) + std::string(location));
}

} // namespace dllm::http
