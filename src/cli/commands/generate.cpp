// dllm generate and dllm infill decode in the same way; open positions follow the prompt, or are
// anywhere.

#include "../command.h"
#include "../process.h"
#include "decoding.h"
#include "generation_defaults.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>

namespace dllm::cli {
namespace {

constexpr std::string_view kHole = "<mask";

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns the number of open positions for the text between "<mask" and ">"; 0: it is not a hole.
int64_t open_positions(std::string_view inside) {
  constexpr size_t kMostDigits = 6;
  if (inside.empty()) return 1;
  const std::string_view number = inside.substr(1);
  if (inside[0] != ':' || !are_digits(number) || number.size() > kMostDigits) return 0;
  return std::stoll(std::string(number));
}

struct Hole {
  size_t begin, end; // in the text
  int64_t length;    // open positions
};

// Returns every <mask:N> and <mask> of a text. Fails for a text like a hole that is not a hole.
std::vector<Hole> find_holes(const std::string& text) {
  constexpr size_t kLongest = 20; // between "<mask" and ">": more is text
  std::vector<Hole> holes;
  for (size_t at = text.find(kHole); at != std::string::npos; at = text.find(kHole, at)) {
    const size_t inside = at + kHole.size(), close = text.find('>', inside);
    if (close == std::string::npos || close - inside > kLongest) {
      at = inside;
      continue;
    }
    const Hole hole{at, close + 1, open_positions(text.substr(inside, close - inside))};
    if (hole.length == 0) {
      throw Failure(DLLM_INVALID_ARGUMENT, text.substr(at, hole.end - at) + " is not a hole",
                    "write <mask:N> for N open tokens, 1 to 999999, or <mask> for one");
    }
    holes.push_back(hole);
    at = hole.end;
  }
  return holes;
}

// Returns true when a text contains "<mask>", or "<mask:" with digits and ">".
bool shows_hole(const std::string& text) {
  for (size_t at = text.find(kHole); at != std::string::npos; at = text.find(kHole, at + 1)) {
    const size_t inside = at + kHole.size(), close = text.find('>', inside);
    if (close == std::string::npos) return false;
    if (close == inside) return true;
    const std::string_view more = std::string_view(text).substr(inside, close - inside);
    if (more[0] == ':' && are_digits(more.substr(1))) return true;
  }
  return false;
}

// Makes a request with fixed ids for the text, and N (or 1) open positions for each <mask:N> or
// <mask>.
Request parse_holes(const dllm_tokenizer* tokenizer, const std::string& text, int32_t mask_id) {
  const std::vector<Hole> holes = find_holes(text);
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
  for (const Hole& hole : holes) {
    add_given(text.substr(from, hole.begin - from));
    request.canvas.insert(request.canvas.end(), static_cast<size_t>(hole.length), mask_id);
    request.fixed.insert(request.fixed.end(), static_cast<size_t>(hole.length), 0);
    from = hole.end;
  }
  add_given(text.substr(from));
  return request;
}

// Reads a prompt from standard input or a file, without the last line break, which editors and echo
// add.
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

int generate(Context& context) {
  const int64_t samples = context.number("samples");
  if (samples < 1 || samples > 65536) {
    throw UsageFailure("--samples takes 1 to 65536, not " + std::to_string(samples));
  }
  check_decoding(context, false);
  const std::string prompt = text_of(context, "prompt");
  if (shows_hole(prompt))
    std::fprintf(stderr, "<mask> in a prompt is plain text; dllm infill fills holes\n");
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
           {Kind::number, "samples", "1", "number of texts, with the seeds seed, seed + 1, ..."},
           {Kind::text, "until", "", "stop when the answer holds this text, which is left out"},
           {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
           {Kind::flag, "quiet", "", "do not print the denoising"}},
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
       {Kind::flag, "quiet", "", "do not print the denoising"}},
      {"engine", "model", "decoder:policy", "slot"},
      infill,
      false,
      {},
      {"model", "text"}};
}

} // namespace dllm::cli
