#pragma once
// The parts of a training run: made from the command line, resumed when its folder holds a checkpoint.

#include "../session.h"

#include <string>

namespace dllm::cli {

struct Run {
  Owned<dllm_engine> engine;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_dataset> data;
  Owned<dllm_loader> loader, held_out;
  Owned<dllm_model> model;
  Owned<dllm_schedule> schedule;
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  int64_t last_eval = -1;  // step of the last held-out loss
};

Run open_run(Context& context);
std::string describe_run(const Run& run);  // a line: parameters, tokens, threads
double trainer_metric(const Run& run, const char* key);
// Mean loss on the held-out split, once a step; the run's sinks tell it.
void print_held_out(Context& context, Run& run, int64_t step);
std::string save(Context& context, Run& run);  // the checkpoint's folder; the one of this step when it is saved already

}  // namespace dllm::cli
