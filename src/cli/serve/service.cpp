#include "service.h"

#include "answers.h"
#include "page.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <unistd.h>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kReaders = 2;          // threads that read prompts and compile patterns
constexpr int64_t kMostUnread = 128; // requests that wait for them

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

// The error for a model that the server does not have.
class UnknownModel : public Failure {
public:
  UnknownModel(const std::string& model, const std::vector<std::string>& names)
      : Failure(DLLM_NOT_FOUND, "there is no model \"" + model + "\" here", hint_of(names)) {}

private:
  static std::string hint_of(const std::vector<std::string>& names) {
    std::string hint = "this server has ";
    for (const std::string& name : names)
      hint += (&name == names.data() ? "\"" : ", \"") + name + '"';
    return hint;
  }
};

// A model that cannot be loaded is a fault of the server, whatever its files have.
Failure load_failure(const std::string& name, const Failure& failure) {
  const dllm_status own[] = {DLLM_UNAVAILABLE, DLLM_CANCELLED, DLLM_RESOURCE_EXHAUSTED};
  if (std::ranges::find(own, failure.status()) != std::end(own)) return failure;
  return {DLLM_DATA_LOSS, "model \"" + name + "\" cannot be loaded: " + failure.what(),
          failure.hint()};
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

Service::Service(ModelShelf& shelf, ServiceSettings settings)
    : shelf_(shelf), settings_(std::move(settings)), started_(seconds_now()),
      server_(settings_.http, [this](const HttpExchangeRef& exchange) { take(exchange); }) {
  server_.on_answer([this](const std::string& path, int status) {
    const bool is_known = std::ranges::find(kPaths, path) != kPaths.end();
    ++answered_[{is_known ? path : "other", status}];
  });
  shelf_.on_step([this] { server_.wake(); });
  for (int i = 0; i < kReaders; ++i) threads_.emplace_back([this] { submit_arrivals(); });
  threads_.emplace_back([this] { load_models(); });
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    dllm_task_cancel(loading_.get());
    for (const auto& [task, exchange] : in_hand_) dllm_task_cancel(task.get());
    arrived_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  shelf_.on_step(nullptr);
}

// ---- threads ----

std::optional<Service::Arrival> Service::next_of(std::deque<Arrival>& list) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return is_stopping_ || !list.empty(); });
  if (is_stopping_) return std::nullopt;
  std::optional<Arrival> arrival(std::move(list.front()));
  list.pop_front();
  in_hand_.emplace(arrival->task, arrival->exchange);
  return arrival;
}

void Service::put(Arrival arrival, std::deque<Arrival>& list) {
  const std::lock_guard lock(mutex_);
  in_hand_.erase(arrival.task);
  list.push_back(std::move(arrival));
  arrived_.notify_all();
  server_.wake();
}

void Service::load_models() {
  while (std::optional<Arrival> arrival = next_of(unplaced_)) {
    const auto is_wanted = [&] { return dllm_task_is_cancelled(arrival->task.get()) == 0; };
    try {
      arrival->shelved = shelf_.load(arrival->model, is_wanted, loading_.get());
    } catch (const Failure& failure) {
      arrival->failure = load_failure(shelf_.entries()[arrival->model].name, failure);
    } catch (const std::exception& error) {
      arrival->failure = Failure(DLLM_RESOURCE_EXHAUSTED, error.what());
    }
    const bool has_failed = arrival->failure.has_value();
    put(std::move(*arrival), has_failed ? read_ : unread_);
  }
}

void Service::submit_arrivals() {
  while (std::optional<Arrival> arrival = next_of(unread_)) {
    try {
      submit(*arrival);
    } catch (const Failure& failure) {
      arrival->failure = failure;
    } catch (const std::exception& error) {
      arrival->failure = Failure(DLLM_RESOURCE_EXHAUSTED, error.what());
    }
    put(std::move(*arrival), read_);
  }
}

void Service::submit(Arrival& arrival) const {
  // A pattern is compiled before the queue counts the time of the request.
  if (const double timeout = timeout_of(arrival.asked); timeout > 0)
    dllm_task_set_deadline(arrival.task.get(), static_cast<int64_t>(std::ceil(1e3 * timeout)));
  for (const Json& settings : arrival.asked.requests) {
    submit_request(arrival.shelved->queue(), settings, arrival.asked.submission, arrival.task.get(),
                   [&](int64_t number) { arrival.numbers.push_back(number); });
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
  const bool is_idle =
      jobs_.empty() && unplaced_.empty() && unread_.empty() && read_.empty() && in_hand_.empty();
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
  for (std::deque<Arrival>* arrivals : {&unplaced_, &unread_, &read_}) {
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
      jobs_.emplace_back(one.shelved, one.exchange, one.head, std::move(one.asked), one.numbers);
      continue;
    }
    for (const int64_t number : one.numbers)
      dllm_queue_remove(one.shelved->queue().get(), number, nullptr);
    one.exchange->send(
        error_answer(one.failure->status(), one.failure->what(), one.failure->hint()));
  }
}

void Service::take(const HttpExchangeRef& exchange) {
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
    return exchange->send(path == "/metrics" ? metrics() : models(path == "/v1/models"));
  }
  const std::string of_model = "/v1/models/";
  if (path.size() > of_model.size() && path.starts_with(of_model) &&
      find(path.substr(of_model.size()))) {
    if (!need(is_get, "GET")) return;
    return exchange->send(json_answer(about_model(path.substr(of_model.size()))));
  }
  HttpAnswer missing =
      error_answer(DLLM_NOT_FOUND, "there is no " + path,
                   "the paths are /v1/completions, /v1/chat/completions, "
                   "/v1/infill, /v1/models, /v1/adapters, /health, /metrics and /");
  missing.status = 404;
  exchange->send(missing);
}

void Service::ask(const HttpExchangeRef& exchange, AskKind kind) {
  if (stopping_since_) throw Failure(DLLM_UNAVAILABLE, "the server ends");
  Arrival arrival;
  Named named;
  const auto defaults_of = [&](const std::string& model) -> const Json& {
    const std::optional<Named> found = find(model);
    if (!found) throw UnknownModel(model, names_of_models());
    named = *found;
    return shelf_.entries()[named.model].settings;
  };
  try {
    arrival.asked = read_asked(kind, exchange->body(), random_seed(), defaults_of);
  } catch (const UnknownModel& unknown) {
    HttpAnswer missing = error_answer(unknown.status(), unknown.what(), unknown.hint());
    missing.status = 404;
    return exchange->send(missing);
  }
  arrival.exchange = exchange;
  arrival.task = TaskRef(dllm_task_new(), dllm_task_release);
  arrival.head = {kind,
                  (kind == AskKind::chat ? "chatcmpl-" : "cmpl-") + std::to_string(started_) + "-" +
                      std::to_string(next_id_++),
                  arrival.asked.model, seconds_now()};
  add_model_settings(arrival, named);
  limit_timeout(arrival.asked.submission);
  check_priority(arrival.asked.submission);
  name_client(arrival.asked.submission, exchange);
  const std::lock_guard lock(mutex_);
  if (std::ssize(unread_) + std::ssize(unplaced_) >= kMostUnread)
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "too many requests wait", "try again later");
  arrival.shelved = shelf_.loaded(named.model);
  (arrival.shelved == nullptr ? unplaced_ : unread_).push_back(std::move(arrival));
  arrived_.notify_all();
}

// Gives the texts of an arrival the adapter and the chat template of the model that it names.
void Service::add_model_settings(Arrival& arrival, const Named& named) const {
  const ModelEntry& entry = shelf_.entries()[named.model];
  std::string& model = arrival.head.model;
  arrival.model = named.model;
  if (model.empty()) model = entry.name;
  for (Json& one : arrival.asked.requests) {
    if (!named.adapter.empty() && one.contains("adapters")) {
      throw Failure(DLLM_INVALID_ARGUMENT,
                    "model \"" + model + "\" names an adapter, and dllm.adapters names others",
                    "send one of the two");
    }
    if (!named.adapter.empty()) one["adapters"] = Json::array({named.adapter});
    if (arrival.head.kind == AskKind::chat && !entry.chat_template.empty())
      one["template"] = entry.chat_template;
    arrival.head.is_formed = arrival.head.is_formed || has_constraint(one);
  }
}

// A client may ask for less time than the server gives, and not for more.
void Service::limit_timeout(Json& submission) const {
  if (settings_.timeout <= 0) return;
  const Json asked = submission.value("timeout", Json());
  const bool is_less = asked.is_number() && asked > 0 && asked.get<double>() < settings_.timeout;
  if (asked.is_null() || (asked.is_number() && !is_less)) submission["timeout"] = settings_.timeout;
}

void Service::check_priority(const Json& submission) const {
  const Json asked = submission.value("priority", Json());
  if (!asked.is_number() || asked <= settings_.most_priority) return;
  throw Failure(DLLM_INVALID_ARGUMENT,
                "dllm.priority is " + asked.dump() + ", and this server takes at most " +
                    std::to_string(settings_.most_priority),
                "leave it out, or start dllm serve with a larger --most-priority");
}

void Service::name_client(Json& submission, const HttpExchangeRef& exchange) const {
  // Without a key anybody could take many names, and with them many shares of the server.
  if (!submission.contains("client") || settings_.keys.empty())
    submission["client"] = exchange->client();
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

std::optional<Service::Named> Service::find(const std::string& id) const {
  if (id.empty()) return Named{};
  const std::vector<ModelEntry>& entries = shelf_.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (id == entries[i].name) return Named{i, ""};
    for (const std::string& adapter : entries[i].adapters) {
      if (id == entries[i].name + ":" + adapter_name(adapter))
        return Named{i, adapter_name(adapter)};
    }
  }
  return std::nullopt;
}

std::vector<std::string> Service::names_of_models() const {
  std::vector<std::string> names;
  for (const ModelEntry& entry : shelf_.entries()) {
    names.push_back(entry.name);
    for (const std::string& adapter : entry.adapters)
      names.push_back(entry.name + ":" + adapter_name(adapter));
  }
  return names;
}

HttpAnswer Service::models(bool has_bases) const {
  Json data = Json::array();
  for (const std::string& name : names_of_models()) {
    if (has_bases || !find(name)->adapter.empty()) data.push_back(about_model(name));
  }
  return json_answer({{"object", "list"}, {"data", data}});
}

HttpAnswer Service::health() const {
  if (stopping_since_) return json_answer({{"status", "ending"}}, 503);
  return json_answer({{"status", "ok"}});
}

HttpAnswer Service::metrics() const {
  HttpAnswer answer;
  answer.type = "text/plain; version=0.0.4; charset=utf-8";
  answer.body = metrics_text(shelf_.describe(), answered_, resident_bytes(), started_);
  return answer;
}

} // namespace dllm::cli
