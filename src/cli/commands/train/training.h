#pragma once
// The parts of a training run: made from the command line, resumed when its folder holds a checkpoint.

#include "../../command.h"
#include "../../process.h"

#include <memory>
#include <string>

namespace dllm::cli {

struct Run {
  std::unique_ptr<RunLock> lock; // of the run's folder, released last
  Owned<dllm_engine> engine;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_dataset> data;
  Owned<dllm_loader> loader, held_out; // held_out: null when nothing is held out
  Owned<dllm_model> model;
  Owned<dllm_schedule> schedule;
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  std::string resumed_from; // a checkpoint's folder
  std::string saved;        // the last checkpoint's folder
  int64_t steps = 0;        // of the whole run; 0: until the minutes are over
  int64_t last_eval = -1;   // step of the last held-out loss
  bool diverged = false;    // a line has said so
};

// ---- the run's folder (training_folder.cpp) ----

// Where the files of a run lie that are no checkpoints (metrics, settings, tokenizer, LOCK): --out itself, or the local folder
// of one in an object store.
std::string run_folder(const Context& context);
// --out names a place in an object store: "s3://bucket/runs/first".
bool is_in_store(const std::string& path);

// The newest checkpoint below a folder or a place in an object store; empty: there is none.
std::string latest_checkpoint(const Context& context, const std::string& root);
// Removes what a run wrote into its folder: checkpoints, tokenizer, metrics, examples, settings.
void remove_checkpoints(const std::string& root);

// ---- the run (training.cpp), and what it prints about itself (training_report.cpp) ----

Run open_run(Context& context);
// JSON of a model, and of the effective options of a kind.
std::string model_description(const dllm_model* model);
std::string options_json(const Context& context, const char* kind);
// What the objective makes of a model that was trained otherwise: its description before and after.
void print_changes(const Context& context, const std::string& from, const std::string& made);
// A line: parameters, vocabulary, rows, threads. As JSON: that, the effective options and the model's attention.
std::string describe_run(Context& context, const Run& run);
double trainer_metric(const Run& run, const char* key);
// Mean loss on the held-out split, once a step; the run's sinks get it.
void print_held_out(Context& context, Run& run, int64_t step);

// ---- what dllm report draws (training_examples.cpp) ----

// A line of out/examples.jsonl, when option examples asks for it: held-out tokens that are predicted, and a sample.
void record_examples(const Context& context, const Run& run, int64_t step);
// Drops the lines of steps after `step`; training goes on from there.
void rewind_examples(const std::string& out, int64_t step);
std::string examples_file(const std::string& out);
// What the model writes, by a policy that fits its objective.
std::string sample_text(const Context& context, const Run& run);

// ---- checks, before anything is computed or written (training_checks.cpp) ----

// Values that do not fit together, and options that would do nothing.
void check_values(Context& context);
// A new run: the files it starts from are there.
void check_sources(const Context& context);
// A resumed run: options that only count at its start must have the same values.
void check_resumed(const Context& context, const std::string& out);
// Writes these options to out/run.json, for the check of a later run.
void write_start(const Context& context, const std::string& out);
// A line of what differs from the last start: data, rows, rates. Writes down those of this one.
void note_changes(const Context& context, const std::string& out);

// What an option says in steps, of a run of so many (0: not known): below 1 that part of them, rounded up; 0: never.
int64_t interval_steps(const std::string& shown, double every, int64_t steps);
// Steps between held-out losses of a run of so many steps; 0: only at the end.
int64_t eval_every(const Context& context, int64_t steps);

// ---- a new model (training_model.cpp) ----

// The config.json of a model from scratch: width from --hidden, attention and family as the objective needs them.
std::string config_from_scratch(const Context& context, int64_t vocabulary, int64_t layers);

// ---- tokenizer, dataset, the held-out split, the number of steps (training_data.cpp) ----

// Steps of a run when neither --steps nor --minutes nor --epochs is given.
inline constexpr int64_t kUsualSteps = 500;

// A resumed run has its own, else the requested one, the model's, or one trained on the data.
Owned<dllm_tokenizer> choose_tokenizer(Context& context, const std::string& checkpoint);
// run.data, run.loader and, where the text is enough, run.held_out.
void open_rows(Context& context, Run& run);
// Steps of the whole run: from --steps, --epochs and --minutes; 0: until the minutes are over.
int64_t planned_steps(Context& context, Run& run);

} // namespace dllm::cli
