#pragma once
// An HttpServer takes HTTP requests of programs and browsers. Each request is an exchange, which is
// answered at once or later, as a whole or in pieces.

#include "../command.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// One request and its answer. All calls are on the thread of HttpServer::run.
class HttpExchange {
public:
  virtual ~HttpExchange() = default;

  virtual std::string method() const = 0; // GET, HEAD, POST, ...
  virtual std::string path() const = 0;   // such as "/body": decoded and without the query
  virtual std::string header(const char* name) const = 0; // "": none
  virtual const std::string& body() const = 0;
  virtual std::string client() const = 0; // its address

  // Sends the whole answer.
  virtual void send(const HttpAnswer& answer) = 0;
  // Sends status and headers, then pieces of a body whose size is unknown, then its end. The body
  // of `head` is not sent.
  virtual void begin(const HttpAnswer& head) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;

  virtual bool is_gone() const = 0;         // the client left, or the answer is sent
  virtual size_t waiting_bytes() const = 0; // written, and not taken by the client yet
};
using HttpExchangeRef = std::shared_ptr<HttpExchange>;

struct HttpSettings {
  std::string address = "127.0.0.1"; // to listen on: IPv4 or IPv6
  int64_t port = 0;                  // 0: a free one
  int64_t most_body = 0;             // bytes; 0: a request with a body is refused
  double most_receiving = 60;        // seconds in which a client sends a request; 0: no limit
  // Pages that may ask, such as "https://chat.example"; "*": all. The server's own may always.
  std::vector<std::string> origins = {};
  // Names in the header Host that it answers to in addition to localhost; "*": all. Without names a
  // server on a loopback address answers to its own, and another server to all.
  std::vector<std::string> hosts = {};
};

// Serves on one thread. It refuses a request whose header Host has another name than those of
// HttpSettings::hosts. Else a page of the network could point its own name to this address, and
// read the answers (DNS rebinding). It also refuses requests of pages of other origins.
class HttpServer {
public:
  // A handler sends the answer of an exchange, or keeps the exchange for later. An exception of the
  // handler is an answer with status 500.
  using Handler = std::function<void(const HttpExchangeRef& exchange)>;

  // Throws Failure when the address or the port cannot be used, and in a build without libevent.
  HttpServer(const HttpSettings& settings, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int64_t port() const;
  // The function is called with the path and the status of each answer, on the thread of run(). The
  // status 499 is a client that left before its answer.
  void on_answer(std::function<void(const std::string& path, int status)> call);
  // Serves until stop(). Calls `tick` every 20 ms and after each wake().
  void run(const std::function<void()>& tick);
  // Called on the thread of run().
  void stop();
  // Any thread: `tick` is called soon.
  void wake();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace dllm::cli
