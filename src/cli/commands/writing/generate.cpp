// dllm generate and dllm infill decode in the same way; open positions follow the prompt, or are
// anywhere.

#include "../../command.h"
#include "../../objective_facts.h"
#include "../../options/names.h"
#include "../../pictures/pictures.h"
#include "../../processes/process.h"
#include "decoding.h"
#include "generate_rows.h"
#include "saved_trace.h"
#include "text_run.h"

#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns true when a text contains "<mask>", or "<mask:" with digits and ">".
bool shows_hole(const std::string& text) {
  constexpr std::string_view hole = "<mask";
  for (size_t at = text.find(hole); at != std::string::npos; at = text.find(hole, at + 1)) {
    const size_t inside = at + hole.size(), close = text.find('>', inside);
    if (close == std::string::npos) return false;
    if (close == inside) return true;
    const std::string_view more = std::string_view(text).substr(inside, close - inside);
    if (more[0] == ':' && are_digits(more.substr(1))) return true;
  }
  return false;
}

// Reads a prompt from standard input or a file, without the last line break, which editors and echo
// add.
std::string read_prompt(const std::string& path) {
  if (path == "-" && job_size() > 1) {
    throw UsageFailure("standard input reaches only the first of " + std::to_string(job_size()) +
                           " processes",
                       "write the prompt to a file that all can read: --file");
  }
  std::string text = read_utf8(path);
  if (text.ends_with('\n')) text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
  return text;
}

bool is_piped(int descriptor) {
  struct stat about = {};
  return fstat(descriptor, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode));
}

// Returns the argument `name`, or the content of a file or of standard input.
std::string text_of(const Context& context, const std::string& name) {
  if (context.has("file") && context.typed(name))
    throw UsageFailure("--" + name + " and --file are two " + name + "s: give one");
  if (context.has("file")) return read_prompt(context.text("file"));
  if (context.text(name) == "-") return read_prompt("-");
  if (context.typed(name)) return context.text(name);
  const bool is_own = context.has_input() && job_size() == 1; // mpirun makes a pipe of it
  return is_own && is_piped(STDIN_FILENO) ? read_prompt("-") : "";
}

void print_samples(const Context& context, const TextRun& run,
                   const std::vector<int64_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Json request = run.describe(numbers[i]);
    const bool is_open = request.at("finish") == "open";
    // An interrupted text has its holes, as dllm infill reads them.
    const std::string text = run.text(numbers[i], is_open ? "canvas" : "text");
    if (!context.json()) {
      if (numbers.size() > 1) {
        std::printf("%s--- sample %zu, seed %lld\n", i == 0 ? "" : "\n", i + 1,
                    static_cast<long long>(request.at("seed").get<int64_t>()));
      }
      std::printf("%s\n", printed_text(text, stdout).c_str());
      continue;
    }
    Json line = {{"slot", numbers[i]}, {"seed", request.at("seed")}, {"text", text}};
    for (const char* key : {"completion", "finish", "policy", "prompt_tokens", "completion_tokens",
                            "ids", "confidence", "steps", "nfe", "open"})
      line[key] = request.at(key);
    for (const char* key : {"holes", "top"}) {
      if (request.contains(key)) line[key] = request[key];
    }
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  std::fflush(stdout);
}

// Returns true for a policy that decodes the models of one objective, which no other policy does.
bool is_of_one_objective(const std::string& policy) {
  const std::vector<std::string> names = registry_names("objective");
  return std::ranges::any_of(
      names, [&](const std::string& name) { return facts_of(name).policy == policy; });
}

// Warns when most tokens are equal, which is usual for a small model that decodes greedily.
void warn_about_collapse(const TextRun& run, int64_t number) {
  const Json request = run.describe(number);
  if (request.at("settings").value("temperature", 0.0) != 0) return;
  const auto ends = request.at("end_tokens").get<std::vector<int32_t>>();
  const Repeats repeats = most_repeated(canvas_of(run.decoder(), number), ends);
  if (repeats.tokens < 12 || 2 * repeats.same <= repeats.tokens) return;
  const bool ordered = is_of_one_objective(request.at("policy").get<std::string>());
  std::fprintf(stderr, "%lld of %lld tokens are the same: try --temperature 0.8%s\n",
               static_cast<long long>(repeats.same), static_cast<long long>(repeats.tokens),
               ordered ? "" : " --policy random");
}

int64_t seed_of(const Context& context) {
  return Json::parse(context.option("slot", "seed")).get<int64_t>();
}

// Decodes requests that start from the same text, with the seeds seed, seed + 1, ... of option
// seed, and prints the texts. key: "prompt" or "infill". After Ctrl-C it prints the tokens decided
// so far.
int decode_samples(Context& context, const char* key, const std::string& given, int64_t samples) {
  if (!context.json()) refuse_likely_tokens(context, "--json prints them");
  check_trace(context);
  Session session(context);
  const int64_t seed = seed_of(context);
  TextRun run(context, session, samples, context.has("trace"));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < samples; ++i)
    numbers.push_back(run.add(
        {{key, given},
         {"seed", static_cast<int64_t>(static_cast<uint64_t>(seed) + static_cast<uint64_t>(i))}},
        context.task()));
  bool finished = true;
  try {
    run.run(numbers[0], 0, context.task());
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_CANCELLED) throw;
    finished = false;
  }
  print_samples(context, run, numbers);
  if (context.has("trace")) save_trace(context, session, run.decoder(), numbers);
  if (finished) {
    if (!context.json()) warn_about_collapse(run, numbers[0]);
    return 0;
  }
  const Progress progress = progress_of(run.decoder(), numbers[0]);
  std::fprintf(stderr, "interrupted after step %lld: %lld positions are open\n",
               static_cast<long long>(progress.step), static_cast<long long>(progress.open));
  return kInterrupted;
}

int generate(Context& context) {
  const int64_t samples = context.number("samples");
  if (samples < 1 || samples > 65536) {
    throw UsageFailure("--samples takes 1 to 65536, not " + std::to_string(samples));
  }
  check_decoding(context, false);
  if (context.has("prompts")) return generate_rows(context);
  for (const char* name : {"out", "batch", "template"}) {
    if (context.typed(name)) throw UsageFailure(std::string("--") + name + " needs --prompts FILE");
  }
  const std::string prompt = text_of(context, "prompt");
  if (shows_hole(prompt))
    std::fprintf(stderr, "<mask> in a prompt is plain text; dllm infill fills holes\n");
  return decode_samples(context, "prompt", prompt, samples);
}

int infill(Context& context) {
  check_decoding(context, true);
  return decode_samples(context, "infill", text_of(context, "text"), 1);
}

} // namespace

Command generate_command() {
  using Kind = Argument::Kind;
  return with_forms(with_ends(
      {"generate",
       "write text after a prompt",
       "dllm generate runs/quickstart \"The wise man\" --length 48 --steps 48 --temperature 0.8 "
       "--seed 1",
       {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
        {Kind::text, "prompt", "",
         "text to start from; - for standard input, which is also read when it is a pipe"},
        {Kind::text, "file", "", "read the prompt from this file"},
        {Kind::text, "policy", "low_confidence", policy_sentence()},
        {Kind::number, "length", "", "open positions after the prompt (as --slot.gen-length)"},
        {Kind::number, "samples", "1", "number of texts, with the seeds seed, seed + 1, ..."},
        {Kind::text, "prompts", "",
         "decode every row of this file: JSON lines with \"prompt\", \"messages\", \"infill\" or "
         "\"instruction\", and settings of their own, or a .txt file with a prompt a line"},
        {Kind::text, "out", "",
         "write the answers of --prompts to this file, a JSON line each; started again it goes on"},
        {Kind::number, "batch", "16", "rows of --prompts that are decoded at a time"},
        {Kind::text, "template", "",
         "chat template of rows with messages: chatml, llama3, qwen, alpaca, or a file that holds "
         "one; default: the model's own"},
        {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
        {Kind::flag, "quiet", "", "do not print the denoising"}},
       {"engine", "model", "decoder:policy", "slot"},
       generate,
       false,
       {},
       {"model", "prompt"}}));
}

Command infill_command() {
  using Kind = Argument::Kind;
  return with_forms(
      {"infill",
       "fill the holes of a text",
       "dllm infill --model runs/quickstart --text \"Never put off <mask:8> what you can do "
       "today\"",
       {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
        {Kind::text, "text", "",
         "text with holes: <mask:N> is N open tokens, <mask> one; - for standard input, which is "
         "also read when it is a pipe"},
        {Kind::text, "file", "", "read the text from a file, - for standard input"},
        {Kind::text, "policy", "low_confidence", policy_sentence()},
        {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
        {Kind::flag, "quiet", "", "do not print the denoising"}},
       {"engine", "model", "decoder:policy", "slot"},
       infill,
       false,
       {},
       {"model", "text"}});
}

} // namespace dllm::cli
