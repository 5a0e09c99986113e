#pragma once
// The decoder turns canvases into text. It holds the requests, runs the model on all active ones at
// once, and applies the decisions of their policies.

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/cache/cache_row.h"
#include "decode/cache/decode_state.h"
#include "decode/decoder/method.h"
#include "decode/decoder/setup.h"
#include "decode/decoder/vetoes.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/pass_program.h"
#include "decode/request/constraint.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "decode/trace/published.h"
#include "model/model.h"
#include "model/plan.h"
#include "noise/schedule.h"
#include "tensor/batch.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// Settings that a request may have in addition to its options.
struct OwnSettings {
  std::shared_ptr<const Constraint> constraint; // null: every token may be written
  // Options of kind "decoder" or "decoder:<policy>" for this request; not set: the decoder's own.
  // slots, trace, trace_bytes and on_change always are the decoder's.
  std::optional<Options> decoding = {};
};

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
  bool is_suspended() const { return suspended_.load(std::memory_order_relaxed); }
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
  // The steps that an array program took for a request and the host has not replayed yet.
  struct ArrayReplay {
    std::shared_ptr<const ArrayRecord> record; // null: there are none
    int64_t row = 0, next = 0;
  };
  struct Entry {
    Entry(std::shared_ptr<Method> of, DecodeState& state)
        : method(std::move(of)), cache_row(state, {method->passes().shift, method->number()}) {}

    std::shared_ptr<Method> method;
    Request request;
    std::unique_ptr<Session> session;
    CacheRow cache_row;
    std::shared_ptr<TraceLog> trace;      // null: none is kept
    std::shared_ptr<const Error> failure; // null: it did not fail
    // Set by predict and consumed by commit.
    bool predicted = false;
    PassRequest pass;
    // The view of the cache that `pass` was made for; not set: the session must plan it.
    std::optional<CacheView> planned;
    std::vector<Prediction> predictions;
    std::optional<Vetoes> vetoes; // for a request with a constraint
    ArrayReplay arrays;           // for a request of a policy over arrays
    // The canvas in the last event, or when the request was added.
    std::vector<int32_t> shown_ids;
    std::vector<State> shown_states;
  };
  // The result of a step of one request.
  struct Change {
    int64_t request;
    Outcome outcome;
  };
  // A step on copies of a request and its session. The copies replace both if nothing fails.
  struct Trial {
    Request request;
    std::unique_ptr<Session> session;
    Outcome outcome;
  };
  // The steps that a loop took and the host has not replayed yet.
  struct Replay {
    struct Part { // one launch
      LoopRecord record;
      std::vector<int64_t> slots; // numbers of the requests, by row of the record
    };
    std::vector<Part> parts;
    int64_t next = 0; // the step to replay next

    int64_t most_steps() const;
  };
  // Takes a step and returns its changes. A loop may run up to `limit` steps in one launch.
  std::vector<Change> advance(int64_t limit, const Task* task);
  std::vector<Change> advance(const std::vector<Entry*>& active, int64_t limit, const Task* task);
  std::vector<Change> advance_tokens(const std::vector<Entry*>& active, int64_t limit,
                                     const Task* task);
  std::vector<Entry*> active_requests();
  void need_request() const;
  // decoder_failure.cpp
  static bool is_of_request(const Error& error);
  bool succeeds(Entry& entry, const std::function<void()>& work);
  void fail_request(Entry& entry, const Error& error);
  void try_again();
  int64_t report_failures() const;
  // decoder_run.cpp. Returns the changes of one step; nothing if the step is suspended.
  std::optional<std::vector<Change>> advance_until(SlicedCall::Clock::time_point until,
                                                   const Task* task);
  void drop_suspended();
  // Sends the events of a step. Returns false if the callback stops.
  bool show(const EventFn& fn, const std::vector<Change>& changes);
  // Runs passes until every request has its predictions for a step. Returns the weights that were
  // used.
  Weights predict_all(const std::vector<Entry*>& requests, const Task* task);
  void run_passes(const std::vector<Entry*>& requests, const Weights& weights, const Task* task,
                  int64_t least_rows = 0);
  void run_pass_of(const std::vector<Entry*>& owners, std::span<const PassRow> rows,
                   const Weights& weights, const Task* task, int64_t least_rows);
  void plan_pass(Entry& entry);
  void set_pass(Entry& entry, PassRequest pass);
  void end_filling(Entry& entry);
  // decoder_loop.cpp
  bool in_loop(const std::vector<Entry*>& active) const;
  void launch(const std::vector<Entry*>& active, int64_t limit, const Task* task);
  void launch_alike(const std::vector<Entry*>& requests, std::span<const LoopRow> rows,
                    const Weights& weights, int64_t limit, const Task* task, Replay& replay);
  Replay::Part launch_loop(const std::vector<Entry*>& requests, std::span<const LoopRow> rows,
                           const Weights& weights, int64_t limit, const Task* task);
  std::vector<LoopPlan> fill_caches(const std::vector<Entry*>& active, const Weights& weights,
                                    const Task* task);
  std::vector<Change> replay();
  void replay_predictions(Entry& entry, const LoopRecord& record, int64_t step, int64_t row);
  Change replay_step(Entry& entry, const LoopRecord& record, int64_t step, int64_t row);
  static Trial try_step(const Entry& entry);
  void drop_replays();
  // decoder_arrays.cpp
  void launch_arrays(const std::vector<Entry*>& active, int64_t limit, const Task* task);
  void launch_arrays_alike(const std::vector<Entry*>& requests, int64_t limit, const Task* task);
  std::vector<Change> replay_arrays(const std::vector<Entry*>& active);
  Change replay_array_step(Entry& entry);
  // decoder_constraint.cpp
  void constrain(Entry& entry, const Weights& weights, const Task* task);
  Trial constrained_step(Entry& entry, const Weights& weights, const Task* task);
  void predict_again(Entry& entry, std::span<const int64_t> positions, const Weights& weights,
                     const Task* task);
  static void check_tokens(const Entry& entry, std::span<const int64_t> positions,
                           std::span<const int32_t> tokens);
  Change accept(Entry& entry, Trial trial);
  Change finish(Entry& entry, Outcome outcome);
  void apply_stop(Request& request, Outcome& outcome);
  std::shared_ptr<Method> method_of(const Options& options, const OwnSettings& own);
  void open_canvas(Entry& entry, std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                   int64_t length);
  static void set_sampling(const Options& decoding, const Options& options,
                           RequestSettings& settings);
  void warn_of_equal(const Entry& added, const Options& options);
  // Returns the weights for all passes of a step. Drops K and V of other weights.
  Weights take_weights(const Task* task);
  int64_t add_request(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
                      const Options& options, const OwnSettings& own = {});
  RequestCopyRef copy_of(const Entry& entry) const;
  DecoderTotals totals() const;
  void publish(const std::vector<Entry*>& changed, bool drop_others = false);
  int64_t active_count() const;
  Entry& entry(int64_t number);
  const Entry& entry(int64_t number) const;

  std::shared_ptr<model::Model> model_;
  const Options& options() const { return method_->options(); }

  PolicyMaker make_;               // empty: the table of policies
  std::shared_ptr<Method> method_; // of requests without options of their own
  int64_t methods_ = 1;            // number of methods that were made
  std::shared_ptr<const RandomSource> random_source_;
  PassProgram program_;
  std::optional<Replay> replay_;
  DecodeState state_;
  std::map<int64_t, Entry> requests_;
  int64_t launches_ = 0, round_trips_ = 0;
  int64_t loop_computed_ = 0; // positions that loops computed
  int64_t capacity_ = 0;      // most positions that a pass predicted
  int64_t version_ = 0;       // version of the weights that K and V were computed with
  Published published_;
  bool warned_of_equal_ = false; // the warning is logged once
  std::atomic<bool> suspended_{false};
  std::vector<Change> sliced_changes_; // changes of the step in sliced_
  std::set<int64_t> sliced_requests_;  // numbers of the requests that take part in it
  SlicedCall sliced_;                  // the last member: its thread uses the members above
};

} // namespace dllm::decode
