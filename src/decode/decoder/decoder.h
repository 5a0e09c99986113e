#pragma once
// Turns canvases into text: holds the requests, runs the model on all active ones at once, lets a
// policy decide.

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
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

// What a request may bring along in addition to its options.
struct OwnSettings {
  std::shared_ptr<const Constraint> constraint; // null: every token may be written
  // Of kind "decoder" or "decoder:<policy>", in place of the decoder's own; empty: those. slots, trace,
  // trace_bytes and on_change are the decoder's for all requests.
  std::optional<Options> decoding = {};
};

// One call at a time, but for the readers below; different decoders of one model may run together.
// Keeps the model alive. The
// tokens of a request depend on its canvas, its settings and the weights alone: not on other
// requests, threads, what is cached, or step against run.
class Decoder {
public:
  // Options of kind "decoder" or "decoder:<policy>". Fails with failed_precondition when the model
  // has no mask token and the policy needs one.
  Decoder(std::shared_ptr<model::Model> model, const Options& options);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Random numbers of all requests from here on; null: by key from their seeds. Before the first
  // request.
  void set_random_source(std::shared_ptr<const RandomSource> random_source);

  // Drops all requests, then adds one: the prompt and gen_length open positions.
  void start(std::span<const int32_t> prompt, uint64_t seed);
  // fixed empty: all of canvas is given and gen_length open positions follow; else 1 given, 0 open.
  // Returns the request.
  int64_t add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
              const Options& options, const OwnSettings& own = {});
  void remove(int64_t request);

  // One denoising step of every active request; returns how many still have open positions. A cancel
  // and a failure of the engine change no canvas. What fails for one request ends that one alone
  // (Finish::failed), its canvas stays as before the step, and the others go on. step, step_for and
  // run throw the error of the first request that failed when no request is active after them; a
  // later call then tries those that failed again.
  int64_t step(const Task* task = nullptr);
  // Steps, with events, until `budget` is used up or none is active; returns how many are. The budget may end
  // inside of a forward pass, between two operations: the step is then suspended and goes on with the next
  // call of this, step or run, with the weights it began with. A request that is added meanwhile waits for the
  // next step. start, predict, commit and the removal of a request that takes part drop the step, as a cancel does:
  // no canvas has changed. A call takes at least one operation.
  int64_t step_for(std::chrono::nanoseconds budget, const EventFn& fn = nullptr,
                   Task* task = nullptr);
  // Whether a step is suspended; from any thread.
  bool is_suspended() const { return suspended_.load(std::memory_order_relaxed); }
  // Steps until none is active. Answers false when the callback stopped it.
  bool run(const EventFn& fn = nullptr, Task* task = nullptr);

  // The same step in halves, for a host that decides itself: predict runs the model, statistics
  // lists its predictions for a request, commit writes tokens. predict again without commit gives the
  // same. Arrays of statistics:
  // positions i32(n), token i32(n), probability, max_probability, entropy f32(n), argmax i32(n),
  // top_ids i32(n, top), top_probs f32(n, top). Fails with failed_precondition before predict.
  void predict(const Task* task = nullptr);
  void commit(int64_t request, std::span<const int64_t> positions, std::span<const int32_t> tokens);

  const Request& request(int64_t number) const; // fails with not_found

  // Readers, from any thread, also while a step runs: they see the last complete step (or start, add,
  // remove, predict, commit) and wait for nothing.
  RequestCopyRef copy(int64_t number) const; // fails with not_found
  Batch statistics(int64_t request) const;
  // number -1: all. done finish steps nfe commits prefills launches round_trips decided open slots
  // cache_bytes reused computed suspended
  double metric(int64_t number, const std::string& key) const;
  std::string trace(int64_t number) const;
  Json describe() const;

private:
  struct Entry {
    std::shared_ptr<Method> method;
    Request request;
    std::unique_ptr<Session> session;
    int64_t cache_row = -1;
    std::shared_ptr<TraceLog> trace;      // null: none is kept
    std::shared_ptr<const Error> failure; // null: it did not fail
    // Of predict; consumed by commit.
    bool predicted = false;
    PassRequest pass;
    std::vector<Prediction> predictions;
    std::optional<Vetoes> vetoes; // of the predictions, with a constraint
    // The canvas as the last event showed it, or as it was added.
    std::vector<int32_t> shown_ids;
    std::vector<State> shown_states;
  };
  struct Change {
    int64_t request;
    Outcome outcome;
  };
  // A step on copies, which take the place of a request and its session when nothing fails.
  struct Trial {
    Request request;
    std::unique_ptr<Session> session;
    Outcome outcome;
  };
  // Steps that a loop took and the host has not repeated yet.
  struct Replay {
    struct Part { // of one launch
      LoopRecord record;
      std::vector<int64_t> slots; // by row of the record
    };
    std::vector<Part> parts;
    int64_t next = 0; // step

    int64_t most_steps() const;
  };
  // limit: most steps that are wanted; a loop may take them in one run.
  std::vector<Change> advance(int64_t limit, const Task* task);
  std::vector<Change> advance(const std::vector<Entry*>& active, int64_t limit, const Task* task);
  std::vector<Entry*> active_requests();
  void need_request() const;
  // decoder_failure.cpp
  static bool is_of_request(const Error& error);
  bool succeeds(Entry& entry, const std::function<void()>& work);
  void fail_request(Entry& entry, const Error& error);
  void try_again();
  int64_t report_failures() const;
  // decoder_run.cpp. The changes of one step; nothing when it is suspended.
  std::optional<std::vector<Change>> advance_until(SlicedCall::Clock::time_point until,
                                                   const Task* task);
  void drop_suspended();
  // decoder_run.cpp. Sends the events of a step; false when the callback stops.
  bool show(const EventFn& fn, const std::vector<Change>& changes);
  // Runs passes until every request has its predictions for a step. Returns their weights.
  Weights predict_all(const std::vector<Entry*>& requests, const Task* task);
  void run_passes(const std::vector<Entry*>& requests, const Weights& weights, const Task* task,
                  int64_t least_rows = 0);
  void run_pass_of(const std::vector<Entry*>& owners, std::span<const PassRow> rows,
                   const Weights& weights, const Task* task, int64_t least_rows);
  void find_pass(Entry& entry, int passes);
  void keep_final(const Entry& entry, const PassRequest& pass);
  bool takes_cache_row(Entry& entry, const PassRequest& pass);
  void end_filling(Entry& entry);
  void move_to_snapshot(const Entry& entry, PassRequest& pass) const;
  CacheView cache_view(const Entry& entry) const;
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
  void drop_cache(Entry& entry);
  // The weights of a step, all of its passes: K and V of other ones are dropped.
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

  std::shared_ptr<Method> method_; // of requests without settings of their own
  int64_t methods_ = 1;            // that were made
  std::shared_ptr<const RandomSource> random_source_;
  PassProgram program_;
  std::optional<Replay> replay_;
  DecodeState state_;
  std::map<int64_t, Entry> requests_;
  int64_t launches_ = 0, round_trips_ = 0;
  int64_t loop_computed_ = 0; // positions of loops
  int64_t capacity_ = 0;      // most positions a pass predicted
  int64_t version_ = 0;       // of the weights that K and V were computed with
  Published published_;
  bool warned_of_equal_ = false; // once is enough
  std::atomic<bool> suspended_{false};
  std::vector<Change> sliced_changes_; // of the step in sliced_
  std::set<int64_t> sliced_requests_;  // that take part in it
  SlicedCall sliced_;                  // last: its thread uses the members above
};

} // namespace dllm::decode
