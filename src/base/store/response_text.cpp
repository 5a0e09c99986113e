#include "base/store/protocol.h"

#include "base/error.h"

#include <charconv>

namespace dllm::store {
namespace {

// Returns the character that "amp", "#38" or "#x26" names; "" for an unknown or non-ASCII one.
std::string referenced(std::string_view name) {
  if (name == "amp") return "&";
  if (name == "lt") return "<";
  if (name == "gt") return ">";
  if (name == "quot") return "\"";
  if (name == "apos") return "'";
  if (!name.starts_with('#')) return {};
  name.remove_prefix(1);
  const int base = name.starts_with('x') ? 16 : 10;
  if (base == 16) name.remove_prefix(1);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), code, base);
  constexpr uint32_t kAscii = 0x80; // servers send other characters as UTF-8
  if (error != std::errc() || end != name.data() + name.size() || code == 0 || code >= kAscii)
    return {};
  return std::string(1, static_cast<char>(code));
}

std::string plain_text(std::string_view text) {
  constexpr size_t kLongest = 8;
  std::string made;
  while (!text.empty()) {
    const size_t end =
        text.front() == '&' ? text.substr(0, kLongest + 1).find(';') : std::string_view::npos;
    const std::string one =
        end != std::string_view::npos ? referenced(text.substr(1, end - 1)) : std::string();
    if (one.empty()) {
      made += text.front();
      text.remove_prefix(1);
    } else {
      made += one;
      text.remove_prefix(end + 1);
    }
  }
  return made;
}

} // namespace

std::vector<std::string_view> elements(std::string_view xml, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">", close = "</" + std::string(name) + ">";
  std::vector<std::string_view> found;
  for (size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    const size_t end = xml.find(close, at);
    if (end == std::string_view::npos) break;
    found.push_back(xml.substr(at, end - at));
    at = end + close.size();
  }
  return found;
}

std::string element_text(std::string_view xml, std::string_view name) {
  const std::vector<std::string_view> found = elements(xml, name);
  return found.empty() ? std::string() : plain_text(found.front());
}

ListPage parse_list(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos ||
      xml.find("</ListBucketResult>") == std::string_view::npos) {
    fail(Code::data_loss, "the response to the list request is not a ListBucketResult");
  }
  ListPage made;
  for (const std::string_view entry : elements(xml, "Contents")) {
    ListedObject object{element_text(entry, "Key"), 0};
    const std::string size = element_text(entry, "Size");
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), object.size);
    if (object.key.empty() || error != std::errc() || end != size.data() + size.size() ||
        object.size < 0) {
      fail(Code::data_loss, "an entry of the list has no Key or no Size");
    }
    made.objects.push_back(std::move(object));
  }
  for (const std::string_view entry : elements(xml, "CommonPrefixes"))
    made.folders.push_back(element_text(entry, "Prefix"));
  if (element_text(xml, "IsTruncated") == "true") {
    made.next = element_text(xml, "NextContinuationToken");
    if (made.next.empty())
      fail(Code::data_loss,
           "the list of objects is truncated, but NextContinuationToken is missing");
  }
  return made;
}

} // namespace dllm::store
