#include "hub/protocol/client.h"

#include "base/error.h"
#include "base/http/retry.h"
#include "base/http/url.h"
#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace dllm::hub {
namespace {

using http::HttpRequest;
using http::HttpResponse;
using http::Url;

constexpr int kMostRedirects = 10;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The token goes to the hub's own host, and in clear text only inside of this machine.
bool may_have_token(const Url& to, const std::string& home) {
  return to.origin() == home && (to.scheme == "https" || to.is_loopback());
}

// Returns where a redirect leads. Fails if it cannot or must not be followed.
Url next_of(const Url& from, const HttpResponse& response) {
  const std::string location = response.header("location");
  const std::optional<Url> next = http::redirected(from, location);
  if (!next) {
    fail(Code::data_loss, "{} redirects to \"{}\", which is not a URL", from.host,
         printable(location));
  }
  if (from.scheme == "https" && next->scheme == "http") {
    fail_with_hint("set HF_ENDPOINT to a server that keeps https", Code::failed_precondition,
                   "{} redirects from https to http", from.host);
  }
  return *next;
}

} // namespace

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string made(text.substr(0, kLongest));
  for (char& c : made) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  while (made.ends_with('.') || made.ends_with(' ')) made.pop_back();
  return made;
}

std::string reason_of(const HttpResponse& response) {
  const std::string text = printable(response.header("x-error-message"));
  return fmt::format("status {}{}{}", response.status, text.empty() ? "" : ": ", text);
}

std::string Client::list_path() const {
  return fmt::format("/api/{}/{}/revision/{}?blobs=true",
                     name_.kind == RepoKind::model ? "models" : "datasets", name_.repo,
                     http::uri_encoded(name_.revision, false));
}

std::string Client::file_path(const std::string& commit, const std::string& file) const {
  return fmt::format("{}/{}/resolve/{}/{}", name_.kind == RepoKind::model ? "" : "/datasets",
                     name_.repo, commit, http::uri_encoded(file, true));
}

std::string Client::shown_file(const std::string& file) const {
  return (file.empty() ? "" : file + " of ") + shown(name_);
}

std::string Client::without_token(std::string text) const {
  const std::string& token = settings_.token;
  if (token.empty()) return text;
  for (size_t at = text.find(token); at != std::string::npos; at = text.find(token, at + 3))
    text.replace(at, token.size(), "***");
  return text;
}

HttpResponse Client::perform(const Request& request, HttpRequest sent, const Task* task) const {
  bool is_received = false; // an error after that is the receiver's, and names its file
  if (request.receive) {
    sent.receive = [&](const HttpResponse& response, std::string_view piece) {
      is_received = true;
      request.receive(response, piece);
      is_received = false;
    };
  }
  try {
    return http::perform(sent, task);
  } catch (const Error& error) {
    const bool is_reason =
        error.code() == Code::failed_precondition || error.code() == Code::data_loss;
    if (is_received || !is_reason) throw;
    throw Error(error.code(), shown_file(request.file) + ": " + without_token(error.text()),
                error.hint());
  }
}

HttpResponse Client::send_once(const Request& request, const Task* task) const {
  std::optional<Url> at = http::parse_url(settings_.endpoint + request.path);
  if (!at) fail(Code::invalid_argument, "{} has no URL", shown_file(request.file));
  const std::string home = at->origin();
  std::string commit; // of the first response that names it
  for (int redirects = 0;; ++redirects) {
    HttpRequest sent;
    sent.method = request.method;
    sent.url = at->text();
    sent.headers = request.headers;
    sent.headers.emplace_back("Accept-Encoding: identity"); // sizes and ranges are of the file
    if (!settings_.token.empty() && may_have_token(*at, home))
      sent.headers.push_back("Authorization: Bearer " + settings_.token);
    HttpResponse response = perform(request, std::move(sent), task);
    if (commit.empty()) commit = response.header("x-repo-commit");
    const bool has_facts = request.ends_at_link && !response.header("x-linked-etag").empty();
    if (!is_redirect(response.status) || has_facts) {
      if (!commit.empty()) response.headers["x-repo-commit"] = commit;
      return response;
    }
    if (request.check_redirect && at->origin() == home) request.check_redirect(response);
    if (redirects == kMostRedirects) {
      fail(Code::data_loss, "{} redirects more than {} times, the last to {}",
           shown_file(request.file), kMostRedirects, at->host);
    }
    at = next_of(*at, response);
  }
}

HttpResponse Client::send(const Request& request, const Task* task) const {
  int attempts = settings_.attempts;
  for (int attempt = 0;; ++attempt) {
    std::string reason;
    double pause = http::pause_seconds(attempt, request.path, ::getpid());
    try {
      HttpResponse response = send_once(request, task);
      const bool is_linked = request.ends_at_link && is_redirect(response.status);
      if (response.is_success() || is_linked) return response;
      if (!http::is_passing_status(response.status)) fail_response(request, response);
      pause = pause_before_next(response, attempt);
      reason = reason_of(response);
    } catch (const Error& error) {
      if (error.code() != Code::unavailable || !error.hint().empty()) throw;
      reason = without_token(error.text());
      attempts = std::min(attempts, request.silent_attempts);
    }
    if (attempt + 1 >= attempts) fail_attempts(request.file, attempt + 1, reason);
    log(LogLevel::info, "{} is tried again in {:.1f} s: {}", shown_file(request.file), pause,
        reason);
    http::wait(pause, task);
  }
}

double Client::pause_before_next(const HttpResponse& response, int attempt) const {
  constexpr int64_t kLongest = 120; // seconds
  const std::string text = response.header("retry-after");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = !text.empty() && end == text.data() + text.size();
  if (!is_number || error != std::errc() || seconds < 0)
    return http::pause_seconds(attempt, name_.repo, ::getpid());
  if (seconds <= kLongest) return static_cast<double>(seconds);
  fail_with_hint("try again after that time; with HF_TOKEN the limits of an account hold",
                 Code::unavailable, "the hub answers {} again after {} seconds only ({})",
                 shown(name_), seconds, reason_of(response));
}

void Client::fail_attempts(const std::string& file, int attempts, const std::string& reason) const {
  fail_with_hint(fmt::format("check the network and {}; the same command goes on where it ended",
                             settings_.endpoint),
                 Code::unavailable, "{} cannot be loaded in {} attempt{}, the last: {}",
                 shown_file(file), attempts, attempts == 1 ? "" : "s", reason);
}

void Client::fail_response(const Request& request, const HttpResponse& response) const {
  const std::string code = response.header("x-error-code"), what = shown_file(request.file);
  const std::string page =
      settings_.endpoint + (name_.kind == RepoKind::model ? "/" : "/datasets/") + name_.repo;
  const std::string reason = without_token(reason_of(response));
  if (code == "GatedRepo" || (code.empty() && response.status == 403)) {
    fail_with_hint(
        fmt::format("accept the terms on {}, and set HF_TOKEN to a token of that account", page),
        Code::permission_denied,
        "{} is gated: the hub gives it to accounts that accepted its terms", shown(name_));
  }
  if (code == "RevisionNotFound") {
    fail_with_hint(fmt::format("{}/tree/main lists branches and tags", page), Code::not_found,
                   "{} has no revision {}", shown(name_), name_.revision);
  }
  if (code == "EntryNotFound")
    fail(Code::not_found, "{} has no file {}", shown(name_), request.file);
  if (code == "RepoNotFound" || response.status == 404) {
    fail_with_hint("check the name; a private one needs HF_TOKEN", Code::not_found,
                   "the hub has no {}", request.file.empty() ? shown(name_) : what);
  }
  if (response.status == 401) {
    fail_with_hint(settings_.token.empty()
                       ? "check the name; a private or gated one needs HF_TOKEN"
                       : "the hub does not accept the token: make a new one and set HF_TOKEN",
                   Code::unauthenticated, "the hub refuses {} ({})", what, reason);
  }
  if (!response.header("x-xet-hash").empty()) {
    fail_with_hint(
        "load it with Python: pip install huggingface_hub[hf_xet]; both fill the same cache",
        Code::unimplemented, "the hub offers {} by Xet alone ({})", what, reason);
  }
  fail_with_hint("set HF_ENDPOINT to a server of the hub's protocol, or try again later",
                 response.status >= 500 ? Code::unavailable : Code::failed_precondition,
                 "the hub refuses {} ({})", what, reason);
}

} // namespace dllm::hub
