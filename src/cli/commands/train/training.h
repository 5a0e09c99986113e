#pragma once
// A Run holds the parts of a training run. It is made from the command line, and resumed when its
// folder holds a checkpoint.

#include "../../command.h"
#include "../../processes/process.h"
#include "training_best.h"
#include "training_divergence.h"
#include "training_limit.h"
#include "training_replaced.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace dllm::cli {

// The form of the rows of a run. Conversations begin as the chat template of the tokenizer begins,
// instructions as the prompt of Alpaca.
enum class RowForm { texts, conversations, instructions };

struct Run {
  std::unique_ptr<RunLock> lock; // lock of the run's folder, released last
  // The run that --fresh replaces, until the first step of the new one; null: none.
  std::unique_ptr<ReplacedRun> replaced;
  Owned<dllm_engine> engine;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_dataset> data;
  Owned<dllm_loader> loader, held_out; // held_out: null without held-out rows
  Owned<dllm_model> model;
  Owned<dllm_schedule> schedule;
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  std::string resumed_from;      // folder of the checkpoint; "": a new run
  std::string saved;             // folder of the last checkpoint
  int64_t saves = 0;             // checkpoints of this start
  int64_t steps = 0;             // steps of the whole run; 0: until --minutes or --tokens end it
  int64_t chosen_steps = 0;      // --steps; 0: not given
  int64_t last_eval = -1;        // step of the last held-out loss
  int64_t evaluating = -1;       // step of a held-out loss in which the run was stopped
  bool has_same_rows = false;    // held-out losses compare with those before the stop
  Best best;                     // the lowest held-out loss
  Divergence divergence;         // of the losses of the steps
  TrainingLimit limit{""};       // --stop-above
  RowForm form = RowForm::texts; // of the first rows
  bool is_past_data = false;     // the checkpoint read more rows than --epochs has
  bool has_record = false;       // the folder has the settings of the last start
  bool diverged = false;         // the warning about divergence was printed
};

// ---- the run's folder (training_folder.cpp) ----

// Returns the local folder of a run's metrics, settings, tokenizer and LOCK. It is --out, or the
// staging folder when --out is in an object store.
std::string run_folder(const Context& context);
// Returns true for a path in an object store: "s3://bucket/runs/first".
bool is_in_store(const std::string& path);

// Returns the newest checkpoint in a folder or a path of an object store; "" without one.
std::string latest_checkpoint(const Context& context, const std::string& root);
// Returns the step of a checkpoint's folder: 500 for "runs/first/step_000500".
int64_t step_of(const std::string& checkpoint);
// Returns the file or folder of a sink that a run writes its metrics to. kind: "jsonl", "csv" or
// "tensorboard".
std::string metrics_file(const std::string& out, const std::string& kind);
// Returns the place of the checkpoints with the lowest held-out losses: out/best.
std::string best_root(const Context& context);
// Returns the place of the checkpoint with the lowest held-out loss.
std::string best_place(const Context& context, const Run& run);
// Removes the checkpoints after `step` from the local folder out/best.
void remove_best_after(const std::string& out, int64_t step);
// Returns true for a folder step_000500 that a save wrote or began, which has a COMMIT or
// COMMIT.partial.
bool is_checkpoint(const std::string& folder);

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
// Returns the JSON of dllm_trainer_describe.
nlohmann::ordered_json trainer_description(const Run& run);
// Prints a warning about divergence, once in a run.
void warn_of_divergence(const Context& context, Run& run, const std::string& what);
// Computes the mean loss on the held-out split, once per step. The run's sinks get it. Saves a
// checkpoint into out/best when the loss is one of the lowest so far.
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
// Returns the kinds of --log. Fails for a kind that is not one of log_kinds().
std::vector<std::string> wanted_logs(const Context& context);
std::vector<std::string> log_kinds();
// Fails when a file from which a new run starts does not exist.
void check_sources(const Context& context);
// Fails when an option that counts only at the start of a run differs from the start of this run.
// These are the options in the arrays below, and all options of the kinds model and adapter.
inline constexpr const char* kStartNumbers[] = {"vocab", "layers", "hidden", "lora"};
inline constexpr const char* kStartPaths[] = {"from", "tokenizer"};
void check_resumed(const Context& context, const std::string& out);
// Converts an interval option `shown` with value `every` to steps. A value below 1 is a fraction of
// `steps`, rounded up; 0 means never. steps: steps of the run; 0: unknown.
int64_t interval_steps(const std::string& shown, double every, int64_t steps);
// Returns true when --minutes or --tokens ends the run.
bool has_budget(const Context& context);
// Returns the part of --minutes or --tokens between held-out losses; 0 for a run whose steps are
// known.
double eval_part(const Context& context, int64_t steps);
// Returns the steps between held-out losses of a run of `steps` steps; 0: only at the end, or by
// eval_part().
int64_t eval_every(const Context& context, int64_t steps);

// ---- the record of a run's settings, out/run.json (training_settings.cpp) ----

// Returns the record as JSON; "" without one.
std::string read_start(const std::string& out);
// Returns the absolute path of a file or folder, which keeps the name of a link. A path of an
// object store stays as it is.
std::string full_path(const std::string& path);
// Returns true when both full paths lead to one file or folder.
bool is_same_place(const std::string& one, const std::string& other);
// Sets what the run was started with where the command line has nothing, and prints these settings
// in one line.
void keep_settings(Context& context, const std::string& out);
// Returns the loader's options of the last start as JSON when they make other rows than the options
// of this start; else "".
std::string rows_before(const Context& context, const std::string& out);
// Writes the record of a new run.
void write_start(const Context& context, const Run& run, const std::string& out);
// Writes the lowest held-out loss into the record. The evaluation that was begun is done.
void write_best(const Best& best, const std::string& out);
// Writes the step of a held-out loss that begins, so that a run that is stopped in it computes it
// when it goes on.
void write_evaluating(int64_t step, const std::string& out);
// Prints a line with the data and the options that differ from the last start. Sets run.best,
// unless its loss is of other rows or of another objective.
void note_changes(const Context& context, Run& run, const std::string& out);
// Writes them into the record of a resumed run. Call it when the run trains on.
void write_changes(const Context& context, const Run& run, const std::string& out);

// ---- a new model (training_model.cpp) ----

// Returns the config.json of a new model, with the width of --hidden, and the attention and family
// of the objective.
std::string config_from_scratch(const Context& context, int64_t vocabulary, int64_t layers);

// ---- LoRA adapters (training_adapter.cpp) ----

// Returns true when the command asks for a new adapter, by --lora or --adapter.kind.
bool wants_adapter(const Context& context);
// Returns the option that asks for an adapter, as it was typed.
std::string asking_option(const Context& context);
// Sets the rank of --lora. Fails for a rank that is not allowed.
void set_rank(Context& context);
// Fails for options of a new adapter in a command that does not ask for one.
void check_adapter_options(const Context& context);
// Fails for options of adapters that do not fit together in a new run.
void check_adapter(const Context& context);
// Adds a new adapter to the model of a new run, when the command asks for one.
void add_adapter(const Context& context, dllm_model* model);
// Fails in place of a step that lacks heads of the objective, when the run trains an adapter: an
// adapter does not add them. Returns after other failures.
void check_heads(const Context& context, const Failure& failure);
// Returns the adapters of a model as JSON.
std::string adapters_json(const dllm_model* model);
// Returns a line with the numbers that are trained; "" for a model without adapters.
std::string adapters_text(const dllm_model* model);

std::string numbers_text(double count); // "0.15 M", "135 M" or "34.6 k"

// ---- what an adapter costs (training_cost.cpp) ----

// Returns the options of the new adapter that the user typed, as JSON for option adapter of a plan.
std::string planned_adapter(const Context& context);
// Returns a line with the numbers that are trained and the bytes of a step. It reads the heads of
// the files of --from.
std::string adapter_cost(const Context& context, dllm_engine* engine);
// Prints it on standard error when the command asks for a new adapter of --from.
void say_adapter_cost(const Context& context, dllm_engine* engine);
// Prints it after the help, where the command line names a base and an adapter.
void print_adapter_cost(Context& context);

// ---- the teacher of the terms of a loss (training_teacher.cpp) ----

// Returns the full path of the folder of --teacher when it holds anchors; else "".
std::string anchors_of(const Context& context);
// Sets what --teacher names. Fails for options that do not fit together.
void set_teacher(Context& context);
// Fails when a new model does not get the tokenizer of its teacher.
void check_teacher(const Context& context);
// Adds the model of --teacher to the model of the run, when it is not there yet. Fails when its
// anchors are of a teacher of another size.
void add_teacher(const Context& context, const Run& run);

// ---- tokenizer, dataset, the held-out split, the number of steps (training_data.cpp) ----

// Steps of a run without --steps, --minutes, --tokens and --epochs.
inline constexpr int64_t kUsualSteps = 500;

// A token whose text differs between two tokenizers.
struct OtherToken {
  int64_t id;
  std::string before, now;
};
// Returns the first token that both have with unlike texts.
std::optional<OtherToken> first_other_token(const dllm_tokenizer* before,
                                            const dllm_tokenizer* now);
// Opens the tokenizer of a resumed run. A new run has the tokenizer of --tokenizer or --from, or
// trains one on the data.
Owned<dllm_tokenizer> choose_tokenizer(Context& context, const std::string& checkpoint);
// Returns option template of the dataset: a name or a text; "" without one.
std::string chosen_template(const Context& context);
// Gives the tokenizer of a run on instructions the prompt of Alpaca as its chat template. Then
// every model that is made of the run has the template. Returns true when the tokenizer has
// changed.
bool take_prompt_of_rows(const Context& context, Run& run);
// Sets run.data, run.loader and run.form, and run.held_out when there is enough text.
void open_rows(Context& context, Run& run);
// Returns --epochs; 0 for any number.
int64_t chosen_epochs(const Context& context);
// Returns a loader of the rows of the run, with other values of options in JSON.
Owned<dllm_loader> loader_with(const Context& context, const Run& run, const std::string& json);
// Returns the position in the rows of this start for a position in the rows of the start before.
// Rows of another length are more or fewer, so the part of the epoch counts. before: the options of
// that start as JSON; "": its rows were the same.
int64_t position_now(const Context& context, const Run& run, int64_t position,
                     const std::string& before);
// What the steps before this start have read.
struct ReadSoFar {
  int64_t position = 0, steps = 0; // position: rows
  int64_t batches = 0;             // of an update that is not whole
};
// Returns the steps of the whole run from --steps and --epochs; 0: until --minutes or --tokens end
// it. Steps of --epochs are the steps before, and what the rest of the epochs makes.
int64_t planned_steps(const Context& context, const Run& run, const ReadSoFar& before = {});

} // namespace dllm::cli
