// dllm eval --task choices scores questions with several choices.

#include "../fingerprint.h"
#include "eval.h"

#include <algorithm>
#include <cmath>

namespace dllm::cli {
namespace {

struct Question {
  std::string id, prompt;
  std::vector<std::string> choices;
  size_t right = 0;
};

// "answer" is the index of a choice or its text.
Question question_of(const EvalJson& row, const std::string& path, size_t index) {
  Question question{id_of(row, index), text_of(row, "prompt", path, index), {}, 0};
  const auto refuse = [&](const std::string& what) {
    return Failure(DLLM_DATA_LOSS, path + ": row " + std::to_string(index + 1) + ": " + what,
                   R"(a row is {"prompt": TEXT, "choices": [TEXT, ...], "answer": INDEX})");
  };
  const EvalJson choices = row.value("choices", EvalJson());
  if (!choices.is_array() || choices.size() < 2)
    throw refuse("choices is not a list of two or more texts");
  for (const EvalJson& choice : choices) {
    if (!choice.is_string() || choice.get<std::string>().empty())
      throw refuse("a choice is not a text, or is empty");
    question.choices.push_back(choice.get<std::string>());
  }
  const EvalJson answer = row.value("answer", EvalJson());
  const auto found =
      answer.is_string()
          ? std::find(question.choices.begin(), question.choices.end(), answer.get<std::string>())
          : question.choices.end();
  if (answer.is_number_unsigned() && answer.get<size_t>() < question.choices.size())
    question.right = answer.get<size_t>();
  else if (found != question.choices.end())
    question.right = static_cast<size_t>(found - question.choices.begin());
  else
    throw refuse("answer " + answer.dump() + " is not one of the choices");
  return question;
}

size_t best_of(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Returns the token that a text follows: bos, or eos of a tokenizer without bos. Fails for a
// tokenizer that has neither.
int32_t token_before_text(const ScoredModel& scored, const Question& question,
                          const std::string& choice) {
  int32_t token = 0;
  for (const char* name : {"bos", "eos"}) {
    if (dllm_tokenizer_id(scored.tokenizer.get(), name, &token, nullptr) == DLLM_OK) return token;
  }
  throw Failure(DLLM_FAILED_PRECONDITION,
                "question " + question.id + ": no token is before the choice \"" + choice +
                    "\", so nothing predicts its first token, and the tokenizer has no bos and no "
                    "eos",
                "begin the prompt with a text whose tokens all choices keep");
}

// Scores the choices of a question. A token may span the border of prompt and choice, so the answer
// begins at the first token that differs from the prompt's tokens.
EvalJson ask(const Question& question, const ScoredModel& scored, AnswerScorer& scorer,
             int64_t seed) {
  const std::vector<int32_t> prompt = encode(scored.tokenizer.get(), question.prompt);
  std::vector<double> scores, errors, per_byte;
  for (const std::string& choice : question.choices) {
    const std::vector<int32_t> all = encode(scored.tokenizer.get(), question.prompt + choice);
    const auto border = std::mismatch(prompt.begin(), prompt.end(), all.begin(), all.end()).second;
    if (border == all.end()) {
      throw Failure(DLLM_INVALID_ARGUMENT,
                    "question " + question.id + ": the choice \"" + choice +
                        "\" adds no token to the prompt, so it has no probability",
                    "move its text from the prompt to the choices, or remove the choice");
    }
    std::vector<int32_t> before(all.begin(), border);
    if (before.empty() && scored.is_shifted)
      before.push_back(token_before_text(scored, question, choice));
    const Mean score = scorer.score(before, {border, all.end()}, seed);
    scores.push_back(score.value);
    errors.push_back(score.error);
    per_byte.push_back(score.value / static_cast<double>(choice.size()));
  }
  return {{"id", question.id},
          {"scores", scores},
          {"errors", errors},
          {"chosen", best_of(scores)},
          {"right", best_of(scores) == question.right},
          {"right_per_byte", best_of(per_byte) == question.right}};
}

} // namespace

EvalJson evaluate_choices(Context& context) {
  const std::string path = context.text("data");
  const std::vector<EvalJson> rows = read_tasks(path, context.number("limit"));
  std::vector<Question> questions;
  for (size_t i = 0; i < rows.size(); ++i) questions.push_back(question_of(rows[i], path, i));
  const ScoredModel scored(context);
  const int64_t draws = context.typed("draws") ? context.number("draws") : 16;
  EvalJson settings = {{"task", "choices"}, {"data", path}};
  settings.update(scored.settings);
  settings["draws"] = scored.noiseless ? 1 : draws;
  settings["seed"] = context.number("noise-seed");
  settings.update(model_facts(context));
  settings["data_checksum"] = checksum_of(context.text("data"));
  EvalResults results(context.has("out") ? context.text("out") : "", settings,
                      static_cast<int64_t>(questions.size()), context.flag("quiet"));
  const auto scorer = bound_scorer(context, scored, draws);
  for (const Question& question : questions) {
    if (!results.take(question.id))
      results.add(ask(question, scored, *scorer, context.number("noise-seed")));
  }
  std::vector<double> right, per_byte;
  for (const EvalJson& line : results.lines()) {
    right.push_back(line["right"].get<bool>() ? 1 : 0);
    per_byte.push_back(line["right_per_byte"].get<bool>() ? 1 : 0);
  }
  const Mean accuracy = mean_of(right), normalized = mean_of(per_byte);
  return {{"questions", static_cast<int64_t>(right.size())},
          {"accuracy", accuracy.value},
          {"accuracy_error", accuracy.error},
          {"accuracy_per_byte", normalized.value},
          {"accuracy_per_byte_error", normalized.error},
          {"resumed", results.resumed()},
          {"settings", settings}};
}

} // namespace dllm::cli
