#pragma once
// The decoder turns canvases into text. It holds the requests, runs the model on all active ones at
// once, and applies the decisions of their policies.

#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/cache/decode_state.h"
#include "decode/decoder/admission.h"
#include "decode/decoder/publisher.h"
#include "decode/decoder/suspended_step.h"
#include "decode/method/method.h"
#include "decode/request/request.h"
#include "decode/slot/failures.h"
#include "decode/slot/slot_list.h"
#include "decode/step/decoding_step.h"
#include "decode/trace/published.h"
#include "model/model.h"
#include "tensor/batch.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// Decodes requests with one model, which it keeps alive. One call at a time, except for the readers
// below. Different decoders of one model may run at the same time.
//
// The tokens of a request depend only on its canvas, its settings and the weights. They do not
// depend on other requests, threads, the cache, or on step against run.
class Decoder {
public:
  // Options of kind "decoder" or "decoder:<policy>". Fails with failed_precondition when the model
  // has no mask token and the policy needs one.
  Decoder(std::shared_ptr<model::Model> model, const Options& options);
  // make: makes the policy of requests without decoding options of their own, in place of the table
  // of policies.
  Decoder(std::shared_ptr<model::Model> model, const Options& options, PolicyMaker make);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Sets the source of the random numbers of all later requests; null: their seeds. Called before
  // the first request is added.
  void set_random_source(std::shared_ptr<const RandomSource> random_source);

  // Drops all requests, then adds one with the prompt and gen_length open positions.
  void start(std::span<const int32_t> prompt, uint64_t seed);
  // Adds a request and returns its number. With `fixed` empty, all positions of `canvas` are given
  // and gen_length open positions follow. Else `fixed` has an entry per position: 1 given, 0 open.
  // A request that loads an adapter changes the model, so a suspended step is finished first.
  int64_t add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
              const Options& options, const OwnSettings& own = {});
  void remove(int64_t request);
  // Ends a request as its stop tokens do (Finish::stopped). Open positions stay open. A request
  // that is over stays as it is.
  void stop(int64_t request);

  // Takes one denoising step of every active request, and returns the number of requests that are
  // still active. A cancel or a failure of the engine changes no canvas.
  // An error of one request ends only that request (Finish::failed). Its canvas stays as before the
  // step, and the others go on. step, step_for and run throw the error of the first failed request
  // if no request is active after them. A later call then tries the failed requests again.
  int64_t step(const Task* task = nullptr);
  // Takes steps and sends their events until `budget` is used up or no request is active. Returns
  // the number of active requests. A call runs at least one operation of a program.
  // The budget may end inside a forward pass, between two operations. The step is then suspended.
  // The next call of step_for, step or run resumes it, with the weights that it began with. A
  // request that is added meanwhile joins at the next step. If it loads an adapter, add finishes
  // the suspended step, and the next call of step_for or run sends its events.
  // start, predict, commit, a cancel, and the removal of a request of the step drop the suspended
  // step. This changes no canvas.
  int64_t step_for(std::chrono::nanoseconds budget, const EventFn& fn = nullptr,
                   Task* task = nullptr);
  // Returns whether a step is suspended. May be called from any thread.
  bool is_suspended() const { return suspended_.is_suspended(); }
  // Takes steps until no request is active. Returns false if the callback stopped it.
  bool run(const EventFn& fn = nullptr, Task* task = nullptr);

  // The two halves of a step, for a host that decides itself. predict runs the model, statistics
  // returns the predictions of a request, and commit writes tokens. A second predict without a
  // commit gives the same predictions. statistics has the arrays
  //   i32(n) positions, token, argmax; f32(n) probability, max_probability, entropy;
  //   i32(n, top) top_ids; f32(n, top) top_probs.
  // statistics and commit fail with failed_precondition before predict.
  void predict(const Task* task = nullptr);
  void commit(int64_t request, std::span<const int64_t> positions, std::span<const int32_t> tokens);

  const Request& request(int64_t number) const; // fails with not_found

  // Readers, which any thread may call while a step runs. They return the state after the last
  // complete step, start, add, remove, predict or commit, and do not wait.
  RequestCopyRef copy(int64_t number) const; // fails with not_found
  Batch statistics(int64_t request) const;
  // Returns a metric (trace/metrics.h) of one request; number -1: of the decoder.
  double metric(int64_t number, const std::string& key) const;
  std::string trace(int64_t number) const;
  Json describe() const;

private:
  // Takes a step and publishes its slots. A loop may run up to `limit` steps in one launch.
  std::vector<Change> advance(int64_t limit, bool watched, const Task* task);
  // Returns the changes of one step; nothing if the step is suspended at `until`.
  std::optional<std::vector<Change>> advance_until(SuspendedStep::Clock::time_point until,
                                                   const Task* task);
  void drop_replays();
  // Finishes a suspended step and keeps its changes for the events of a later call.
  void finish_suspended();
  // Sends the events of finish_suspended(). Returns false if the callback stops.
  bool send_finished(const EventFn& fn);
  void publish(const std::vector<Slot*>& changed);

  std::shared_ptr<model::Model> source_; // the model of the caller
  std::shared_ptr<model::Model> model_;  // `source_`, or one with the same arrays
  DecodeState state_;                    // outlives the slots, which hold rows of it
  SlotList slots_;
  Failures failures_;
  Admission admission_;
  DecodingStep step_;
  Publisher publisher_;
  std::vector<Change> finished_; // changes of steps whose events are not sent yet
  SuspendedStep suspended_;      // the last member: its thread uses the members above
};

} // namespace dllm::decode
