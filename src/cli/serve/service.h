#pragma once
// A Service answers requests of an HTTP server with the texts of a queue.

#include "../http/http_server.h"
#include "asked.h"
#include "job.h"

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
  std::string name;                  // of the model
  std::vector<std::string> adapters; // names that follow it: NAME:ADAPTER
  std::vector<std::string> keys;     // one of them is asked for; empty: none
  std::string chat_template;         // "": the tokenizer's own
  nlohmann::ordered_json settings;   // of requests that do not set them
  double timeout = 0;                // seconds of a request; 0: no limit
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
  // Listens. Throws as HttpServer.
  Service(Queue queue, ServiceSettings settings);
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
    std::vector<int64_t> numbers;
    std::optional<Failure> failure;
    TaskRef task; // of reading it; it ends when the client leaves, or with the server
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
  bool has_key(const HttpExchangeRef& exchange) const;
  nlohmann::ordered_json about_model(const std::string& id) const;
  bool has_model(const std::string& id) const;
  std::string names_of_models() const;
  HttpAnswer models() const;
  HttpAnswer health() const;
  HttpAnswer metrics() const;
  // On other threads:
  void submit_arrivals();
  void submit(Arrival& arrival) const;
  void watch();

  Queue queue_;
  ServiceSettings settings_;
  int64_t started_;                         // seconds since 1970
  std::map<std::string, int64_t> answered_; // HTTP requests by path and status, for /metrics
  int64_t next_id_ = 0;
  std::list<Job> jobs_;
  std::optional<std::chrono::steady_clock::time_point> stopping_since_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Arrival> unread_, read_;
  std::map<TaskRef, HttpExchangeRef> in_hand_; // arrivals that a thread reads
  bool is_stopping_ = false;

  HttpServer server_; // released before the members above
  std::vector<std::thread> threads_;
};

} // namespace dllm::cli
