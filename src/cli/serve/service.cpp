#include "service.h"

#include "answers.h"
#include "metrics_text.h"
#include "page.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kReaders = 2;          // threads that read prompts and compile patterns
constexpr int64_t kMostUnread = 128; // requests that wait for them
constexpr std::chrono::milliseconds kLook{100};

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A seed that a JSON number of any client holds. Without std::random_device, as unique_word().
int64_t random_seed() {
  uint64_t bits = 0;
  if (getentropy(&bits, sizeof bits) != 0)
    throw Failure(DLLM_UNAVAILABLE, "the system gives no random bytes", "name a seed");
  return static_cast<int64_t>(bits & 0xffffffffffff);
}

// Compares in a time that does not depend on where the texts differ.
bool is_equal(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i % std::max<size_t>(1, b.size())]);
  return difference == 0;
}

int64_t resident_bytes() {
  long long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = std::fscanf(file, "%lld %lld", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

const std::vector<std::string> kPaths = {
    "/",        "/page.js",        "/health", "/v1/models", "/v1/adapters",
    "/metrics", "/v1/completions", "/infill", "/v1/infill", "/v1/chat/completions"};

} // namespace

void submit_request(const Queue& queue, const Json& settings, const Json& submission,
                    dllm_task* task, const std::function<void(int64_t)>& take) {
  const std::string policy = settings.contains("policy") && settings["policy"].is_string()
                                 ? settings["policy"].get<std::string>()
                                 : "auto";
  const auto options = make<dllm_options>([&](dllm_options** out, dllm_error* err) {
    return dllm_options_new(policy == "auto" ? "request" : ("request:" + policy).c_str(), out, err);
  });
  const std::string json = settings.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  Settings(submission.dump()).with("submission", [&](const dllm_options* opts) {
    int64_t number = 0;
    call([&](dllm_error* err) {
      return dllm_queue_submit(queue.get(), options.get(), opts, task, &number, err);
    });
    take(number);
  });
}

Service::Service(Queue queue, ServiceSettings settings)
    : queue_(std::move(queue)), settings_(std::move(settings)), started_(seconds_now()),
      server_(settings_.http, [this](const HttpExchangeRef& exchange) { take(exchange); }) {
  for (int i = 0; i < kReaders; ++i) threads_.emplace_back([this] { submit_arrivals(); });
  threads_.emplace_back([this] { watch(); });
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    for (const auto& [task, exchange] : in_hand_) dllm_task_cancel(task.get());
    arrived_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

// ---- threads ----

void Service::submit_arrivals() {
  for (;;) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return is_stopping_ || !unread_.empty(); });
    if (is_stopping_) return;
    Arrival arrival = std::move(unread_.front());
    unread_.pop_front();
    in_hand_.emplace(arrival.task, arrival.exchange);
    lock.unlock();
    try {
      submit(arrival);
    } catch (const Failure& failure) {
      arrival.failure = failure;
    } catch (const std::exception& error) {
      arrival.failure = Failure(DLLM_RESOURCE_EXHAUSTED, error.what());
    }
    lock.lock();
    in_hand_.erase(arrival.task);
    read_.push_back(std::move(arrival));
    server_.wake();
  }
}

void Service::submit(Arrival& arrival) const {
  // A pattern is compiled before the queue counts the time of the request.
  if (const double timeout = timeout_of(arrival.asked); timeout > 0)
    dllm_task_set_deadline(arrival.task.get(), static_cast<int64_t>(std::ceil(1e3 * timeout)));
  for (const Json& settings : arrival.asked.requests) {
    submit_request(queue_, settings, arrival.asked.submission, arrival.task.get(),
                   [&](int64_t number) { arrival.numbers.push_back(number); });
  }
}

void Service::watch() {
  for (int64_t seen = 0;;) {
    seen = queue_.wait(-1, seen, kLook).version;
    server_.wake();
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
  }
}

// ---- the server ----

void Service::run(dllm_task* task, double drain_seconds) {
  server_.run([&] { tick(task, drain_seconds); });
  jobs_.clear();
}

void Service::tick(dllm_task* task, double drain_seconds) {
  begin_jobs();
  cancel_left();
  std::erase_if(jobs_, [](Job& job) { return !job.advance(); });
  if (dllm_task_is_cancelled(task) == 0) return;
  if (!stopping_since_) {
    stopping_since_ = Clock::now(); // /health says so to new connections
    std::fprintf(stderr, "no further requests are taken; %zu are answered first\n", jobs_.size());
  }
  const std::chrono::duration<double> since = Clock::now() - *stopping_since_;
  const std::lock_guard lock(mutex_);
  const bool is_idle = jobs_.empty() && unread_.empty() && read_.empty() && in_hand_.empty();
  if (!is_idle && since.count() <= drain_seconds) return;
  end_jobs();
  server_.stop();
}

// REQUIRES: mutex_ is held. A request that a thread reads at this moment ends with its connection.
void Service::end_jobs() {
  const Failure late(DLLM_UNAVAILABLE, "the server ended before this text was whole",
                     "ask again, or give dllm serve a longer --drain");
  for (Job& job : jobs_) job.fail(late);
  jobs_.clear();
  for (std::deque<Arrival>* arrivals : {&unread_, &read_}) {
    for (const Arrival& one : *arrivals)
      one.exchange->send(error_answer(late.status(), late.what(), late.hint()));
    arrivals->clear();
  }
}

// Ends the reading of requests whose client has left.
void Service::cancel_left() {
  const std::lock_guard lock(mutex_);
  for (const auto& [task, exchange] : in_hand_) {
    if (exchange->is_gone()) dllm_task_cancel(task.get());
  }
}

void Service::begin_jobs() {
  std::deque<Arrival> arrivals;
  {
    const std::lock_guard lock(mutex_);
    arrivals.swap(read_);
  }
  for (Arrival& one : arrivals) {
    if (!one.failure) {
      jobs_.emplace_back(queue_, one.exchange, one.head, std::move(one.asked), one.numbers);
      continue;
    }
    for (const int64_t number : one.numbers) dllm_queue_remove(queue_.get(), number, nullptr);
    one.exchange->send(
        error_answer(one.failure->status(), one.failure->what(), one.failure->hint()));
  }
}

void Service::take(const HttpExchangeRef& exchange) {
  const std::string path = exchange->path();
  const bool is_known = std::ranges::find(kPaths, path) != kPaths.end();
  ++answered_["{path=\"" + (is_known ? path : std::string("other")) + "\"}"];
  try {
    answer(exchange);
  } catch (const Failure& failure) {
    exchange->send(error_answer(failure.status(), failure.what(), failure.hint()));
  }
}

void Service::answer(const HttpExchangeRef& exchange) {
  const std::string path = exchange->path(), method = exchange->method();
  if (method == "OPTIONS") {
    return exchange->send({204,
                           "",
                           "",
                           {{"Access-Control-Allow-Methods", "GET, POST"},
                            {"Access-Control-Allow-Headers", "Authorization, Content-Type"}}});
  }
  if (path == "/health") return exchange->send(health());
  if (path == "/")
    return exchange->send({200, "text/html; charset=utf-8", std::string(kServePage), {}});
  if (path == "/page.js")
    return exchange->send({200, "text/javascript; charset=utf-8", std::string(kServeScript), {}});
  if (!has_key(exchange))
    throw Failure(DLLM_UNAUTHENTICATED, "this server asks for a key",
                  "send the header Authorization: Bearer KEY");
  const bool is_get = method == "GET" || method == "HEAD";
  const auto need = [&](bool is_right, const char* right) {
    if (is_right) return true;
    HttpAnswer refused = error_answer(DLLM_INVALID_ARGUMENT, path + " has the method " + right, "");
    refused.status = 405;
    refused.headers = {{"Allow", right}};
    exchange->send(refused);
    return false;
  };
  const std::pair<const char*, AskKind> asks[] = {{"/v1/completions", AskKind::completion},
                                                  {"/v1/chat/completions", AskKind::chat},
                                                  {"/v1/infill", AskKind::infill},
                                                  {"/infill", AskKind::infill}};
  for (const auto& [name, kind] : asks) {
    if (path != name) continue;
    if (need(method == "POST", "POST")) ask(exchange, kind);
    return;
  }
  if (path == "/v1/models" || path == "/v1/adapters" || path == "/metrics") {
    if (!need(is_get, "GET")) return;
    return exchange->send(path == "/metrics" ? metrics() : models());
  }
  const std::string of_model = "/v1/models/";
  if (path.starts_with(of_model) && has_model(path.substr(of_model.size()))) {
    if (!need(is_get, "GET")) return;
    return exchange->send(json_answer(about_model(path.substr(of_model.size()))));
  }
  HttpAnswer missing = error_answer(DLLM_NOT_FOUND, "there is no " + path,
                                    "the paths are /v1/completions, /v1/chat/completions, "
                                    "/v1/infill, /v1/models, /health and /metrics");
  missing.status = 404;
  exchange->send(missing);
}

void Service::ask(const HttpExchangeRef& exchange, AskKind kind) {
  if (stopping_since_) throw Failure(DLLM_UNAVAILABLE, "the server ends");
  Arrival arrival{
      exchange, {}, read_asked(kind, exchange->body(), random_seed(), settings_.settings),
      {},       {}, TaskRef(dllm_task_new(), dllm_task_release)};
  Asked& asked = arrival.asked;
  const std::string& model = asked.model;
  const bool has_adapter = model.starts_with(settings_.name + ":");
  const std::string adapter = has_adapter ? model.substr(settings_.name.size() + 1) : "";
  const bool is_known = model.empty() || has_model(model);
  if (!is_known) {
    HttpAnswer missing = error_answer(DLLM_NOT_FOUND, "there is no model \"" + model + "\" here",
                                      "this server has " + names_of_models());
    missing.status = 404;
    return exchange->send(missing);
  }
  arrival.head = {kind,
                  (kind == AskKind::chat ? "chatcmpl-" : "cmpl-") + std::to_string(started_) + "-" +
                      std::to_string(next_id_++),
                  model.empty() ? settings_.name : model, seconds_now()};
  for (Json& one : asked.requests) {
    if (has_adapter && one.contains("adapters")) {
      throw Failure(DLLM_INVALID_ARGUMENT,
                    "model \"" + model + "\" names an adapter, and dllm.adapters names others",
                    "send one of the two");
    }
    if (has_adapter) one["adapters"] = Json::array({adapter});
    if (kind == AskKind::chat && !settings_.chat_template.empty())
      one["template"] = settings_.chat_template;
    arrival.head.is_formed = arrival.head.is_formed || has_constraint(one);
  }
  limit_timeout(asked.submission);
  if (!asked.submission.contains("client")) asked.submission["client"] = exchange->client();
  const std::lock_guard lock(mutex_);
  if (std::ssize(unread_) >= kMostUnread)
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "too many requests wait", "try again later");
  unread_.push_back(std::move(arrival));
  arrived_.notify_one();
}

// A client may ask for less time than the server gives, and not for more.
void Service::limit_timeout(Json& submission) const {
  if (settings_.timeout <= 0) return;
  const Json asked = submission.value("timeout", Json());
  const bool is_less = asked.is_number() && asked > 0 && asked.get<double>() < settings_.timeout;
  if (asked.is_null() || (asked.is_number() && !is_less)) submission["timeout"] = settings_.timeout;
}

double Service::timeout_of(const Asked& asked) const {
  const Json timeout = asked.submission.value("timeout", Json());
  return timeout.is_number() && timeout > 0 ? timeout.get<double>() : 0;
}

bool Service::has_key(const HttpExchangeRef& exchange) const {
  if (settings_.keys.empty()) return true;
  const std::string given = exchange->header("Authorization"), begin = "bearer ";
  const bool is_key = std::ranges::equal(begin, given.substr(0, begin.size()), {}, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (!is_key) return false;
  bool is_one = false;
  for (const std::string& key : settings_.keys)
    is_one = is_equal(given.substr(begin.size()), key) || is_one;
  return is_one;
}

Json Service::about_model(const std::string& id) const {
  return {{"id", id}, {"object", "model"}, {"created", started_}, {"owned_by", "dllm"}};
}

bool Service::has_model(const std::string& id) const {
  if (id == settings_.name) return true;
  return std::ranges::any_of(settings_.adapters, [&](const std::string& adapter) {
    return id == settings_.name + ":" + adapter;
  });
}

std::string Service::names_of_models() const {
  std::string names = '"' + settings_.name + '"';
  for (const std::string& adapter : settings_.adapters)
    names += ", \"" + settings_.name + ":" + adapter + '"';
  return names;
}

HttpAnswer Service::models() const {
  Json data = Json::array();
  const auto add = [&](const std::string& id) { data.push_back(about_model(id)); };
  add(settings_.name);
  for (const std::string& adapter : settings_.adapters) add(settings_.name + ":" + adapter);
  return json_answer({{"object", "list"}, {"data", data}});
}

HttpAnswer Service::health() const {
  if (stopping_since_) return json_answer({{"status", "ending"}}, 503);
  return json_answer({{"status", "ok"}});
}

HttpAnswer Service::metrics() const {
  HttpAnswer answer;
  answer.type = "text/plain; version=0.0.4; charset=utf-8";
  answer.body = metrics_text(Json::parse(queue_.describe()), answered_, resident_bytes(), started_);
  return answer;
}

} // namespace dllm::cli
