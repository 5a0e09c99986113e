#include "base/http/http.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/http/curl_library.h"
#include "base/http/url.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace dllm::http {
namespace {

constexpr int64_t kMaxResponse = int64_t{16} << 20; // bytes; the largest responses are lists
constexpr size_t kMaxHead = size_t{256} << 10;      // bytes of a response's head
constexpr long kConnectMs = 10'000;
constexpr int kLookMs = 20; // a transfer checks its task this often

struct Connection {
  void* multi = nullptr; // keeps the socket open between two transfers
  void* easy = nullptr;
};

// The idle connections. The pool is never destroyed, because libcurl's own clean-up at exit may run
// before.
class Pool {
public:
  Connection take() {
    const CurlLibrary& curl = curl_library();
    {
      const std::lock_guard lock(mutex_);
      // A forked child must not use the sockets of its parent.
      if (process_ != ::getpid()) {
        idle_.clear();
        process_ = ::getpid();
      }
      if (!idle_.empty()) {
        const Connection found = idle_.back();
        idle_.pop_back();
        return found;
      }
    }
    Connection made{curl.multi_init(), curl.easy_init()};
    if (made.multi == nullptr || made.easy == nullptr) throw std::bad_alloc();
    return made;
  }
  void put(const Connection& connection) {
    constexpr size_t kKept = 16;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kKept && process_ == ::getpid()) return idle_.push_back(connection);
    curl_library().easy_cleanup(connection.easy);
    curl_library().multi_cleanup(connection.multi);
  }

private:
  std::mutex mutex_;
  std::vector<Connection> idle_;
  pid_t process_ = ::getpid();
};

Pool& pool() {
  static Pool* const shared = new Pool;
  return *shared;
}

// The state that the callbacks of a transfer write to.
struct Receiver {
  const HttpRequest& request;
  HttpResponse response;
  void* easy;
  bool too_long = false;
  std::exception_ptr failure = nullptr; // of HttpRequest::receive
  size_t head_bytes = 0;                // of all lines of the head

  // Passes a piece of the body on. Returns false if HttpRequest::receive failed.
  bool pass_on(long status, std::string_view piece) noexcept {
    try {
      response.status = static_cast<int>(status);
      request.receive(response, piece);
      response.received += static_cast<int64_t>(piece.size());
      return true;
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  }
};

size_t receive(char* data, size_t one, size_t count, void* user) noexcept {
  Receiver& receiver = *static_cast<Receiver*>(user);
  HttpResponse& response = receiver.response;
  const size_t size = one * count;
  long status = 0;
  curl_library().easy_getinfo(receiver.easy, kCurlResponseCode, &status);
  const bool is_success = status >= 200 && status < 300;
  if (receiver.request.receive && is_success)
    return receiver.pass_on(status, {data, size}) ? size : 0;
  if (receiver.request.to != nullptr && is_success) {
    receiver.too_long = static_cast<int64_t>(size) > receiver.request.room - response.received;
    if (receiver.too_long) return 0;
    std::memcpy(receiver.request.to + response.received, data, size);
    response.received += static_cast<int64_t>(size);
    return size;
  }
  receiver.too_long = static_cast<int64_t>(response.body.size() + size) > kMaxResponse;
  if (receiver.too_long) return 0;
  try {
    response.body.append(data, size);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return size;
}

// Receives one line "Name: value" with its line end.
size_t receive_header(char* data, size_t one, size_t count, void* user) noexcept {
  const size_t size = one * count;
  Receiver& receiver = *static_cast<Receiver*>(user);
  receiver.head_bytes += size;
  receiver.too_long = receiver.head_bytes > kMaxHead;
  if (receiver.too_long) return 0;
  const std::string_view line(data, size);
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  try {
    const std::string name = lower_case(std::string(line.substr(0, colon)));
    std::string value(line.substr(colon + 1));
    while (!value.empty() && value.front() == ' ') value.erase(0, 1);
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
      value.pop_back();
    receiver.response.headers[name] = value;
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return size;
}

// A connection that a transfer has taken from the pool; the destructor puts it back.
class TakenConnection {
public:
  TakenConnection() : connection_(pool().take()) {}
  ~TakenConnection() {
    const CurlLibrary& curl = curl_library();
    // Does nothing if the transfer was not added.
    curl.multi_remove_handle(connection_.multi, connection_.easy);
    curl.easy_reset(connection_.easy); // removes pointers to the transfer
    pool().put(connection_);
  }
  TakenConnection(const TakenConnection&) = delete;
  TakenConnection& operator=(const TakenConnection&) = delete;
  const Connection* operator->() const { return &connection_; }

private:
  Connection connection_;
};

class HeaderLines {
public:
  HeaderLines() = default;
  ~HeaderLines() { curl_library().slist_free_all(list_); }
  HeaderLines(const HeaderLines&) = delete;
  HeaderLines& operator=(const HeaderLines&) = delete;
  // Adds a line. Fails with bad_alloc without memory, because a request must not be sent without
  // one of its lines.
  void add(const char* line) {
    CurlList* const longer = curl_library().slist_append(list_, line);
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  CurlList* list() const { return list_; }

private:
  CurlList* list_ = nullptr;
};

// One transfer on a connection of the pool.
class Transfer {
public:
  explicit Transfer(const HttpRequest& request)
      : curl_(curl_library()), receiver_{request, {}, connection_->easy} {
    set_up(request);
    if (curl_.multi_add_handle(connection_->multi, connection_->easy) != 0) throw std::bad_alloc();
  }

  HttpResponse run(const Task* task) {
    int running = 1;
    while (running > 0) {
      check_task(task);
      if (curl_.multi_perform(connection_->multi, &running) != 0)
        fail(Code::internal, "libcurl returned no result for the transfer");
      if (running > 0) curl_.multi_poll(connection_->multi, nullptr, 0, kLookMs, nullptr);
    }
    int left = 0;
    const CurlMessage* message = curl_.multi_info_read(connection_->multi, &left);
    const int result = message != nullptr && message->kind == kCurlDone ? message->data.result : 0;
    if (result != 0) fail_result(result);
    long status = 0;
    curl_.easy_getinfo(connection_->easy, kCurlResponseCode, &status);
    receiver_.response.status = static_cast<int>(status);
    return std::move(receiver_.response);
  }

private:
  template <class T> void set(CurlOption option, T value) {
    curl_.easy_setopt(connection_->easy, option, value);
  }

  void set_up(const HttpRequest& request) {
    for (const std::string& line : request.headers) headers_.add(line.c_str());
    headers_.add("Expect:"); // no pause before a body
    headers_.add("Accept:");
    set(kCurlUrl, request.url.c_str());
    // A request to this machine stays on it, whatever the variables say about proxies.
    if (const auto url = parse_url(request.url); url && url->is_loopback()) set(kCurlNoProxy, "*");
    set(kCurlErrorBuffer, error_.data());
    set(kCurlNoSignal, 1L);
    set(kCurlHttpVersion, kCurlHttp11);
    set(kCurlConnectTimeoutMs, kConnectMs);
    set(kCurlLowSpeedLimit, 1L);
    set(kCurlLowSpeedTime, static_cast<long>(request.silence_seconds));
    set(kCurlWriteFunction, &receive);
    set(kCurlWriteData, static_cast<void*>(&receiver_));
    set(kCurlHeaderFunction, &receive_header);
    set(kCurlHeaderData, static_cast<void*>(&receiver_));
    if (request.method == "HEAD") {
      set(kCurlNoBody, 1L);
    } else if (request.method == "GET") {
      set(kCurlHttpGet, 1L);
    } else {
      if (request.method != "DELETE") { // a body in memory, so that libcurl can send it twice
        headers_.add("Content-Type: application/octet-stream");
        set(kCurlPost, 1L);
        set(kCurlPostFieldSizeLarge, static_cast<int64_t>(request.body.size()));
        set(kCurlPostFields, request.body.empty() ? "" : request.body.data());
      }
      set(kCurlCustomRequest, request.method.c_str());
    }
    set(kCurlHttpHeader, headers_.list());
  }

  [[noreturn]] void fail_result(int result) const {
    if (receiver_.failure != nullptr) std::rethrow_exception(receiver_.failure);
    if (receiver_.too_long) fail(Code::data_loss, "the response is longer than expected");
    const std::string reason =
        error_[0] != '\0' ? std::string(error_.data()) : curl_.easy_strerror(result);
    fail(is_passing(result) ? Code::unavailable : Code::failed_precondition, "{}", reason);
  }

  const CurlLibrary& curl_;
  // The connection points to the lines and the text, so it is destroyed before them.
  HeaderLines headers_;
  std::array<char, kCurlErrorSize> error_{};
  TakenConnection connection_;
  Receiver receiver_;
};

} // namespace

HttpResponse perform(const HttpRequest& request, const Task* task) {
  check_task(task);
  return Transfer(request).run(task);
}

} // namespace dllm::http
