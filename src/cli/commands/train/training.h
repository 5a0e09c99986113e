#pragma once
// A Run holds the parts of a training run. It is made from the command line, and resumed when its
// folder holds a checkpoint.

#include "../../command.h"
#include "../../process.h"

#include <memory>
#include <string>

namespace dllm::cli {

struct Run {
  std::unique_ptr<RunLock> lock; // lock of the run's folder, released last
  Owned<dllm_engine> engine;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_dataset> data;
  Owned<dllm_loader> loader, held_out; // held_out: null without held-out rows
  Owned<dllm_model> model;
  Owned<dllm_schedule> schedule;
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  std::string resumed_from; // folder of the checkpoint; "": a new run
  std::string saved;        // folder of the last checkpoint
  int64_t steps = 0;        // steps of the whole run; 0: until --minutes are over
  int64_t last_eval = -1;   // step of the last held-out loss
  bool diverged = false;    // the warning about divergence was printed
};

// ---- the run's folder (training_folder.cpp) ----

// Returns the local folder of a run's metrics, settings, tokenizer and LOCK. It is --out, or the
// staging folder when --out is in an object store.
std::string run_folder(const Context& context);
// Returns true for a path in an object store: "s3://bucket/runs/first".
bool is_in_store(const std::string& path);

// Returns the newest checkpoint in a folder or a path of an object store; "" without one.
std::string latest_checkpoint(const Context& context, const std::string& root);
// Removes a run's files from its folder: checkpoints, tokenizer, metrics, examples, settings.
void remove_checkpoints(const std::string& root);

// ---- the run (training.cpp), and what it prints about itself (training_report.cpp) ----

Run open_run(Context& context);
// These functions return the JSON of a model, and of the effective options of a kind.
std::string model_description(const dllm_model* model);
std::string options_json(const Context& context, const char* kind);
// Prints how the objective changed the model of --from. from, made: model_description() before and
// after.
void print_changes(const Context& context, const std::string& from, const std::string& made);
// Returns a line with parameters, vocabulary, rows and threads. With --json it returns JSON, which
// also has the effective options and the model's description.
std::string describe_run(Context& context, const Run& run);
double trainer_metric(const Run& run, const char* key);
// Computes the mean loss on the held-out split, once per step. The run's sinks get it.
void print_held_out(Context& context, Run& run, int64_t step);

// ---- examples for dllm report (training_examples.cpp) ----

// Adds a line with predicted held-out tokens and a sample to out/examples.jsonl, when option
// examples is set.
void record_examples(const Context& context, const Run& run, int64_t step);
// Removes the lines of steps after `step`, from which training continues.
void rewind_examples(const std::string& out, int64_t step);
std::string examples_file(const std::string& out);
// Returns a text of the model, decoded with a policy that fits its objective.
std::string sample_text(const Context& context, const Run& run);

// ---- checks before the program computes or writes (training_checks.cpp) ----

// Fails for values that do not fit together, and for options that would have no effect.
void check_values(Context& context);
// Fails when a file from which a new run starts does not exist.
void check_sources(const Context& context);
// Fails when an option that counts only at the start of a run differs from the start of this run.
void check_resumed(const Context& context, const std::string& out);
// Writes these options to out/run.json, for the check of a later start.
void write_start(const Context& context, const std::string& out);
// Prints a line with the options for data, rows and updates that differ from the last start, and
// writes their new values to out/run.json.
void note_changes(const Context& context, const std::string& out);

// Converts an interval option `shown` with value `every` to steps. A value below 1 is a fraction of
// `steps`, rounded up; 0 means never. steps: steps of the run; 0: unknown.
int64_t interval_steps(const std::string& shown, double every, int64_t steps);
// Returns the steps between held-out losses of a run of `steps` steps; 0: only at the end.
int64_t eval_every(const Context& context, int64_t steps);

// ---- a new model (training_model.cpp) ----

// Returns the config.json of a new model, with the width of --hidden, and the attention and family
// of the objective.
std::string config_from_scratch(const Context& context, int64_t vocabulary, int64_t layers);

// ---- tokenizer, dataset, the held-out split, the number of steps (training_data.cpp) ----

// Steps of a run without --steps, --minutes and --epochs.
inline constexpr int64_t kUsualSteps = 500;

// Opens the tokenizer of a resumed run. A new run has the tokenizer of --tokenizer or --from, or
// trains one on the data.
Owned<dllm_tokenizer> choose_tokenizer(Context& context, const std::string& checkpoint);
// Sets run.data and run.loader, and run.held_out when there is enough text.
void open_rows(Context& context, Run& run);
// Returns the steps of the whole run from --steps, --epochs and --minutes; 0: until the minutes are
// over.
int64_t planned_steps(Context& context, Run& run);

} // namespace dllm::cli
