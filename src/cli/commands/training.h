#pragma once
// The parts of a training run: made from the command line, resumed when its folder holds a checkpoint.

#include "../run_lock.h"
#include "../session.h"

#include <memory>
#include <string>

namespace dllm::cli {

struct Run {
  std::unique_ptr<RunLock> lock;  // of the run's folder, let go of last
  Owned<dllm_engine> engine;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_dataset> data;
  Owned<dllm_loader> loader, held_out;  // held_out: null when nothing is held out
  Owned<dllm_model> model;
  Owned<dllm_schedule> schedule;
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  std::string resumed_from;  // a checkpoint's folder
  std::string saved;         // the last checkpoint's folder
  int64_t steps = 0;         // of the whole run; 0: until the minutes are over
  int64_t last_eval = -1;    // step of the last held-out loss
};

Run open_run(Context& context);
// A line: parameters, vocabulary, rows, threads. As JSON: that, the effective options and the model's attention.
std::string describe_run(Context& context, const Run& run);
double trainer_metric(const Run& run, const char* key);
// Mean loss on the held-out split, once a step; the run's sinks get it.
void print_held_out(Context& context, Run& run, int64_t step);

}  // namespace dllm::cli
