// dllm generate and dllm infill: the same decoding, with open positions after the prompt or anywhere.

#include "decoding.h"
#include "registry.h"

#include <cstdio>
#include <regex>

namespace dllm::cli {
namespace {

// Text with <mask:N> or <mask> in it becomes given ids and N (or 1) open positions.
Request parse_holes(const dllm_tokenizer* tokenizer, const std::string& text, int32_t mask_id) {
  static const std::regex kHole("<mask(?::([0-9]{1,6}))?>");
  Request request;
  auto add_given = [&](const std::string& piece) {
    if (piece.empty()) return;
    for (int32_t id : encode(tokenizer, piece)) {
      request.canvas.push_back(id);
      request.fixed.push_back(1);
    }
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

int generate(Context& context) {
  Session session(context);
  Request request;
  request.canvas = encode(session.tokenizer.get(), context.text("prompt"));
  return run_requests(context, session, {request});
}

int infill(Context& context) {
  Session session(context);
  const auto mask_id = static_cast<int32_t>(model_number(session.model.get(), "mask_id"));
  std::string text = context.text("text");
  if (context.has("file")) text = read_all(context.text("file"));
  const Request request = parse_holes(session.tokenizer.get(), text, mask_id);
  if (std::count(request.fixed.begin(), request.fixed.end(), 0) == 0) {
    throw Failure(DLLM_INVALID_ARGUMENT, "the text has no hole", "write <mask:16> where 16 tokens are missing");
  }
  return run_requests(context, session, {request});
}

}  // namespace

Command generate_command() {
  using Kind = Argument::Kind;
  return {"generate", "write text after a prompt",
          "dllm generate --model runs/quickstart --prompt \"The wise man\" --steps 32",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
           {Kind::text, "prompt", "", "text to start from; may be empty"},
           {Kind::text, "policy", "low_confidence", "which open positions to decide: ancestral low_confidence random"},
           {Kind::number, "length", "", "open positions after the prompt (as --slot.gen_length)"},
           {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
           {Kind::flag, "quiet", "", "do not show the denoising"}},
          {"engine", "model", "decoder:policy", "slot"},
          generate};
}

Command infill_command() {
  using Kind = Argument::Kind;
  return {"infill", "fill the holes of a text",
          "dllm infill --model runs/quickstart --text \"Never put off <mask:8> what you can do today\"",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
           {Kind::text, "text", "", "text with holes: <mask:N> is N open tokens, <mask> one"},
           {Kind::text, "file", "", "read the text from a file, - for standard input"},
           {Kind::text, "policy", "low_confidence", "which open positions to decide: ancestral low_confidence random"},
           {Kind::text, "trace", "", "write every step to this file; dllm replay FILE draws it"},
           {Kind::flag, "quiet", "", "do not show the denoising"}},
          {"engine", "model", "decoder:policy", "slot"},
          infill};
}

}  // namespace dllm::cli
