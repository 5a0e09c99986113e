// A server in small: one thread steps a decoder for ever under the host's lock, clients add
// requests and take them away between steps, the running step is cancelled. Every answer is the one
// the request gets alone, with and without an exact cache.

#include "world.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Tokens = std::vector<int32_t>;
constexpr int64_t kRequests = 64, kClients = 8;

struct Request {
  Tokens prompt;
  int64_t seed, length;
};

std::vector<Request> make_requests() {
  std::vector<Request> requests;
  for (int64_t i = 0; i < kRequests; ++i) {
    Tokens prompt;
    for (int64_t p = 0; p < i % 7; ++p) prompt.push_back(static_cast<int32_t>((i + 3 * p) % 20));
    requests.push_back({prompt, i, 4 + i % 9});
  }
  return requests;
}

dllm_decoder* make_decoder(dllm_model* model, const char* json, dllm_error* err) {
  dllm_decoder* decoder = nullptr;
  dllm_options* opts = make_options("decoder", json, err);
  NEED(dllm_decoder_new(model, opts, &decoder, err), err);
  dllm_options_release(opts);
  return decoder;
}

int64_t add(dllm_decoder* decoder, const Request& request, dllm_error* err) {
  const std::string json = "{\"seed\": " + std::to_string(request.seed) +
                           ", \"gen_length\": " + std::to_string(request.length) + "}";
  dllm_options* opts = make_options("slot", json.c_str(), err);
  int64_t slot = -1;
  NEED(dllm_decoder_add(decoder, request.prompt.data(), nullptr,
                        static_cast<int64_t>(request.prompt.size()), opts, &slot, err),
       err);
  dllm_options_release(opts);
  return slot;
}

Tokens ids_of(const dllm_decoder* decoder, int64_t slot, dllm_error* err) {
  std::array<int32_t, 64> ids{};
  int64_t count = 0;
  NEED(dllm_decoder_ids(decoder, slot, ids.data(), 64, &count, err), err);
  return {ids.begin(), ids.begin() + count};
}

class Server {
public:
  Server(dllm_model* model, const char* json)
      : err_(dllm_error_new()), decoder_(make_decoder(model, json, err_)), task_(dllm_task_new()) {}
  ~Server() {
    dllm_task_release(task_);
    dllm_decoder_release(decoder_);
    dllm_error_release(err_);
  }

  // Steps while clients are there.
  void serve(const std::atomic<int64_t>& clients) {
    while (clients.load() > 0) {
      {
        const std::lock_guard lock(decoder_mutex_);
        double open = 0;
        NEED(dllm_decoder_metric(decoder_, -1, "slots", &open, err_), err_);
        if (open > 0) step();
      }
      stepped_.notify_all();
      std::this_thread::yield();
    }
  }

  // From any thread, also while a step runs.
  void cancel() {
    const std::lock_guard lock(task_mutex_);
    dllm_task_cancel(task_);
  }

  // answer null: taken away after the first step.
  void ask(const Request& request, Tokens* answer) {
    dllm_error* err = dllm_error_new();
    std::unique_lock lock(decoder_mutex_);
    const int64_t slot = add(decoder_, request, err);
    for (double done = 0; done == 0;) {
      stepped_.wait(lock);
      NEED(dllm_decoder_metric(decoder_, slot, "done", &done, err), err);
      if (answer == nullptr) break;
    }
    if (answer != nullptr) *answer = ids_of(decoder_, slot, err);
    NEED(dllm_decoder_remove(decoder_, slot, err), err);
    dllm_error_release(err);
  }

  int64_t cancelled() const { return cancelled_; }

private:
  void step() {
    const dllm_status status = dllm_decoder_step(decoder_, task_, nullptr, err_);
    if (status == DLLM_OK) return;
    if (status != DLLM_CANCELLED) NEED(status, err_);
    ++cancelled_;
    const std::lock_guard lock(task_mutex_);
    dllm_task_release(task_);
    task_ = dllm_task_new();
  }

  dllm_error* err_;
  dllm_decoder* decoder_;
  std::mutex decoder_mutex_; // the host's one lock: a decoder takes one call at a time
  std::mutex task_mutex_;    // guards which task is the running one
  dllm_task* task_;
  std::condition_variable stepped_;
  int64_t cancelled_ = 0;
};

void test_server(const world& w, const char* json) {
  const std::vector<Request> requests = make_requests();
  std::vector<Tokens> alone, served(requests.size());
  for (const Request& request : requests) {
    dllm_decoder* decoder = make_decoder(w.model, json, w.err);
    const int64_t slot = add(decoder, request, w.err);
    NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, w.err), w.err);
    alone.push_back(ids_of(decoder, slot, w.err));
    dllm_decoder_release(decoder);
  }
  Server server(w.model, json);
  std::atomic<int64_t> clients{kClients};
  std::vector<std::thread> running;
  for (int64_t c = 0; c < kClients; ++c) {
    running.emplace_back([&, c] {
      for (size_t i = static_cast<size_t>(c); i < requests.size(); i += kClients) {
        if (i % 11 == 3) server.ask(requests[i], nullptr); // gives up at once
        server.ask(requests[i], &served[i]);
      }
      --clients;
    });
  }
  running.emplace_back([&] {
    // Not for ever: under a sanitizer a step may take longer than the pause.
    for (int i = 0; i < 200 && clients.load() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      server.cancel();
    }
  });
  server.serve(clients);
  for (std::thread& thread : running) thread.join();
  std::printf("# %lld steps were cancelled\n", static_cast<long long>(server.cancelled()));
  CHECK(served == alone);
}

// Every token is banned for the second of three slots: it ends alone, and the call after which no
// slot is active returns its error.
void test_one_slot_fails(const world& w) {
  const char* json = R"({"steps": 4, "temperature": 1.0})";
  int64_t vocab = 0;
  NEED(dllm_model_i64(w.model, "vocab", &vocab, w.err), w.err);
  std::string all = "{\"gen_length\": 6, \"suppress\": [\"0\"";
  for (int64_t id = 1; id < vocab; ++id) all += ", \"" + std::to_string(id) + "\"";
  const Request first{{1, 2}, 3, 8}, last{{4}, 5, 6};
  dllm_decoder *alone = make_decoder(w.model, json, w.err),
               *mixed = make_decoder(w.model, json, w.err);
  for (const Request& request : {first, last}) add(alone, request, w.err);
  NEED(dllm_decoder_run(alone, nullptr, nullptr, nullptr, w.err), w.err);

  add(mixed, first, w.err);
  dllm_options* opts = make_options("slot", (all + "]}").c_str(), w.err);
  int64_t failing = -1, active = 0;
  const Tokens prompt{1, 2};
  NEED(dllm_decoder_add(mixed, prompt.data(), nullptr, 2, opts, &failing, w.err), w.err);
  dllm_options_release(opts);
  add(mixed, last, w.err);
  const Tokens before = ids_of(mixed, failing, w.err);
  NEED(dllm_decoder_step(mixed, nullptr, &active, w.err), w.err);
  CHECK(active == 2);
  double finish = 0;
  NEED(dllm_decoder_metric(mixed, failing, "finish", &finish, w.err), w.err);
  CHECK(finish == 3);
  const dllm_status status = dllm_decoder_run(mixed, nullptr, nullptr, nullptr, w.err);
  CHECK(status == DLLM_FAILED_PRECONDITION);
  const std::string text = dllm_error_message(w.err);
  CHECK(text.find("slot 1: every token is banned at position 2") == 0);
  CHECK(ids_of(mixed, failing, w.err) == before);
  CHECK(ids_of(mixed, 0, w.err) == ids_of(alone, 0, w.err));
  CHECK(ids_of(mixed, 2, w.err) == ids_of(alone, 1, w.err));
  dllm_decoder_release(alone);
  dllm_decoder_release(mixed);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  test_server(w, R"({"steps": 5, "temperature": 1.0, "policy": "ancestral"})");
  test_server(w, R"({"steps": 8, "temperature": 1.0, "attention": "block_causal", "block_length": 4,
                     "cache": "exact"})");
  test_one_slot_fails(w);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
