// dllm train: from text to a checkpoint, from scratch or from a pretrained model; started again, it resumes.

#include "training.h"

#include "registry.h"

#include <chrono>
#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// What happens between steps: held-out loss, checkpoints, the budget in minutes.
class Watch {
 public:
  Watch(Context& context, Run& run) : context_(context), run_(run), start_(Clock::now()) {
    eval_every_ = context.number("eval-every");
    save_every_ = context.number("save-every");
    if (context.has("minutes")) minutes_ = std::stod(context.text("minutes"));
  }

  static int32_t on_event(const dllm_event* event, void* user_data) {
    return static_cast<Watch*>(user_data)->look(event);
  }
  void rethrow() const {
    if (failure_) throw *failure_;
  }

 private:
  int32_t look(const dllm_event* event) {
    int64_t step = 0;
    if (dllm_event_kind(event) != DLLM_EVENT_TRAIN_STEP || dllm_event_i64(event, "step", &step, nullptr) != DLLM_OK) {
      return DLLM_CONTINUE;
    }
    try {
      if (eval_every_ > 0 && step % eval_every_ == 0) print_held_out(context_, run_, step);
      if (save_every_ > 0 && step % save_every_ == 0) save(context_, run_);
    } catch (const Failure& failure) {
      failure_ = failure;
      return DLLM_FAIL;
    }
    const std::chrono::duration<double, std::ratio<60>> spent = Clock::now() - start_;
    if (minutes_ <= 0 || spent.count() < minutes_) return DLLM_CONTINUE;
    std::fprintf(stderr, "\n%.1f minutes are over: stopping at step %lld\n", minutes_, static_cast<long long>(step));
    return DLLM_STOP;
  }

  Context& context_;
  Run& run_;
  Clock::time_point start_;
  int64_t eval_every_ = 0, save_every_ = 0;
  double minutes_ = 0;
  std::optional<Failure> failure_;
};

// False when the user pressed Ctrl-C: the step was finished, the rest is for another run.
bool run_steps(Context& context, Run& run, int64_t steps) {
  Watch watch(context, run);
  try {
    call([&](dllm_error* err) {
      return dllm_trainer_run(run.trainer.get(), run.loader.get(), steps, Watch::on_event, &watch, context.task(), err);
    });
  } catch (const Failure& failure) {
    watch.rethrow();
    if (failure.status() == DLLM_OUT_OF_RANGE) std::fprintf(stderr, "\n%s\n", failure.what());
    else if (failure.status() != DLLM_CANCELLED) throw;
    return failure.status() != DLLM_CANCELLED;
  }
  return true;
}

int train(Context& context) {
  Run run = open_run(context);
  const auto done = static_cast<int64_t>(trainer_metric(run, "step"));
  const int64_t steps = context.number("steps");
  if (done >= steps) {
    std::fprintf(stderr, "%s has %lld steps already; --steps %lld goes on, --fresh starts over\n",
                 context.text("out").c_str(), static_cast<long long>(done), static_cast<long long>(done + steps));
    return 0;
  }
  std::fprintf(stderr, "%s\n", describe_run(run).c_str());
  const bool finished = run_steps(context, run, steps - done);
  const std::string dir = save(context, run);
  if (finished) print_held_out(context, run, static_cast<int64_t>(trainer_metric(run, "step")));
  std::fprintf(stderr, "saved %s\n", dir.c_str());
  if (!finished) {
    std::fprintf(stderr, "interrupted; the same command goes on from here\n");
    return kInterrupted;
  }
  return 0;
}

}  // namespace

Command train_command() {
  using Kind = Argument::Kind;
  return {"train",
          "train a model on text; started again it resumes",
          "dllm train --data corpus.txt --out runs/first --steps 500",
          {{Kind::text, "data", "", "a text file, a folder of text files, or JSON lines", true},
           {Kind::text, "out", "runs/train", "the run's folder: config, metrics, checkpoints"},
           {Kind::text, "from", "", "start from this model (a folder or a GGUF file) instead of from scratch"},
           {Kind::text, "tokenizer", "", "use this tokenizer; default: the model's, or one trained on the data"},
           {Kind::number, "vocab", "2048", "tokens of a tokenizer trained on the data"},
           {Kind::number, "layers", "4", "from scratch: layers"},
           {Kind::number, "hidden", "256", "from scratch: width, a multiple of 64"},
           {Kind::text, "objective", "mdlm", "what is learned: mdlm, ar, nano"},
           {Kind::text, "schedule", "", "noise schedule: linear, cosine, sqrt, ..."},
           {Kind::number, "steps", "500", "optimizer steps in all, those of a resumed run included"},
           {Kind::text, "minutes", "", "stop after so many minutes"},
           {Kind::number, "eval-every", "100", "held-out loss every so many steps; 0: only at the end"},
           {Kind::number, "eval-batches", "8", "batches of a held-out loss"},
           {Kind::number, "save-every", "250", "checkpoint every so many steps; 0: only at the end"},
           {Kind::flag, "fresh", "", "start over: remove the run's checkpoints"}},
          {"engine", "model", "dataset", "loader", "objective:objective", "schedule:schedule", "trainer", "checkpoint"},
          train};
}

}  // namespace dllm::cli
