#pragma once
// The decoder turns canvases into text. It holds the requests, runs the model on all active ones at
// once, and applies the decisions of their policies.

#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/array/array_program.h"
#include "decode/cache/decode_state.h"
#include "decode/decoder/admission.h"
#include "decode/decoder/method.h"
#include "decode/decoder/publisher.h"
#include "decode/decoder/suspended_step.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/pass_program.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "decode/slot/failures.h"
#include "decode/slot/slot_list.h"
#include "decode/step/launch_count.h"
#include "decode/trace/published.h"
#include "model/model.h"
#include "tensor/batch.h"

#include <chrono>
#include <cstdint>
#include <map>
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
  int64_t add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
              const Options& options, const OwnSettings& own = {});
  void remove(int64_t request);

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
  // request that is added meanwhile joins at the next step.
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

  // Fails if the constraint of the slot refuses one of the tokens that the host chose.
  static void check_tokens(const Slot& slot, std::span<const int64_t> positions,
                           std::span<const int32_t> tokens);

private:
  struct LoopLaunch {
    LoopRecord record;
    std::vector<int64_t> slots; // numbers of the slots, by row of the record
  };
  // The launches of one step of the decoder, and the step to replay next.
  struct LaunchedLoops {
    std::vector<LoopLaunch> launches;
    int64_t next = 0;

    int64_t most_steps() const;
  };
  struct LoopRowAt {
    Slot* slot;
    const LoopRecord* record;
    int64_t row;
  };
  // The steps of one slot that an array program took, and the step to replay next.
  struct LaunchedArray {
    std::shared_ptr<const ArrayRecord> record;
    int64_t row = 0, next = 0;
  };
  using Slots = std::vector<Slot*>;
  // Takes a step and publishes its slots. A loop may run up to `limit` steps in one launch.
  std::vector<Change> advance(int64_t limit, const Task* task);
  std::vector<Change> advance_all(const Slots& active, int64_t limit, const Task* task);
  std::vector<Change> advance_tokens(const Slots& slots, const Task* task);
  // Returns the changes of one step; nothing if the step is suspended at `until`.
  std::optional<std::vector<Change>> advance_until(SuspendedStep::Clock::time_point until,
                                                   const Task* task);
  // Runs passes until every slot has its predictions for a step. Returns the weights that were
  // used.
  Weights predict_all(const Slots& slots, const Task* task);
  Weights take_weights(const Task* task);
  void run_passes(const Slots& slots, const Weights& weights, const Task* task,
                  int64_t least_rows = 0);
  void run_pass_of(const Slots& slots, std::span<const PassRow> rows, const Weights& weights,
                   const Task* task, int64_t least_rows);
  std::vector<Prediction> repeat_pass(Slot& slot, const PassSettings& settings,
                                      const Weights& weights, const Task* task);
  // decoder_loop.cpp
  static bool in_loop(const Slots& slots);
  std::vector<Change> take_in_loop(const Slots& slots, int64_t limit, const Task* task);
  void launch_loops(const Slots& slots, int64_t limit, const Task* task);
  std::vector<LoopPlan> fill_caches(const Slots& slots, const Weights& weights, const Task* task);
  void launch_loops_alike(const Slots& slots, std::span<const LoopRow> rows, const Weights& weights,
                          int64_t limit, const Task* task, LaunchedLoops& launched);
  LoopLaunch launch_loop(const Slots& slots, std::span<const LoopRow> rows, const Weights& weights,
                         int64_t limit, const Task* task);
  std::map<int64_t, LoopRowAt> rows_of_step(const LaunchedLoops& launched);
  std::vector<Change> replay_loops();
  static void replay_predictions(const LoopRowAt& own, int64_t step);
  static Change replay_loop_step(const LoopRowAt& own, int64_t step);
  void drop_replays();
  // decoder_arrays.cpp
  void launch_arrays(const Slots& slots, int64_t limit, const Task* task);
  void launch_arrays_alike(const Slots& slots, int64_t limit, const Task* task);
  void launch_array(const Slots& slots, const Weights& weights, int64_t limit, const Task* task);
  std::vector<Change> replay_arrays(const Slots& slots);
  Change replay_array_step(Slot& slot);
  // decoder_constraint.cpp
  void constrain(Slot& slot, const Weights& weights, const Task* task);
  Trial constrained_step(Slot& slot, const Weights& weights, const Task* task);
  void predict_again(Slot& slot, std::span<const int64_t> positions, const Weights& weights,
                     const Task* task);
  DecoderTotals totals() const;
  void publish(const Slots& changed);

  std::shared_ptr<model::Model> model_;
  DecodeState state_; // outlives the slots, which hold rows of it
  SlotList slots_;
  Failures failures_;
  Admission admission_;
  PassProgram program_;
  LaunchCount launches_;
  std::optional<LaunchedLoops> loops_;
  std::map<int64_t, LaunchedArray> arrays_; // by number of the slot
  int64_t capacity_ = 0;                    // most positions that a pass predicted
  int64_t version_;                         // version of the weights that K and V have
  Publisher publisher_;
  SuspendedStep suspended_; // the last member: its thread uses the members above
};

} // namespace dllm::decode
