#include "hub/loading/range_loader.h"

#include "base/error.h"
#include "base/http/retry.h"
#include "base/log.h"

#include <unistd.h>

#include <charconv>

namespace dllm::hub {
namespace {

using http::HttpResponse;

// One call of RangeLoader::load: the bytes that are still missing.
class Loading {
public:
  Loading(const Client& client, const std::string& path, const FileFacts& facts, Request request,
          int64_t begin, int64_t end, const RangeLoader::Receiver& to, const Task* task)
      : client_(client), path_(path), facts_(facts), request_(std::move(request)), at_(begin),
        end_(end), to_(to), task_(task) {
    request_.check_redirect = [this](const HttpResponse& response) {
      is_redirected_ = true;
      check_etag(plain_etag(response.header("x-linked-etag")));
    };
    request_.receive = [this](const HttpResponse& response, std::string_view piece) {
      take(response, piece);
    };
  }

  void run() {
    constexpr int64_t kProgress = int64_t{64} << 10; // bytes after which attempts count anew
    int64_t counted = at_;
    for (int attempt = 0; at_ < end_;) {
      const double pause = load_rest(attempt);
      if (at_ >= end_) return;
      if (at_ - counted >= kProgress) {
        counted = at_;
        attempt = 0;
      }
      if (++attempt >= client_.settings().attempts) client_.fail_attempts(path_, attempt, reason_);
      log(LogLevel::info, "{} is tried again in {:.1f} s from byte {} on: {}", shown(), pause, at_,
          reason_);
      http::wait(pause, task_);
    }
  }

private:
  std::string shown() const { return client_.shown_file(path_); }

  // Sends one request. Returns the pause before the next one if bytes are still missing.
  double load_rest(int attempt) {
    is_first_ = true;
    is_redirected_ = false;
    begin_ = at_;
    request_.headers.clear();
    if (end_ < facts_.size)
      request_.headers.push_back(fmt::format("Range: bytes={}-{}", at_, end_ - 1));
    else if (at_ > 0)
      request_.headers.push_back(fmt::format("Range: bytes={}-", at_));
    try {
      const HttpResponse response = client_.send_once(request_, task_);
      reason_ = response.is_success() ? fmt::format("{} bytes are missing", end_ - at_)
                                      : reason_of(response);
      if (response.is_success()) return http::pause_seconds(attempt, path_, ::getpid());
      const bool is_outside = response.status == 416 && to_.restart != nullptr;
      if (is_outside) restart();
      // The hub redirects to a signed address, which expires. The next request gets another one.
      const bool is_expired = response.status == 403 && is_redirected_;
      if (!is_outside && !is_expired && !http::is_passing_status(response.status))
        client_.fail_response(request_, response);
      return client_.pause_before_next(response, attempt);
    } catch (const Error& error) {
      if (error.code() != Code::unavailable || !error.hint().empty()) throw;
      reason_ = error.text();
      return http::pause_seconds(attempt, path_, ::getpid());
    }
  }

  void restart() {
    to_.restart();
    at_ = begin_ = 0;
  }

  void check_etag(const std::string& etag) const {
    if (etag.empty() || etag == facts_.etag) return;
    fail_with_hint("pull it again", Code::data_loss,
                   "{} changed while it was loaded: its ETag is {}, before it was {}", shown(),
                   printable(etag), facts_.etag);
  }

  // Takes a piece of the body. The first piece of a response is checked against what was asked.
  void take(const HttpResponse& response, std::string_view piece) {
    if (is_first_) check_begin(response);
    is_first_ = false;
    if (static_cast<int64_t>(piece.size()) > end_ - at_) {
      if (to_.restart != nullptr) restart(); // the content is not the file's
      fail_length(fmt::format("more than {} bytes", end_ - begin_));
    }
    to_.add(piece);
    at_ += static_cast<int64_t>(piece.size());
  }

  void check_begin(const HttpResponse& response) {
    if (!response.header("content-encoding").empty() &&
        response.header("content-encoding") != "identity") {
      fail(Code::data_loss, "the server sent {} compressed, which was not asked for", shown());
    }
    // A server of large files has ETags of its own. The ETags of the redirect are compared.
    if (!is_redirected_) check_etag(etag_of(response));
    if (response.status == 200 && (begin_ > 0 || end_ < facts_.size)) begin_again();
    const std::string range = response.header("content-range"),
                      wanted = fmt::format("bytes {}-{}/", begin_, end_ - 1);
    const bool is_range = range == wanted + std::to_string(facts_.size) || range == wanted + "*";
    if ((response.status == 200 && range.empty()) || (response.status == 206 && is_range))
      return check_announced(response);
    fail_length(fmt::format("the range \"{}\" with status {}", printable(range), response.status));
  }

  // The server ignores ranges.
  void begin_again() {
    if (to_.restart != nullptr) return restart();
    fail_with_hint(fmt::format("dllm pull {} loads whole files, and then they are read from there",
                               text_of(client_.name())),
                   Code::data_loss,
                   "{} cannot be read in parts: the server sent all of it, where {} of {} bytes "
                   "were asked for",
                   shown(), end_ - begin_, facts_.size);
  }

  void check_announced(const HttpResponse& response) {
    const std::string text = response.header("content-length");
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (text.empty() || error != std::errc() || size == end_ - begin_) return;
    fail_length(fmt::format("{} bytes", size));
  }

  [[noreturn]] void fail_length(const std::string& got) const {
    fail_with_hint("set HF_ENDPOINT to a server that sends each file as its head announces it",
                   Code::data_loss,
                   "{} has {} bytes, of which {} were asked for, and the server sent {}", shown(),
                   facts_.size, end_ - begin_, got);
  }

  const Client& client_;
  const std::string& path_;
  const FileFacts& facts_;
  Request request_;
  int64_t at_; // next byte
  int64_t end_;
  int64_t begin_ = 0; // first byte of this request
  const RangeLoader::Receiver& to_;
  const Task* task_; // may be null
  bool is_first_ = true, is_redirected_ = false;
  std::string reason_;
};

} // namespace

void RangeLoader::load(int64_t begin, int64_t end, const Receiver& to, const Task* task) const {
  Request request;
  request.method = "GET";
  request.path = client_.file_path(commit_, path_);
  request.file = path_;
  Loading(client_, path_, facts_, std::move(request), begin, end, to, task).run();
}

} // namespace dllm::hub
