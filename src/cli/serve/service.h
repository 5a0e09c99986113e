#pragma once
// A Service answers requests of an HTTP server with the texts of the queues of its models.

#include "../http/http_server.h"
#include "asked.h"
#include "job.h"
#include "metrics_text.h"
#include "model_shelf.h"

#include "dllm/dllm.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dllm::cli {

struct ServiceSettings {
  std::vector<std::string> keys; // one of them is asked for; empty: none
  double timeout = 0;            // seconds of a request; 0: no limit
  int64_t most_priority = 0;     // of a request
  HttpSettings http;
};

// Submits a request with settings of kinds "request" and "submission", and gives its number to
// `take`. Throws Failure.
void submit_request(const Queue& queue, const nlohmann::ordered_json& settings,
                    const nlohmann::ordered_json& submission, dllm_task* task,
                    const std::function<void(int64_t)>& take);

using TaskRef = std::shared_ptr<dllm_task>;

class Service {
public:
  // Listens. The shelf has to live longer. Its first model answers requests that name none. Throws
  // as HttpServer.
  Service(ModelShelf& shelf, ServiceSettings settings);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  int64_t port() const { return server_.port(); }
  // Serves until the task is cancelled. Then takes no further requests, and ends after the answers
  // that are open, or after `drain_seconds`.
  void run(dllm_task* task, double drain_seconds);

private:
  // A request that was read, and the requests of the queue that answer it.
  struct Arrival {
    HttpExchangeRef exchange;
    AnswerHead head;
    Asked asked;
    size_t model = 0;        // of the shelf
    ShelvedModelRef shelved; // null: it has to be loaded first
    std::vector<int64_t> numbers;
    std::optional<Failure> failure;
    TaskRef task; // of reading it; it ends when the client leaves, or with the server
  };

  // What a client names: a model, or an adapter of it.
  struct Named {
    size_t model = 0;
    std::string adapter; // "": none
  };

  // On the thread of the server:
  void take(const HttpExchangeRef& exchange);
  void answer(const HttpExchangeRef& exchange);
  void ask(const HttpExchangeRef& exchange, AskKind kind);
  void tick(dllm_task* task, double drain_seconds);
  void begin_jobs();
  void end_jobs(); // with an error
  void cancel_left();
  double timeout_of(const Asked& asked) const; // seconds; 0: none
  void limit_timeout(nlohmann::ordered_json& submission) const;
  void check_priority(const nlohmann::ordered_json& submission) const;
  // Names who asks: the field `user` of a client with a key, else the address.
  void name_client(nlohmann::ordered_json& submission, const HttpExchangeRef& exchange) const;
  bool has_key(const HttpExchangeRef& exchange) const;
  nlohmann::ordered_json about_model(const std::string& id) const;
  std::optional<Named> find(const std::string& id) const; // "": the first model
  std::vector<std::string> names_of_models() const;
  void add_model_settings(Arrival& arrival, const Named& named) const;
  HttpAnswer models(bool has_bases) const; // false: adapters alone
  HttpAnswer health() const;
  HttpAnswer metrics() const;
  // On other threads:
  void load_models();
  void submit_arrivals();
  void submit(Arrival& arrival) const;
  // Takes an arrival out of a list and notes that this thread has it. Returns nothing at the end.
  std::optional<Arrival> next_of(std::deque<Arrival>& list);
  void put(Arrival arrival, std::deque<Arrival>& list);

  ModelShelf& shelf_;
  ServiceSettings settings_;
  int64_t started_;       // seconds since 1970
  AnswerCounts answered_; // for /metrics
  int64_t next_id_ = 0;
  std::list<Job> jobs_;
  std::optional<std::chrono::steady_clock::time_point> stopping_since_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  // Arrivals whose model has to be loaded, those to be read, and those that are read.
  std::deque<Arrival> unplaced_, unread_, read_;
  std::map<TaskRef, HttpExchangeRef> in_hand_; // arrivals that a thread has
  bool is_stopping_ = false;
  TaskRef loading_{dllm_task_new(), dllm_task_release}; // of loads; it ends with the server

  HttpServer server_; // released before the members above
  std::vector<std::thread> threads_;
};

} // namespace dllm::cli
