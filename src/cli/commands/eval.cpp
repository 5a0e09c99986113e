// dllm eval computes scores of a model, or of given completions.

#include "../eval/eval.h"
#include "../objective_facts.h"
#include "writing/decoding.h"

#include <cstdio>

namespace dllm::cli {
namespace {

// Refuses every key of a kind, except `but`.
void refuse_kind(const Context& context, const std::string& kind, const std::string& why,
                 const std::string& but = "") {
  const EvalJson keys = EvalJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  }));
  for (const auto& [key, value] : keys.items()) {
    if (key != but) refuse_typed(context, kind, key, why);
  }
}

// Fails for options that only other tasks use.
void refuse_others(const Context& context) {
  const std::string task = context.text("task");
  const bool scores = task == "text" || task == "choices";
  const auto refuse = [&](const char* name, const std::string& why) {
    if (context.typed(name)) throw UsageFailure(std::string("--") + name + ": " + why);
  };
  if (scores) {
    for (const char* name : {"samples", "k", "solutions", "length", "policy", "batch"})
      refuse(name, "--task " + task + " decodes nothing");
    // Such an objective has blocks too, and --block-length is the option of the decoder.
    const bool has_blocks = facts_of(context.text("objective")).has_blocks();
    refuse_kind(context, "decoder", "--task " + task + " decodes nothing",
                has_blocks ? "block_length" : "");
    refuse_kind(context, "slot", "--task " + task + " decodes nothing");
  } else {
    for (const char* name : {"objective", "draws", "noise-seed"})
      refuse(name, "it is for --task text and choices");
    if (context.has("solutions")) {
      for (const char* name : {"model", "samples", "length", "policy", "batch"})
        refuse(name, "--solutions FILE has the completions");
      for (const char* kind : {"engine", "model", "decoder", "slot"})
        refuse_kind(context, kind, "--solutions FILE has the completions");
    } else if (!context.has("model")) {
      throw UsageFailure("--model or --solutions is missing, from which completions come");
    }
    check_decoding(context, false);
    refuse_likely_tokens(context, "dllm generate --json prints them");
    refuse_typed(context, "decoder", "gen_length", "--length sets the open positions");
    refuse_typed(context, "decoder", "slots", "--batch sets the number of completions at a time");
  }
  refuse_typed(context, "dataset", "token_file", "dllm tokenize writes and dllm train reads it");
  if (scores && !context.has("model")) throw UsageFailure("--model is missing");
  if (task != "text") {
    refuse("row-length", "it is for --task text");
    refuse("template", "it is for --task text");
    refuse_kind(context, "dataset", "it is for --task text");
  }
  if (task != "answers") refuse("checker", "it is for --task answers");
  if (task != "programs") {
    for (const char* name : {"python", "seconds", "memory"})
      refuse(name, "it is for --task programs");
  }
  for (const char* name : {"draws", "samples", "batch", "seconds", "memory", "row-length"}) {
    if (context.number(name) < 1)
      throw UsageFailure(std::string("--") + name + " takes 1 and more, not " + context.text(name));
  }
  if (context.number("batch") > 65536)
    throw UsageFailure("--batch takes 1 to 65536, not " + context.text("batch"));
  if (context.number("limit") < 0) throw UsageFailure("--limit takes 0 and more");
}

// Rounds numbers for printing; --json has every digit.
std::string shown(const EvalJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return value.dump();
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value.get<double>());
  return text;
}

// Prints the settings of a score, with the options of the decoder one level deeper.
void print_settings(const EvalJson& settings, int indent) {
  for (const auto& [key, value] : settings.items()) {
    if (value.is_object() && value.empty()) continue;
    if (value.is_object()) {
      std::printf("%*s%s\n", indent, "", key.c_str());
      print_settings(value, indent + 2);
    } else {
      std::printf("%*s%-*s %s\n", indent, "", 24 - indent, key.c_str(), shown(value).c_str());
    }
  }
}

void print_report(const EvalJson& report) {
  for (const auto& [key, value] : report.items()) {
    if (!value.is_object()) std::printf("%-24s %s\n", key.c_str(), shown(value).c_str());
  }
  const EvalJson rates = report.value("pass", EvalJson::object());
  for (const auto& [name, rate] : rates.items()) {
    std::printf("%-24s %.2f %% +- %.2f of %lld tasks\n", name.c_str(),
                100 * rate.value("value", 0.0), 100 * rate.value("error", 0.0),
                rate.value("tasks", 0LL));
  }
  if (report.contains("checker_errors")) {
    std::printf("%-24s %lld of %lld, counted as not passed\n", "checker errors",
                report["checker_errors"].value("rows", 0LL), report.value("samples", 0LL));
  }
  std::printf("settings\n");
  print_settings(report.at("settings"), 2);
}

// Fails when the first row of the data is one of another task.
void check_kind_of_rows(const Context& context) {
  const std::string& data = context.text("data");
  if (context.typed("task") || data.find(".json") == std::string::npos) return;
  const EvalJson row = first_row(data);
  const char* task = row.contains("choices")                                    ? "choices"
                     : row.contains("entry_point") || row.contains("test_list") ? "programs"
                                                                                : nullptr;
  if (task != nullptr) {
    throw UsageFailure(data + " has rows for --task " + task + ", and --task is text",
                       std::string("add --task ") + task);
  }
}

// Names the rows on which the checker failed. Returns the exit code: kFailed when these are all.
int code_of(const EvalJson& report) {
  if (!report.contains("checker_errors")) return 0;
  const EvalJson& errors = report["checker_errors"];
  const int64_t rows = errors.value("rows", 0LL), all = report.value("samples", 0LL);
  std::fprintf(
      stderr, "the checker failed on %lld of %lld rows, which count as not passed; first: %s\n",
      static_cast<long long>(rows), static_cast<long long>(all), errors.value("first", "").c_str());
  return rows == all ? kFailed : 0;
}

int eval(Context& context) {
  const std::string task = context.text("task");
  if (task != "text" && task != "choices" && task != "programs" && task != "answers")
    throw UsageFailure("--task takes text, choices, programs or answers, not " + task);
  refuse_others(context);
  check_kind_of_rows(context);
  if (!context.typed("slot", "gen_length")) {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("slot"), "gen_length", 256, err);
    });
  }
  const EvalJson report = task == "text"      ? evaluate_text(context)
                          : task == "choices" ? evaluate_choices(context)
                                              : evaluate_answers(context);
  if (context.json())
    std::printf("%s\n", report.dump(-1, ' ', false, EvalJson::error_handler_t::replace).c_str());
  else
    print_report(report);
  std::fflush(stdout);
  return code_of(report);
}

} // namespace

Command eval_command() {
  using Kind = Argument::Kind;
  return {
      "eval",
      "score a model: a text, questions with choices, programs that must pass tests",
      "dllm eval --model runs/quickstart --data corpus.txt --limit 64",
      {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder"},
       {Kind::text, "data", "",
        "text: data as for dllm train; else JSON lines: prompt, choices, answer, or the files of "
        "HumanEval, MBPP and infilling; .gz is decompressed",
        true},
       {Kind::text, "task", "text",
        "text (loss, perplexity, bits per byte), choices, programs (pass@k) or answers (a Lua "
        "checker)"},
       {Kind::text, "out", "", "keep results in this file; the same call continues with it"},
       {Kind::number, "limit", "0", "number of rows to score; 0: all"},
       {Kind::text, "objective", "auto",
        "objective whose loss is computed; auto: the objective that trained the model if its loss "
        "bounds a likelihood (mdlm, bd3lm, uniform, ar), else ar for a causal model and mdlm for "
        "others; bd3lm takes --block-length for a model without blocks"},
       {Kind::number, "draws", "1", "draws of noise for a row; choices: 16 unless it is set"},
       {Kind::number, "noise-seed", "0", "seed of this noise"},
       {Kind::number, "row-length", "256", "tokens of a row of the text"},
       {Kind::text, "template", "",
        "chat template of the data: chatml, llama3, qwen, alpaca, or a file that holds one; "
        "default: as the run was trained"},
       {Kind::text, "solutions", "",
        "completions to score instead of a model's: JSON lines with task_id and completion, or a "
        "file of --out"},
       {Kind::number, "samples", "1",
        "completions of a prompt, with the seeds seed, seed + 1, ..."},
       {Kind::number, "batch", "16", "completions that are decoded at a time"},
       {Kind::text, "k", "1,10,100",
        "values of k for which pass@k is printed, up to the number of samples"},
       {Kind::number, "length", "",
        "open positions of a completion (as --slot.gen-length), 256 unless set"},
       {Kind::text, "policy", "low_confidence", policy_sentence()},
       {Kind::text, "checker", "",
        "a Lua script with the globals row and text that returns true or false; it sees no "
        "files; a changed one scores the completions of --out again"},
       {Kind::text, "python", "python3", "the interpreter that runs programs"},
       {Kind::number, "seconds", "10", "seconds that a program may take"},
       {Kind::number, "memory", "1024", "MiB of address space of a program"},
       {Kind::flag, "quiet", "", "do not print the progress"}},
      {"engine", "model", "decoder:policy", "slot", "dataset"},
      eval,
      false,
      {},
      {"model", "data"}};
}

} // namespace dllm::cli
