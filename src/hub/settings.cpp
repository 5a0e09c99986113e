#include "hub/settings.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/http/url.h"

#include <algorithm>

namespace dllm::hub {
namespace {

bool is_on(const char* name) {
  std::string value = variable(name);
  for (char& c : value) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// Returns a path with its "~" replaced.
std::string with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const std::string home = variable("HOME");
  return home.empty() ? path : home + path.substr(1);
}

// The folder HF_HOME; "" if nothing says where it is.
std::string hub_home() {
  if (const std::string own = variable("HF_HOME"); !own.empty()) return with_home(own);
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return join_path(with_home(cache), "huggingface");
  const std::string home = variable("HOME");
  return home.empty() ? "" : join_path(home, ".cache/huggingface");
}

std::string token_in_file() {
  std::string path = with_home(variable("HF_TOKEN_PATH"));
  if (path.empty() && !hub_home().empty()) path = join_path(hub_home(), "token");
  constexpr int64_t kMostBytes = 4096;
  return path.empty() || !file_exists(path) ? "" : read_text(path, kMostBytes);
}

std::string read_token() {
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  std::string token = first_variable("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "");
  if (token.empty()) token = token_in_file();
  const std::string_view spaces = " \t\r\n";
  const size_t begin = std::min(token.find_first_not_of(spaces), token.size());
  token = token.substr(begin, token.find_last_not_of(spaces) + 1 - begin);
  const auto fits = [](char c) { return c > 0x20 && c < 0x7F; };
  if (std::all_of(token.begin(), token.end(), fits)) return token;
  fail_with_hint("set HF_TOKEN to a token of the hub, which has letters, digits and '_'",
                 Code::failed_precondition,
                 "the token for the hub has a character that is not printable");
}

std::string read_endpoint() {
  std::string endpoint = variable("HF_ENDPOINT");
  if (endpoint.empty()) return "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (http::parse_url(endpoint) && endpoint.find('?') == std::string::npos) return endpoint;
  // The error does not print the endpoint, because it may contain a password.
  fail_with_hint("write https://hub.example.com, without a user", Code::failed_precondition,
                 "HF_ENDPOINT is not the address of a server");
}

} // namespace

std::string cache_folder() {
  const std::string own = first_variable("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "");
  if (!own.empty()) return with_home(own);
  return hub_home().empty() ? "" : join_path(hub_home(), "hub");
}

Settings settings_of_environment() {
  Settings made;
  made.endpoint = read_endpoint();
  made.is_offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
  made.cache = cache_folder();
  if (made.cache.empty()) {
    fail_with_hint("set HF_HUB_CACHE to a folder", Code::failed_precondition,
                   "there is no folder for the cache of the hub: HOME is not set");
  }
  made.token = read_token();
  return made;
}

} // namespace dllm::hub
