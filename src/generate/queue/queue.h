#pragma once
// A Queue decodes the requests that other threads submit, on a thread of its own. Requests join and
// leave between two steps.

#include "base/json.h"
#include "base/options.h"
#include "base/task.h"
#include "generate/queue/queue_options.h"
#include "generate/request_text.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dllm::generate {

// Any thread may call any member. The text of a request is the text that a Generator returns for
// it. In a child that was forked from the process of the queue, calls fail with
// failed_precondition.
class Queue {
public:
  // Runs its argument. The thread of the queue takes each step inside of it.
  using Around = std::function<void(const std::function<void()>& step)>;

  // options: of kind "queue". Fails as Generator.
  Queue(std::shared_ptr<model::Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
        const Options& options, Around around = nullptr);
  ~Queue(); // cancels what is not over
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Reads a request on the calling thread, and returns its number when it waits for its turn.
  // submission: of kind "submission". Fails as RequestReader::read, with resource_exhausted when
  // too many requests wait, and with unavailable after drain().
  int64_t submit(const Options& request, const Options& submission, const Task* task = nullptr);

  struct Progress {
    int64_t version; // begins at 1, and grows at each step and at the end
    bool is_over;
  };
  // Waits until the version of a request is above `seen`, or the request is over, or the time is
  // up. Number -1: any request, and the queue is never over. Fails with not_found.
  Progress wait(int64_t number, int64_t seen, std::chrono::milliseconds most,
                const Task* task = nullptr) const;

  // As of the last complete step. Fail with not_found, text() also as RequestText::text.
  std::string text(int64_t number, TextPart part);
  Json describe(int64_t number);
  Json describe() const; // of the queue, with its totals

  // Ends a request with the error cancelled. A request that is over stays as it is.
  void cancel(int64_t number);
  // Cancels a request and forgets it.
  void remove(int64_t number);
  // Takes no further requests, and waits until all are over.
  void drain(const Task* task = nullptr);

  const std::shared_ptr<model::Model>& model() const;
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const;

private:
  struct State;
  State& own() const; // fails in a forked child

  std::unique_ptr<State> state_;
};

} // namespace dllm::generate
