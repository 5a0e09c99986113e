// dllm generate and dllm infill: the same decoding, with open positions after the prompt or anywhere.

#include "../command.h"
#include "../process.h"
#include "decoding.h"
#include "generation_defaults.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <regex>
#include <span>

namespace dllm::cli {
namespace {

// Text with <mask:N> or <mask> in it becomes given ids and N (or 1) open positions.
Request parse_holes(const dllm_tokenizer* tokenizer, const std::string& text, int32_t mask_id) {
  static const std::regex kHole("<mask(?::([0-9]{1,6}))?>"), kAnyHole("<mask[^>]{0,20}>");
  for (std::sregex_iterator hole(text.begin(), text.end(), kAnyHole), end; hole != end; ++hole) {
    std::smatch parts;
    const std::string form = hole->str();
    const bool is_hole = std::regex_match(form, parts, kHole);
    if (is_hole && (!parts[1].matched || std::stoll(parts[1].str()) > 0)) continue;
    throw Failure(DLLM_INVALID_ARGUMENT, form + " is no hole",
                  "write <mask:N> for N open tokens, 1 to 999999, or <mask> for one");
  }
  Request request;
  const auto add_ids = [&](std::span<const int32_t> ids) {
    request.canvas.insert(request.canvas.end(), ids.begin(), ids.end());
    request.fixed.insert(request.fixed.end(), ids.size(), 1);
  };
  const std::vector<int32_t> start = encode(tokenizer, ""); // once, also before a hole
  add_ids(start);
  const auto add_given = [&](const std::string& piece) {
    const std::vector<int32_t> ids = encode(tokenizer, piece);
    add_ids(std::span(ids).subspan(start.size()));
  };
  size_t from = 0;
  for (std::sregex_iterator hole(text.begin(), text.end(), kHole), end; hole != end; ++hole) {
    add_given(text.substr(from, static_cast<size_t>(hole->position()) - from));
    const int64_t length = (*hole)[1].matched ? std::stoll((*hole)[1].str()) : 1;
    request.canvas.insert(request.canvas.end(), static_cast<size_t>(length), mask_id);
    request.fixed.insert(request.fixed.end(), static_cast<size_t>(length), 0);
    from = static_cast<size_t>(hole->position() + hole->length());
  }
  add_given(text.substr(from));
  return request;
}

// Text that another program or a file hands over; an editor's or echo's last line break is not part of it.
std::string read_prompt(const std::string& path) {
  if (path == "-" && job_size() > 1) {
    throw UsageFailure("standard input reaches only the first of " + std::to_string(job_size()) +
                           " processes",
                       "write the prompt to a file that all can read: --file");
  }
  std::string text = read_all(path);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_piped(int descriptor) {
  struct stat about = {};
  return fstat(descriptor, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode));
}

// The argument `name`, a file, or standard input.
std::string text_of(const Context& context, const std::string& name) {
  if (context.has("file") && context.typed(name))
    throw UsageFailure("--" + name + " and --file are two " + name + "s: give one");
  if (context.has("file")) return read_prompt(context.text("file"));
  if (context.text(name) == "-") return read_prompt("-");
  if (context.typed(name)) return context.text(name);
  const bool is_own = context.has_input() && job_size() == 1; // mpirun makes a pipe of it
  return is_own && is_piped(STDIN_FILENO) ? read_prompt("-") : "";
}

int generate(Context& context) {
  const int64_t samples = context.number("samples");
  if (samples < 1 || samples > 65536) {
    throw UsageFailure("--samples takes 1 to 65536, not " + std::to_string(samples));
  }
  check_decoding(context, false);
  const std::string prompt = text_of(context, "prompt");
  if (std::regex_search(prompt, std::regex("<mask(:[0-9]+)?>")))
    std::fprintf(stderr, "<mask> in a prompt is text: dllm infill fills holes\n");
  Session session(context);
  choose_policy(context, session);
  take_generation_defaults(context, session);
  Request request;
  request.canvas = encode(session.tokenizer.get(), prompt);
  return run_requests(context, session,
                      std::vector<Request>(static_cast<size_t>(samples), request));
}

int infill(Context& context) {
  check_decoding(context, true);
  Session session(context);
  const auto mask_id = static_cast<int32_t>(model_number(session.model.get(), "mask_id"));
  const std::string text = text_of(context, "text");
  const Request request = parse_holes(session.tokenizer.get(), text, mask_id);
  if (std::count(request.fixed.begin(), request.fixed.end(), 0) == 0) {
    throw Failure(DLLM_INVALID_ARGUMENT, "the text has no hole",
                  "write <mask:16> where 16 tokens are missing");
  }
  return run_requests(context, session, {request});
}

} // namespace

Command generate_command() {
  using Kind = Argument::Kind;
  return {"generate",
          "write text after a prompt",
          "dllm generate runs/quickstart \"The wise man\" --length 48 --steps 48 --temperature 0.8 "
          "--seed 1",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
           {Kind::text, "prompt", "",
            "text to start from; - for standard input, which is also read when it is a pipe"},
           {Kind::text, "file", "", "read the prompt from this file"},
           {Kind::text, "policy", "low_confidence", policy_sentence()},
           {Kind::number, "length", "", "open positions after the prompt (as --slot.gen-length)"},
           {Kind::number, "samples", "1", "so many texts, with the seeds seed, seed + 1, ..."},
           {Kind::text, "until", "", "stop when the answer holds this text, which is left out"},
           {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
           {Kind::flag, "quiet", "", "do not show the denoising"}},
          {"engine", "model", "decoder:policy", "slot"},
          generate,
          false,
          {},
          {"model", "prompt"}};
}

Command infill_command() {
  using Kind = Argument::Kind;
  return {
      "infill",
      "fill the holes of a text",
      "dllm infill --model runs/quickstart --text \"Never put off <mask:8> what you can do today\"",
      {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
       {Kind::text, "text", "",
        "text with holes: <mask:N> is N open tokens, <mask> one; - for standard input, which is "
        "also read when it is a pipe"},
       {Kind::text, "file", "", "read the text from a file, - for standard input"},
       {Kind::text, "policy", "low_confidence", policy_sentence()},
       {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
       {Kind::flag, "quiet", "", "do not show the denoising"}},
      {"engine", "model", "decoder:policy", "slot"},
      infill,
      false,
      {},
      {"model", "text"}};
}

} // namespace dllm::cli
