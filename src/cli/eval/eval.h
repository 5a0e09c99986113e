#pragma once
// dllm eval stores results so that an interrupted evaluation can be continued, and has one function
// per kind of task.

#include "../command.h"
#include "../processes/limited.h"
#include "../processes/process.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::cli {

using EvalJson = nlohmann::ordered_json;

// The results of an evaluation, each a JSON object with an "id". With a path each result is
// appended to a file as one line. The first line of the file has the settings, and results of the
// file are not computed again.
class EvalResults {
public:
  // path "": results are kept only in memory. total: expected number of results; 0: unknown.
  // judging: the settings that judge completions and do not make them; results of other such
  // settings are unjudged. Fails when the file has results that differ in another setting, naming
  // the first.
  EvalResults(std::string path, EvalJson settings, int64_t total, bool quiet,
              std::vector<std::string> judging = {});

  // Returns true when the file has the result of `id`, which then counts in this evaluation.
  bool take(const std::string& id);
  // Returns the completion of `id` when the file has it unjudged.
  std::optional<std::string> unjudged(const std::string& id) const;
  bool judges_again() const { return !unjudged_.empty(); }
  // Adds the judged lines of unjudged completions, and writes the file with them.
  void add_judged(const std::vector<EvalJson>& lines);
  void add(const EvalJson& line);
  // The results that this evaluation took or added. The file may have more, of a larger --limit.
  const std::vector<EvalJson>& lines() const { return lines_; }
  int64_t resumed() const { return resumed_; } // results that were taken
  // Shows "31 of 164, 2 min left" when standard error is a terminal.
  void show_progress();

private:
  void read();
  void append(const EvalJson& line);

  std::string path_;
  OutputLock lock_;
  EvalJson settings_;
  std::vector<std::string> judging_;
  std::map<std::string, EvalJson> found_;    // results of the file that were not taken
  std::map<std::string, EvalJson> unjudged_; // lines with a completion and without a judgement
  std::vector<EvalJson> lines_;
  int64_t total_, resumed_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  StatusLine status_;
};

// ---- rows of files (eval_files.cpp) ----

// Reads JSON objects, one per line, from a file or a .gz file; at most `limit` (0: all). Fails
// naming file and line of a line that is not a JSON object.
std::vector<EvalJson> read_rows(const std::string& path, int64_t limit);
// Reads the rows of tasks. Fails when two tasks have the same id, naming both rows.
std::vector<EvalJson> read_tasks(const std::string& path, int64_t limit);
// Returns the JSON of the first line of a file or a .gz file; null for another file, and for a line
// above 1 MiB. Reads no more than that line.
EvalJson first_row(const std::string& path);
// Returns the text of a key. Fails naming the row.
std::string text_of(const EvalJson& row, const char* key, const std::string& path, size_t index);
// Returns the value of "task_id" (text or number), else `index`.
std::string id_of(const EvalJson& row, size_t index);
// The mean of numbers, and its standard error.
struct Mean {
  double value = 0, error = 0;
};
Mean mean_of(const std::vector<double>& numbers);
// Returns an unbiased estimate of the probability that one of k samples passes, when c of n samples
// passed. It is 1 - C(n - c, k) / C(n, k) (Chen et al. 2021).
double pass_at_k(int64_t n, int64_t c, int64_t k);

// ---- kinds of tasks: each adds to the results and returns its part of the report ----

// Computes the loss of a text: nats and bits per byte with standard errors, and perplexity
// (eval_text.cpp).
EvalJson evaluate_text(Context& context);
// Finds the choice that is most probable after its prompt (eval_choices.cpp).
EvalJson evaluate_choices(Context& context);
// Counts programs that pass their tests, or answers that a Lua checker accepts (eval_answers.cpp).
EvalJson evaluate_answers(Context& context);

// ---- scores of rows (eval_scores.cpp) ----

// Scores the answers of a task. Every estimate of the likelihood implements this interface.
class AnswerScorer {
public:
  virtual ~AnswerScorer() = default;
  // Returns log p(answer | prompt) in nats, or a bound of it with its standard error.
  virtual Mean score(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer,
                     int64_t seed) = 0;
};

// A model and the objective that scores it.
struct ScoredModel {
  explicit ScoredModel(Context& context);
  std::string objective_name; // option objective, with "auto" resolved
  // What the loss depends on: the objective, and its block length and noise schedule where these
  // are not the defaults.
  EvalJson settings = EvalJson::object();
  bool noiseless = false; // the objective has no noise, so one draw is exact
  // The state before a token predicts it, so the first token of a text is not scored.
  bool is_shifted = false;
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_objective> objective;
};
// The sum of the losses, and the number of counted tokens, of each row of a batch.
struct RowSums {
  std::vector<double> sums, counts;
};
RowSums row_sums(const Context& context, const ScoredModel& scored, const dllm_batch* batch,
                 int64_t seed);
// Returns a scorer that computes the bound of the objective with `draws` draws of noise (exact for
// ar).
std::unique_ptr<AnswerScorer> bound_scorer(const Context& context, const ScoredModel& scored,
                                           int64_t draws);

// ---- programs (eval_programs.cpp) ----

// A task whose answers are programs. Its keys select the format: HumanEval (prompt, entry_point,
// test), HumanEval with a suffix (infilling), or MBPP (text, test_list).
struct ProgramTask {
  std::string id;
  std::string prompt, suffix;     // texts for the model
  std::string before, after;      // parts of the program before and after the completion
  std::vector<std::string> stops; // texts that end a completion
};
ProgramTask program_task(const EvalJson& row, const std::string& path, size_t index);
// Returns the part of a completion that counts: the code of a fenced block, up to the first stop.
std::string trimmed(const ProgramTask& task, const std::string& completion);
// Runs the program and returns {"passed": bool, "result": "passed" or how the program ended}.
EvalJson run_tests(const ProgramRunner& runner, const ProgramTask& task,
                   const std::string& completion, dllm_task* cancel);

// ---- completions (eval_completions.cpp) ----

// The source of completions, which is a file or the model.
class Completions {
public:
  virtual ~Completions() = default;
  virtual bool from_model() const = 0; // true: the caller trims completions
  virtual int64_t count(const std::string& id) const = 0;
  // Returns the settings with which this text would be completed; empty for completions of a file.
  virtual EvalJson settings(const std::string& prompt, const std::string& suffix) = 0;
  // Says that get() will be called with these arguments, after the calls that were said before.
  virtual void expect(const std::string& prompt, const std::string& suffix, int64_t sample) = 0;
  virtual std::string get(const std::string& id, const std::string& prompt,
                          const std::string& suffix, int64_t sample) = 0;
};
std::unique_ptr<Completions> completions_of(Context& context);

} // namespace dllm::cli
