// The server on libevent.

#include "http_server.h"
#include "own_host.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace dllm::cli {
namespace {

constexpr int kSeconds = 30;                 // for a request that does not come to its end
constexpr ev_ssize_t kMostHeader = 16 << 10; // bytes

std::string header_of(evhttp_request* request, const char* name) {
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value != nullptr ? value : "";
}

std::string path_of(evhttp_request* request) {
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri != nullptr ? evhttp_uri_get_path(uri) : nullptr;
  if (path == nullptr || *path == '\0') return "/";
  size_t size = 0;
  char* decoded = evhttp_uridecode(path, 0, &size);
  const std::string text = decoded != nullptr ? std::string(decoded, size) : std::string(path);
  std::free(decoded);
  return text;
}

void send(evhttp_request* request, const HttpAnswer& answer) {
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", answer.type.c_str());
  evhttp_add_header(headers, "Content-Length", std::to_string(answer.body.size()).c_str());
  evhttp_add_header(headers, "Cache-Control", "no-store");
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  evhttp_add_header(headers, "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; "
                    "connect-src 'self'; frame-ancestors 'none'");
  evbuffer* body = evbuffer_new();
  if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD)
    evbuffer_add(body, answer.body.data(), answer.body.size());
  evhttp_send_reply(request, answer.status, nullptr, body);
  evbuffer_free(body);
}

HttpAnswer refusal(int status, const std::string& why) {
  return {status, "text/plain; charset=utf-8", why + "\n"};
}

} // namespace

struct HttpServer::State {
  struct Free {
    void operator()(event_base* base) const { event_base_free(base); }
    void operator()(evhttp* server) const { evhttp_free(server); }
    void operator()(event* timer) const { event_free(timer); }
  };
  std::unique_ptr<event_base, Free> base;
  std::unique_ptr<evhttp, Free> server; // released before its base
  Handler handler;
  int64_t port = 0;
  dllm_task* task = nullptr;

  HttpAnswer answer(evhttp_request* request) const {
    if (!is_own_host(header_of(request, "Host"), port))
      return refusal(403, "this server answers to 127.0.0.1 and localhost alone");
    const std::string origin = header_of(request, "Origin");
    if (!origin.empty() && !(origin.starts_with("http://") && is_own_host(origin.substr(7), port)))
      return refusal(403, "this server does not answer to pages of other origins");
    const evhttp_cmd_type method = evhttp_request_get_command(request);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
      return refusal(405, "this server has the methods GET and HEAD alone");
    try {
      return handler(path_of(request));
    } catch (const std::exception& error) {
      return refusal(500, error.what());
    }
  }

  static void on_request(evhttp_request* request, void* state) {
    send(request, static_cast<State*>(state)->answer(request));
  }
  static void on_timer(evutil_socket_t, short, void* state) {
    auto* self = static_cast<State*>(state);
    if (dllm_task_is_cancelled(self->task) != 0) event_base_loopbreak(self->base.get());
  }
};

HttpServer::HttpServer(int64_t port, Handler handler) : state_(std::make_unique<State>()) {
  state_->handler = std::move(handler);
  state_->base.reset(event_base_new());
  state_->server.reset(state_->base != nullptr ? evhttp_new(state_->base.get()) : nullptr);
  evhttp* server = state_->server.get();
  if (server == nullptr) throw Failure(DLLM_RESOURCE_EXHAUSTED, "the HTTP server cannot start");
  evhttp_set_timeout(server, kSeconds);
  evhttp_set_max_headers_size(server, kMostHeader);
  evhttp_set_max_body_size(server, 0);
  // A method that is not served has an answer of its own.
  evhttp_set_allowed_methods(server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                         EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
  evhttp_set_gencb(server, State::on_request, state_.get());
  errno = 0;
  evhttp_bound_socket* bound =
      evhttp_bind_socket_with_handle(server, "127.0.0.1", static_cast<ev_uint16_t>(port));
  if (bound == nullptr) {
    throw Failure(DLLM_UNAVAILABLE,
                  "port " + std::to_string(port) +
                      " of 127.0.0.1 cannot be used: " + std::strerror(errno),
                  "name another --port, or leave it out for a free one");
  }
  sockaddr_in address{};
  socklen_t size = sizeof address;
  getsockname(evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address), &size);
  state_->port = ntohs(address.sin_port);
}

HttpServer::~HttpServer() = default;

int64_t HttpServer::port() const {
  return state_->port;
}

void HttpServer::run(dllm_task* task) {
  constexpr timeval kTenth{0, 100'000};
  state_->task = task;
  const std::unique_ptr<event, State::Free> timer(
      event_new(state_->base.get(), -1, EV_PERSIST, State::on_timer, state_.get()));
  event_add(timer.get(), &kTenth);
  event_base_dispatch(state_->base.get());
}

} // namespace dllm::cli
