// The server on libevent.

#include "http_server.h"
#include "own_host.h"
#include "slow_clients_libevent.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>

#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <utility>

namespace dllm::cli {
namespace {

constexpr int kSeconds = 30;                 // for a client that neither sends nor takes bytes
constexpr ev_ssize_t kMostHeader = 16 << 10; // bytes
constexpr timeval kTick{0, 20'000};
constexpr int kClientLeft = 499;

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

std::string body_of(evhttp_request* request) {
  evbuffer* buffer = evhttp_request_get_input_buffer(request);
  std::string body(evbuffer_get_length(buffer), '\0');
  evbuffer_copyout(buffer, body.data(), body.size());
  return body;
}

const char* method_name(evhttp_cmd_type command) {
  switch (command) {
  case EVHTTP_REQ_GET: return "GET";
  case EVHTTP_REQ_HEAD: return "HEAD";
  case EVHTTP_REQ_POST: return "POST";
  case EVHTTP_REQ_PUT: return "PUT";
  case EVHTTP_REQ_DELETE: return "DELETE";
  case EVHTTP_REQ_OPTIONS: return "OPTIONS";
  default: return "another method";
  }
}

HttpAnswer refusal(int status, const std::string& why) {
  return {status, "text/plain; charset=utf-8", why + "\n"};
}

} // namespace

// What the exchanges of a server report to it.
struct ExchangeNotes {
  std::function<void(const std::string& path, int status)> on_answer; // may be empty
  SlowClients slow_clients;
};

class LibeventExchange final : public HttpExchange {
public:
  // origin: the page that may read the answer; "": no header says so. The notes live longer.
  LibeventExchange(evhttp_request* request, std::string origin, ExchangeNotes& notes)
      : notes_(notes), request_(request), connection_(evhttp_request_get_connection(request)),
        method_(method_name(evhttp_request_get_command(request))), path_(path_of(request)),
        body_(body_of(request)), origin_(std::move(origin)) {
    evhttp_connection_set_closecb(connection_, on_close, this);
    notes_.slow_clients.has_request(evhttp_connection_get_bufferevent(connection_));
  }
  ~LibeventExchange() override {
    if (request_ == nullptr) return;
    if (is_begun_)
      end();
    else
      send(refusal(500, "the request was dropped"));
  }
  LibeventExchange(const LibeventExchange&) = delete;
  LibeventExchange& operator=(const LibeventExchange&) = delete;

  std::string method() const override { return method_; }
  std::string path() const override { return path_; }
  std::string header(const char* name) const override {
    return request_ != nullptr ? header_of(request_, name) : "";
  }
  const std::string& body() const override { return body_; }
  std::string client() const override {
    if (request_ == nullptr) return "";
    char* address = nullptr;
    ev_uint16_t port = 0;
    evhttp_connection_get_peer(connection_, &address, &port);
    return address != nullptr ? address : "";
  }

  void send(const HttpAnswer& answer) override {
    if (request_ == nullptr) return;
    add_headers(answer);
    evhttp_add_header(headers(), "Content-Length", std::to_string(answer.body.size()).c_str());
    evbuffer* body = evbuffer_new();
    if (method_ != "HEAD") evbuffer_add(body, answer.body.data(), answer.body.size());
    evhttp_send_reply(finish(), answer.status, nullptr, body);
    evbuffer_free(body);
    note(answer.status);
  }
  void begin(const HttpAnswer& head) override {
    if (request_ == nullptr) return;
    add_headers(head);
    // While pieces are written libevent reads from the client, which has nothing to send. Its time
    // would end an answer whose next piece takes longer.
    set_reading_time(nullptr);
    evhttp_send_reply_start(request_, head.status, nullptr);
    is_begun_ = true;
    note(head.status);
  }
  void write(std::string_view piece) override {
    if (request_ == nullptr || piece.empty()) return;
    evbuffer* chunk = evbuffer_new();
    evbuffer_add(chunk, piece.data(), piece.size());
    evhttp_send_reply_chunk(request_, chunk);
    evbuffer_free(chunk);
  }
  void end() override {
    if (request_ != nullptr) evhttp_send_reply_end(finish());
  }

  bool is_gone() const override { return request_ == nullptr; }
  size_t waiting_bytes() const override {
    if (request_ == nullptr) return 0;
    return evbuffer_get_length(
        bufferevent_get_output(evhttp_connection_get_bufferevent(connection_)));
  }

  // libevent does not read from a client that waits for its answer, so it does not see it leave.
  void look_for_client() {
    if (request_ == nullptr) return;
    char byte = 0;
    const int socket = bufferevent_getfd(evhttp_connection_get_bufferevent(connection_));
    const ssize_t count = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool is_there =
        count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
    if (!is_there) evhttp_connection_free(connection_); // calls on_close
  }

private:
  void note(int status) const {
    if (notes_.on_answer) notes_.on_answer(path_, status);
  }
  void set_reading_time(const timeval* most) {
    constexpr timeval kWriting{kSeconds, 0};
    bufferevent_set_timeouts(evhttp_connection_get_bufferevent(connection_), most, &kWriting);
  }
  evkeyvalq* headers() { return evhttp_request_get_output_headers(request_); }
  void add_headers(const HttpAnswer& answer) {
    const auto add = [&](const char* key, const std::string& value) {
      evhttp_add_header(headers(), key, value.c_str());
    };
    if (!answer.type.empty()) add("Content-Type", answer.type);
    add("Cache-Control", "no-store");
    add("X-Content-Type-Options", "nosniff");
    add("Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
        "frame-ancestors 'none'");
    if (!origin_.empty()) {
      add("Access-Control-Allow-Origin", origin_);
      add("Vary", "Origin");
    }
    for (const auto& [key, value] : answer.headers) add(key.c_str(), value);
  }
  // Returns the request, which libevent releases after its answer.
  evhttp_request* finish() {
    evhttp_connection_set_closecb(connection_, nullptr, nullptr);
    constexpr timeval kReading{kSeconds, 0};
    set_reading_time(&kReading);
    notes_.slow_clients.has_answer(evhttp_connection_get_bufferevent(connection_));
    return std::exchange(request_, nullptr);
  }
  // The connection is about to be released. libevent releases its request too, but for one whose
  // answer has begun and whose connection failed: that one has no connection any more.
  static void on_close(evhttp_connection*, void* exchange) {
    auto* self = static_cast<LibeventExchange*>(exchange);
    evhttp_request* request = std::exchange(self->request_, nullptr);
    if (request != nullptr && !self->is_begun_) self->note(kClientLeft);
    if (request != nullptr && evhttp_request_get_connection(request) == nullptr)
      evhttp_send_reply_end(request);
  }

  ExchangeNotes& notes_;
  evhttp_request* request_; // null: the client is gone, or the answer is sent
  evhttp_connection* connection_;
  std::string method_, path_, body_, origin_;
  bool is_begun_ = false;
};

// Lets this process open more files than is usual, and not so many that bodies fill the memory.
void raise_limit_of_files() {
  constexpr rlim_t kFiles = 4096;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFiles) return;
  limit.rlim_cur = std::min(limit.rlim_max, kFiles);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A connection could not be taken, as without a free file. It waits, and the next look tries again.
// Without this function libevent would write a line for each try, and try without a pause.
void on_accept_error(evconnlistener* listener, void*) {
  evconnlistener_disable(listener);
}

struct HttpServer::State {
  struct Free {
    void operator()(event_base* base) const { event_base_free(base); }
    void operator()(evhttp* server) const { evhttp_free(server); }
    void operator()(event* one) const { event_free(one); }
  };
  HttpSettings settings;
  Handler handler;
  ExchangeNotes notes;
  int64_t port = 0;
  const std::function<void()>* tick = nullptr;
  std::list<std::weak_ptr<LibeventExchange>> open;
  int wake_fd = -1;
  std::unique_ptr<event_base, Free> base;
  std::unique_ptr<evhttp, Free> server; // released before its base
  evhttp_bound_socket* bound = nullptr;
  std::unique_ptr<event, Free> timer, woken;

  ~State() {
    timer.reset();
    woken.reset();
    if (wake_fd >= 0) ::close(wake_fd);
  }

  bool answers_to(const std::string& host) const {
    if (is_own_host(host) || is_named_host(host, settings.hosts)) return true;
    const bool is_listed = is_loopback(settings.address) || !settings.hosts.empty();
    const bool is_ipv6 = settings.address.find(':') != std::string::npos;
    return !is_listed ||
           is_named_host(host, {is_ipv6 ? "[" + settings.address + "]" : settings.address});
  }

  // Returns why a request is refused; "": it is not.
  std::string refusal_of(evhttp_request* request, std::string& origin) const {
    const std::string host = header_of(request, "Host");
    if (!answers_to(host)) {
      return "this request asks for \"" + host +
             "\"; the server answers to localhost, and to the names of dllm serve --hosts";
    }
    origin = header_of(request, "Origin");
    if (origin.empty()) return "";
    const bool is_own = origin == "http://" + host || origin == "https://" + host;
    const bool is_named = std::ranges::any_of(
        settings.origins, [&](const std::string& one) { return one == "*" || one == origin; });
    return is_own || is_named ? "" : "this server does not answer to pages of other origins";
  }

  void take(evhttp_request* request) {
    std::string origin;
    const std::string why = refusal_of(request, origin);
    const auto exchange =
        std::make_shared<LibeventExchange>(request, why.empty() ? origin : std::string(), notes);
    open.push_back(exchange);
    if (!why.empty()) return exchange->send(refusal(403, why));
    if (settings.most_body == 0 && exchange->method() != "GET" && exchange->method() != "HEAD")
      return exchange->send(refusal(405, "this server has the methods GET and HEAD alone"));
    try {
      handler(exchange);
    } catch (const std::exception& error) {
      exchange->send(refusal(500, error.what()));
    }
  }

  void look() {
    evconnlistener_enable(evhttp_bound_socket_get_listener(bound));
    notes.slow_clients.forget_old();
    for (auto it = open.begin(); it != open.end();) {
      const auto exchange = it->lock();
      if (exchange != nullptr) exchange->look_for_client();
      it = exchange == nullptr || exchange->is_gone() ? open.erase(it) : std::next(it);
    }
    if (tick != nullptr) (*tick)();
  }

  static void on_request(evhttp_request* request, void* state) {
    static_cast<State*>(state)->take(request);
  }
  static void on_timer(evutil_socket_t, short, void* state) { static_cast<State*>(state)->look(); }
  static void on_wake(evutil_socket_t fd, short, void* state) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = ::read(fd, &count, sizeof count);
    const auto* tick = static_cast<State*>(state)->tick;
    if (tick != nullptr) (*tick)();
  }
};

HttpServer::HttpServer(const HttpSettings& settings, Handler handler)
    : state_(std::make_unique<State>()) {
  raise_limit_of_files();
  State& state = *state_;
  state.settings = settings;
  state.handler = std::move(handler);
  state.base.reset(event_base_new());
  state.server.reset(state.base != nullptr ? evhttp_new(state.base.get()) : nullptr);
  state.wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  evhttp* server = state.server.get();
  if (server == nullptr || state.wake_fd < 0)
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "the HTTP server cannot start");
  evhttp_set_timeout(server, kSeconds);
  evhttp_set_max_headers_size(server, kMostHeader);
  evhttp_set_max_body_size(server, settings.most_body);
  // A method that is not served has an answer of its own.
  evhttp_set_allowed_methods(server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                         EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
  evhttp_set_gencb(server, State::on_request, state_.get());
  state.notes.slow_clients.look_at(server, settings.most_receiving);
  errno = 0;
  state.bound = evhttp_bind_socket_with_handle(server, settings.address.c_str(),
                                               static_cast<ev_uint16_t>(settings.port));
  if (state.bound == nullptr) {
    throw Failure(DLLM_UNAVAILABLE,
                  "port " + std::to_string(settings.port) + " of " + settings.address +
                      " cannot be used: " +
                      (errno == 0 ? std::string("it is not an address of this machine")
                                  : std::strerror(errno)),
                  "name another --port, or --port 0 for a free one");
  }
  evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(state.bound), on_accept_error);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(evhttp_bound_socket_get_fd(state.bound), reinterpret_cast<sockaddr*>(&address),
              &size);
  state.port =
      ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

HttpServer::~HttpServer() = default;

int64_t HttpServer::port() const {
  return state_->port;
}

void HttpServer::on_answer(std::function<void(const std::string&, int)> call) {
  state_->notes.on_answer = std::move(call);
}

void HttpServer::run(const std::function<void()>& tick) {
  State& state = *state_;
  state.tick = &tick;
  state.timer.reset(event_new(state.base.get(), -1, EV_PERSIST, State::on_timer, state_.get()));
  state.woken.reset(event_new(state.base.get(), state.wake_fd, EV_READ | EV_PERSIST, State::on_wake,
                              state_.get()));
  event_add(state.timer.get(), &kTick);
  event_add(state.woken.get(), nullptr);
  event_base_dispatch(state.base.get());
  state.tick = nullptr;
}

void HttpServer::stop() {
  // The last answers are still written.
  constexpr timeval kSoon{0, 50'000};
  event_base_loopexit(state_->base.get(), &kSoon);
}

void HttpServer::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(state_->wake_fd, &one, sizeof one);
}

} // namespace dllm::cli
