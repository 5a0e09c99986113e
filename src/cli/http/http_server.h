#pragma once
// An HttpServer answers HTTP requests of programs and browsers on this machine.

#include "../command.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dllm::cli {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
};

// Serves on 127.0.0.1 alone, with one thread. A request whose header Host names another machine is
// refused. Else a page of the network could point its own name to this address, and read the
// answers (DNS rebinding). A request that comes from a page of another origin is refused too.
class HttpServer {
public:
  // Answers to a path such as "/body", which is decoded and without the query.
  using Handler = std::function<HttpAnswer(const std::string& path)>;

  // Serves GET and HEAD; a request with a body is refused. port: 0 takes a free one. Throws Failure
  // when the port is in use, and in a build without libevent. An exception of the handler is an
  // answer with status 500.
  HttpServer(int64_t port, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int64_t port() const;
  // Serves until the task is cancelled, which is looked at ten times a second.
  void run(dllm_task* task);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace dllm::cli
