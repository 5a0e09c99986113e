#pragma once
// The parts of dllm eval: results that outlive an interrupted call, and one function per kind of task.

#include "../command.h"
#include "../limited.h"
#include "../process.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dllm::cli {

using EvalJson = nlohmann::ordered_json;

// Results, one JSON object with an "id" a line, behind a line with the settings they belong to. With a path they are
// appended to a file as they come, and what is there already is not computed again.
class EvalResults {
public:
  // path "": nothing is kept. Fails when the file holds results of other settings, naming the first that differs.
  EvalResults(std::string path, const EvalJson& settings, int64_t total, bool quiet);

  bool has(const std::string& id) const { return by_id_.count(id) != 0; }
  void add(const EvalJson& line);
  const std::vector<EvalJson>& lines() const { return lines_; }
  int64_t resumed() const { return resumed_; } // results that were there already
  // "31 of 164, 2 min left" where standard error is a terminal.
  void show_progress();

private:
  void read(const EvalJson& settings);
  void append(const EvalJson& line);

  std::string path_;
  std::vector<EvalJson> lines_;
  std::map<std::string, size_t> by_id_;
  int64_t total_, resumed_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  StatusLine status_;
};

// ---- rows of files (eval_files.cpp) ----

// A JSON object a line, of a file or a .gz file; at most `limit` (0: all). Names file and line of a bad one.
std::vector<EvalJson> read_rows(const std::string& path, int64_t limit);
// The value of a key, or a Failure with the row.
std::string text_of(const EvalJson& row, const char* key, const std::string& path, size_t index);
// The field's "task_id" (text or number), else the number of the row.
std::string id_of(const EvalJson& row, size_t index);
// A mean of numbers with its standard error.
struct Mean {
  double value = 0, error = 0;
};
Mean mean_of(const std::vector<double>& numbers);
// Unbiased probability that one of k samples passes when c of n did: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021).
double pass_at_k(int64_t n, int64_t c, int64_t k);

// ---- kinds of tasks: each adds to the results and returns its part of the report ----

// The loss of a text: nats and bits per byte with standard errors, perplexity (eval_text.cpp).
EvalJson evaluate_text(Context& context);
// Which choice is most probable after its prompt (eval_choices.cpp).
EvalJson evaluate_choices(Context& context);
// Programs that pass their tests, and answers that a Lua checker accepts (eval_answers.cpp).
EvalJson evaluate_answers(Context& context);

// ---- scores of rows (eval_scores.cpp) ----

// A model under an objective. Answers are scored behind the interface that another estimate of the likelihood may take.
class AnswerScorer {
public:
  virtual ~AnswerScorer() = default;
  // log p(answer | prompt) in nats: a number, or a bound with its standard error.
  virtual Mean score(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer,
                     int64_t seed) = 0;
};

struct ScoredModel {
  explicit ScoredModel(Context& context);
  std::string objective_name; // "auto" resolved
  bool noiseless = false;     // one draw of the objective is all of them
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  Owned<dllm_tokenizer> tokenizer;
  Owned<dllm_objective> objective;
};
// Sums and counts of the rows of a batch.
struct RowSums {
  std::vector<double> sums, counts;
};
RowSums row_sums(const Context& context, const ScoredModel& scored, const dllm_batch* batch,
                 int64_t seed);
// The bound of the objective over `draws` draws of noise (exact for ar).
std::unique_ptr<AnswerScorer> bound_scorer(const Context& context, const ScoredModel& scored,
                                           int64_t draws);

// ---- programs (eval_programs.cpp) ----

// A task whose answers are programs. Formats by their keys: HumanEval (prompt, entry_point, test), the same with a suffix
// (infilling), MBPP (text, test_list).
struct ProgramTask {
  std::string id;
  std::string prompt, suffix;     // for the model
  std::string before, after;      // of the completion in the program
  std::vector<std::string> stops; // texts that end a completion
};
ProgramTask program_task(const EvalJson& row, const std::string& path, size_t index);
// The completion as far as it counts: a fenced block's code, up to the first stop.
std::string trimmed(const ProgramTask& task, const std::string& completion);
// {"passed": bool, "result": "passed" or how it ended}
EvalJson run_tests(const ProgramRunner& runner, const ProgramTask& task,
                   const std::string& completion, dllm_task* cancel);

// ---- completions (eval_completions.cpp) ----

// Where completions come from: a file of them, or the model.
class Completions {
public:
  virtual ~Completions() = default;
  virtual bool from_model() const = 0; // then they are trimmed
  virtual int64_t count(const std::string& id) const = 0;
  virtual std::string get(const std::string& id, const std::string& prompt,
                          const std::string& suffix, int64_t sample) = 0;
};
std::unique_ptr<Completions> completions_of(Context& context);

} // namespace dllm::cli
