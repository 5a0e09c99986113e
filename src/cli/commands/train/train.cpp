// dllm train trains a new or pretrained model on text and writes checkpoints; a second start
// resumes the run.

#include "../../command.h"
#include "../../objective_facts.h"
#include "../../options/names.h"
#include "../../pictures/pictures.h"
#include "../../processes/process.h"
#include "../writing/decoding.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

namespace dllm::cli {
namespace {

// Returns the sample in one line.
std::string one_line_sample(const Context& context, const Run& run) {
  std::string text = sample_text(context, run);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Returns the options that decode a model of this objective.
std::string decoder_of(const ObjectiveFacts& objective) {
  if (!objective.policy.empty()) return " --policy " + objective.policy;
  if (!objective.sample_at_end) return "";
  return " --policy " + objective.sample.at("policy").get<std::string>() +
         " --decoder.temperature " + objective.sample.at("temperature").dump();
}

// Prints the last output: a sample of the model, and the command to continue with.
void print_next(Context& context, const Run& run) {
  if (context.json()) return;
  const ObjectiveFacts objective = facts_of(context.text("objective"));
  if (objective.sample_at_end) {
    try {
      const std::string sample = one_line_sample(context, run);
      std::fprintf(stderr, "sample: %s\n", printed_text(sample, stderr).c_str());
    } catch (const Failure& failure) {
      std::fprintf(stderr, "no sample: %s\n", failure.what());
    }
  }
  const auto step = static_cast<int64_t>(trainer_metric(run, "step"));
  const bool best_is_earlier =
      context.number("keep-best") > 0 && run.best.has_loss() && run.best.step() < step;
  if (best_is_earlier) {
    std::fprintf(stderr, "the lowest held-out loss is %.4f at step %lld: %s has its checkpoint\n",
                 run.best.loss(), static_cast<long long>(run.best.step()),
                 best_place(context, run).c_str());
  }
  const std::string model = best_is_earlier ? best_place(context, run) : context.text("out");
  long long length = 64;
  if (!objective.positions.empty())
    length = std::min(length, std::stoll(context.option("objective", objective.positions)));
  std::fprintf(stderr, "next: dllm %s --model %s --length %lld%s\n",
               run.form == RowForm::texts ? "generate" : "chat", shell_word(model).c_str(), length,
               decoder_of(objective).c_str());
}

using Json = nlohmann::ordered_json;

void put_json_line(const std::string& json) {
  std::printf("%s\n", json.c_str());
  std::fflush(stdout);
}

bool is_out_of_patience(const Context& context, const Run& run) {
  const int64_t patience = context.number("patience");
  return patience > 0 && run.best.without() >= patience;
}

// Runs between steps: held-out loss, and events for --json. The library saves checkpoints.
class Watch {
public:
  Watch(Context& context, Run& run)
      : context_(context), run_(run), eval_every_(eval_every(context, run.steps)),
        eval_part_(eval_part(context, run.steps)),
        seconds_(60 * std::stod(context.option("trainer", "minutes"))),
        tokens_(std::stod(context.option("trainer", "tokens"))),
        parts_(parts_at(trainer_metric(run, "tokens"))) {}

  static int32_t on_event(const dllm_event* event, void* user_data) {
    return static_cast<Watch*>(user_data)->look(event);
  }
  void rethrow() const {
    if (failure_) throw *failure_;
  }

private:
  int32_t look(const dllm_event* event) {
    try {
      if (context_.json()) {
        put_json_line(text([&](dllm_buffer* out, dllm_error* err) {
          return dllm_event_describe(event, out, err);
        }));
      }
      if (dllm_event_kind(event) == DLLM_EVENT_CHECKPOINT) {
        run_.saved = dllm_event_str(event, "dir");
        ++run_.saves;
      }
      if (dllm_event_kind(event) == DLLM_EVENT_TRAIN_STEP) look_at_step(event);
    } catch (const Failure& failure) {
      // The run sees the task itself. It then ends with a checkpoint.
      if (dllm_task_is_cancelled(context_.task()) != 0) return DLLM_CONTINUE;
      failure_ = failure;
      return DLLM_FAIL;
    }
    const bool ends = is_out_of_patience(context_, run_) || run_.limit.is_exceeded();
    return ends ? DLLM_STOP : DLLM_CONTINUE;
  }

  void look_at_step(const dllm_event* event) {
    if (run_.replaced != nullptr) run_.replaced->remove();
    int64_t step = 0, skipped = 0;
    double loss = 0;
    if (dllm_event_i64(event, "step", &step, nullptr) != DLLM_OK) return;
    run_.limit.add(event);
    // The loss of some objectives has weights that vary by the noise.
    if (dllm_event_f64(event, "nll", &loss, nullptr) == DLLM_OK ||
        dllm_event_f64(event, "loss", &loss, nullptr) == DLLM_OK) {
      const std::string diverges = run_.divergence.add(step, loss);
      if (!diverges.empty()) warn_of_divergence(context_, run_, diverges);
    }
    if (dllm_event_i64(event, "skipped", &skipped, nullptr) == DLLM_OK && skipped > 0)
      warn_of_divergence(context_, run_,
                         "step " + std::to_string(step) + ": " + std::to_string(skipped) +
                             " steps were not finite and are left out");
    int64_t tokens = 0;
    dllm_event_i64(event, "tokens", &tokens, nullptr);
    if (is_due(step, static_cast<double>(tokens))) print_held_out(context_, run_, step);
  }

  // Returns the parts of --minutes or --tokens that are used, whichever are more.
  int64_t parts_at(double tokens) const {
    if (eval_part_ == 0) return 0;
    const double by_clock = seconds_ > 0 ? trainer_metric(run_, "run_seconds") / seconds_ : 0;
    const double by_tokens = tokens_ > 0 ? tokens / tokens_ : 0;
    return static_cast<int64_t>(std::max(by_clock, by_tokens) / eval_part_);
  }

  bool is_due(int64_t step, double tokens) {
    if (eval_part_ == 0) return eval_every_ > 0 && step % eval_every_ == 0;
    const int64_t parts = parts_at(tokens);
    return std::exchange(parts_, std::max(parts, parts_)) < parts;
  }

  Context& context_;
  Run& run_;
  const int64_t eval_every_;      // steps
  const double eval_part_;        // of the minutes or tokens between held-out losses; 0: by steps
  const double seconds_, tokens_; // of --minutes and --tokens; 0: no limit
  int64_t parts_;                 // of the minutes or tokens, that had a held-out loss
  std::optional<Failure> failure_;
};

// Runs the steps and returns the reason for their end: "steps", "budget" (--minutes, --tokens),
// "data", "patience", "limit" (--stop-above) or "interrupted".
std::string run_steps(Context& context, Run& run, int64_t done) {
  Watch watch(context, run);
  const int64_t steps =
      run.steps > 0 ? run.steps - done : std::numeric_limits<int64_t>::max() - done;
  try {
    call([&](dllm_error* err) {
      return dllm_trainer_run(run.trainer.get(), run.loader.get(), steps, Watch::on_event, &watch,
                              context.task(), err);
    });
  } catch (const Failure& failure) {
    watch.rethrow();
    if (failure.status() == DLLM_CANCELLED) return "interrupted";
    if (failure.status() == DLLM_OUT_OF_RANGE) return "data";
    check_heads(context, failure);
    throw;
  }
  const bool all = run.steps > 0 && static_cast<int64_t>(trainer_metric(run, "step")) >= run.steps;
  if (all) return "steps";
  if (run.limit.is_exceeded()) return "limit";
  return is_out_of_patience(context, run) ? "patience" : "budget";
}

// Returns true when the run has the tokens of --tokens.
bool has_all_tokens(const Context& context, const Run& run) {
  const int64_t tokens = std::stoll(context.option("trainer", "tokens"));
  return tokens > 0 && trainer_metric(run, "tokens") >= static_cast<double>(tokens);
}

// Returns true when the run has trained for the minutes of --minutes.
bool has_all_minutes(const Context& context, const Run& run) {
  const double minutes = std::stod(context.option("trainer", "minutes"));
  return minutes > 0 && trainer_metric(run, "run_seconds") >= 60 * minutes;
}

void print_end(Context& context, const Run& run, const std::string& reason) {
  const auto step = static_cast<int64_t>(trainer_metric(run, "step"));
  if (context.json()) {
    put_json_line(
        Json{{"event", "end"},
             {"reason", reason},
             {"step", step},
             {"dir", run.saved},
             {"best_step", run.best.step()},
             {"best_loss", run.best.loss()},
             {"checkpoint_stall_seconds", trainer_metric(run, "checkpoint_stall_seconds")}}
            .dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  const double stall = trainer_metric(run, "checkpoint_stall_seconds");
  constexpr double kWorthALine = 1; // second; shorter stalls are printed at each save
  if (run.saves > 1 && stall >= kWorthALine)
    std::fprintf(stderr, "training stood still for %.1f s to save checkpoints\n", stall);
  if (reason == "interrupted")
    std::fprintf(stderr, "interrupted; the same command continues from here\n");
  if (reason == "data") {
    std::fprintf(stderr, "the data ended at step %lld; a larger --epochs, or none, continues\n",
                 static_cast<long long>(step));
  }
  if (reason == "patience") {
    std::fprintf(
        stderr,
        "stopped at step %lld: %lld held-out losses were not below the loss of step %lld; a "
        "larger --patience continues\n",
        static_cast<long long>(step), static_cast<long long>(run.best.without()),
        static_cast<long long>(run.best.step()));
  }
  if (reason == "limit") {
    std::fprintf(stderr, "stopped at step %lld: %s; a larger --stop-above continues\n",
                 static_cast<long long>(step), run.limit.text().c_str());
  }
  if (reason == "budget") {
    std::fprintf(stderr, "the budget is used up at step %lld; %s\n", static_cast<long long>(step),
                 has_all_tokens(context, run) ? "a larger --tokens continues"
                                              : "larger --minutes continue");
  }
}

// Returns the end of a sentence about how a finished run goes on.
std::string how_to_go_on(const Context& context, const Run& run, int64_t done) {
  const std::string epochs =
      context.typed("loader", "epochs") ? context.option("loader", "epochs") : "0";
  if (run.is_past_data)
    return " and has read more rows than --epochs " + epochs + ": a larger --epochs continues";
  return std::string(": ") + (epochs != "0" ? "without --epochs, " : "") + "--steps " +
         std::to_string(2 * done) + " continues";
}

int nothing_left(Context& context, const Run& run, int64_t done) {
  std::fprintf(stderr, "%s has %lld steps already%s, --fresh starts over\n",
               context.text("out").c_str(), static_cast<long long>(done),
               how_to_go_on(context, run, done).c_str());
  print_end(context, run, "steps");
  return 0;
}

int no_tokens_left(Context& context, const Run& run) {
  const auto tokens = static_cast<long long>(trainer_metric(run, "tokens"));
  std::fprintf(stderr,
               "%s has trained on %lld tokens already: --tokens %lld continues, --fresh starts "
               "over\n",
               context.text("out").c_str(), tokens, 2 * tokens);
  if (context.json()) print_end(context, run, "budget");
  return 0;
}

int no_minutes_left(Context& context, const Run& run) {
  const double minutes = trainer_metric(run, "run_seconds") / 60;
  std::fprintf(stderr,
               "%s has trained for %.3g minutes already: --minutes %.3g continues, --fresh starts "
               "over\n",
               context.text("out").c_str(), minutes, 2 * minutes);
  if (context.json()) print_end(context, run, "budget");
  return 0;
}

int train(Context& context) {
  Run run = open_run(context);
  const auto done = static_cast<int64_t>(trainer_metric(run, "step"));
  if (context.json()) put_json_line(describe_run(context, run));
  if (run.evaluating == done) print_held_out(context, run, done);
  if (run.is_past_data || (run.steps > 0 && done >= run.steps))
    return nothing_left(context, run, done);
  if (!run.resumed_from.empty() && has_all_tokens(context, run))
    return no_tokens_left(context, run);
  if (!run.resumed_from.empty() && has_all_minutes(context, run))
    return no_minutes_left(context, run);
  if (is_out_of_patience(context, run)) return print_end(context, run, "patience"), 0;
  if (run.has_record) write_changes(context, run, run_folder(context));
  if (!context.json()) std::fprintf(stderr, "%s\n", describe_run(context, run).c_str());
  run.limit = TrainingLimit(context.text("stop-above"));
  const std::string reason = run_steps(context, run, done);
  if (reason != "interrupted")
    print_held_out(context, run, static_cast<int64_t>(trainer_metric(run, "step")));
  print_end(context, run, reason);
  if (reason == "interrupted") return interrupted_code();
  print_next(context, run);
  return 0;
}

} // namespace

Command train_command() {
  using Kind = Argument::Kind;
  return {
      "train",
      "train a model on text; started again it resumes",
      "dllm train --data corpus.txt --out runs/first --steps 500",
      {{Kind::text, "data", "",
        "a file (text, JSON, JSON lines, CSV, Parquet, a token file; .gz is decompressed), a "
        "folder, or parts joined by +: a.jsonl[:90%]*0.5+folder; a resumed run has its own"},
       {Kind::text, "out", "runs/train",
        "the run's folder: metrics and checkpoints; one training at a time; s3:// or gs:// for "
        "checkpoints in an object store"},
       {Kind::text, "from", "",
        "start from this model (a folder, a GGUF file or a run) instead of from scratch"},
       {Kind::number, "lora", "",
        "train a LoRA adapter of this rank, and leave the model of --from as it is; --from MODEL "
        "--lora RANK --help says what it costs; --adapter trains one that is there"},
       {Kind::text, "teacher", "",
        "the teacher of a term of the loss, such as --align: base (the model without its adapters, "
        "the default), a model (a folder, a GGUF file or a run), a folder of dllm anchors, or rows "
        "(numbers of a file of row arrays)"},
       {Kind::text, "teacher-dtype", "auto", "format in which the teacher's weights are kept"},
       {Kind::text, "tokenizer", "",
        "use this tokenizer; default: the model's, or one trained on the data"},
       {Kind::number, "vocab", "2048", "tokens of a tokenizer trained on the data"},
       {Kind::text, "special-tokens", "",
        "further special tokens of a tokenizer trained on the data, joined by a comma: "
        "<think>,</think>"},
       {Kind::text, "template", "",
        "chat template of conversations: chatml, llama3, qwen, alpaca, or a file that holds one; "
        "prompts with responses become conversations too; default: the tokenizer's own, and chatml "
        "for a tokenizer trained here on messages"},
       {Kind::number, "layers", "4", "from scratch: layers"},
       {Kind::number, "hidden", "256", "from scratch: width, a multiple of 64"},
       {Kind::text, "objective", "mdlm", "the training objective: ", false, text_objectives},
       {Kind::text, "schedule", "", "noise schedule: linear, cosine, sqrt, ..."},
       {Kind::real, "eval-every", "100",
        "steps between held-out losses; below 1: that part of the run; 0: only at the end"},
       {Kind::number, "eval-batches", "8",
        "batches of a held-out loss, of 8 rows each, on a mesh of --batch rows; 0: none"},
       {Kind::number, "keep-best", "1",
        "checkpoints of the lowest held-out losses to keep, in the folder best of the run; 0: "
        "none"},
       {Kind::number, "patience", "0",
        "end the run after this many held-out losses in a row that are not the lowest; 0: never"},
       {Kind::text, "stop-above", "",
        "end the run when the mean of a metric over 10 steps is above a number: repetition=0.3"},
       {Kind::number, "examples", "16",
        "rows that are predicted at each held-out loss, with a sample, for dllm report; 0: none"},
       {Kind::text, "log", "",
        "write the metrics into the run's folder also as one of these, or as several joined by "
        "a comma: ",
        false, log_kinds},
       {Kind::flag, "fresh", "", "start over: remove the run's checkpoints"}},
      {"engine", "model", "adapter", "dataset", "loader", "objective:objective",
       "schedule:schedule", "trainer"},
      train,
      false,
      {{"trainer", "save_every", "250"}},
      {},
      {{"trainer", "steps", "500, without another limit"},
       {"loader", "epochs", "0"},
       {"loader", "split", "train, with held-out rows"},
       {"trainer", "save_wait", "false"}},
      print_adapter_cost};
}

} // namespace dllm::cli
