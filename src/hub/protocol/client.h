#pragma once
// Sends requests to the hub: follows redirects, repeats what may succeed later, and explains what
// the hub refuses. The token is sent to the hub's own host alone.

#include "base/http/http.h"
#include "base/task.h"
#include "hub/name.h"
#include "hub/settings.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::hub {

struct Request {
  std::string method; // GET, HEAD
  std::string path;   // below the endpoint, encoded
  std::string file;   // file of the repository, for messages; "" for the repository itself
  std::vector<std::string> headers = {};
  // Most attempts while no server answers at all, so that a machine without network waits little.
  int silent_attempts = 100;
  // The response of a redirect that has the hub's facts about a file is the result.
  bool ends_at_link = false;
  // Called for each redirect of the hub's own host, before it is followed. May be empty.
  std::function<void(const http::HttpResponse&)> check_redirect = nullptr;
  // As HttpRequest::receive.
  std::function<void(const http::HttpResponse&, std::string_view)> receive = nullptr;
};

// A client of one repository. Any thread may use it.
class Client {
public:
  Client(Settings settings, Name name) : settings_(std::move(settings)), name_(std::move(name)) {}

  const Settings& settings() const { return settings_; }
  const Name& name() const { return name_; }

  // "/api/models/org/name/revision/main?blobs=true"
  std::string list_path() const;
  // "/org/name/resolve/COMMIT/FILE", "/datasets/..." for a data set
  std::string file_path(const std::string& commit, const std::string& file) const;

  // Sends a request once and returns the last response, whatever its status is. The response of the
  // hub that has X-Repo-Commit adds this header. Fails with unavailable if the request may succeed
  // later, with failed_precondition or data_loss for a redirect that is not followed.
  http::HttpResponse send_once(const Request& request, const Task* task) const;
  // Sends a request, repeats it after passing failures, and fails unless the status is 2xx, or a
  // redirect that Request::ends_at_link asks for.
  http::HttpResponse send(const Request& request, const Task* task) const;

  // Returns the pause before attempt `attempt` + 1: the server's Retry-After, else growing. Fails
  // with unavailable for a Retry-After of more than two minutes.
  double pause_before_next(const http::HttpResponse& response, int attempt) const;
  [[noreturn]] void fail_response(const Request& request, const http::HttpResponse& response) const;
  // "model org/name", or "tokenizer.json of model org/name"
  std::string shown_file(const std::string& file) const;
  // Fails with unavailable after the last attempt of a request.
  [[noreturn]] void fail_attempts(const std::string& file, int attempts,
                                  const std::string& reason) const;

private:
  // Sends one request to one host. Errors that cannot pass name the file.
  http::HttpResponse perform(const Request& request, http::HttpRequest sent,
                             const Task* task) const;
  std::string without_token(std::string text) const;

  Settings settings_;
  Name name_;
};

// Returns text of a server as one short line without control characters.
std::string printable(std::string_view text);
// Returns the reason of a response that is not a success, as one short line: "status 503: busy".
std::string reason_of(const http::HttpResponse& response);

} // namespace dllm::hub
