#pragma once
// Turns canvases into text: holds the requests, runs the model on all active ones at once, lets a policy decide.

#include "base/event.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/policy.h"
#include "decode/slot.h"
#include "decode/step_program.h"
#include "model/model.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// One call at a time; different decoders of one model may run together. Keeps the model alive. The tokens of a request
// depend on its canvas, its settings and the weights alone: not on other requests, threads, or step against run.
class Decoder {
 public:
  // Options of kind "decoder" or "decoder:<policy>". Fails with failed_precondition when the model has no mask token.
  Decoder(std::shared_ptr<model::Model> model, const Options& options);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Drops all requests, then adds one: the prompt and gen_length open positions.
  void start(std::span<const int32_t> prompt, uint64_t seed);
  // fixed empty: all of canvas is given and gen_length open positions follow; else 1 given, 0 open. Answers the slot.
  int64_t add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed, const Options& options);
  void remove(int64_t slot);

  // One denoising step of every active slot; answers how many still have open positions. A step that fails or is
  // cancelled changes no canvas.
  int64_t step(const Task* task = nullptr);
  // Steps until none is active. Answers false when the callback stopped it.
  bool run(const EventFn& fn = nullptr, Task* task = nullptr);

  const Slot& slot(int64_t number) const;  // fails with not_found
  // number -1: all. done finish steps nfe commits prefills open slots
  double metric(int64_t number, const std::string& key) const;
  std::string trace(int64_t number) const;
  Json describe() const;

 private:
  struct Change {
    int64_t slot;
    std::vector<int64_t> decided;
    bool block_ended = false;
    int64_t block = 0, begin = 0, end = 0;
  };
  std::vector<Change> advance(const Task* task);
  Change commit(Slot& slot, std::span<const Prediction> predictions);
  void plan_block(Slot& slot);
  void finish_block(Slot& slot);
  void apply_stop(Slot& slot, Change& change);
  void check_weights();
  int64_t active_count() const;
  int64_t capacity() const;

  std::shared_ptr<model::Model> model_;
  Options options_;
  std::unique_ptr<Policy> policy_;
  noise::ScheduleRef schedule_;
  int32_t mask_id_;
  StepProgram program_;
  std::map<int64_t, Slot> slots_;
  int64_t version_ = 0;
};

}  // namespace dllm::decode
