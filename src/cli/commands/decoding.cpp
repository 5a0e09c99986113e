#include "decoding.h"

#include "../live_view.h"
#include "../pictures/trace.h"
#include "../token_texts.h"
#include "ending.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void step_until_done(Context& context, dllm_decoder* decoder, int64_t shown, const Ending& ending, TokenTexts& texts,
                     LiveView* view) {
  const auto show = [&] {
    if (view != nullptr) view->show(texts.cells(canvas_of(decoder, shown)), progress_of(decoder, shown));
  };
  show();
  for (int64_t active = 1; active > 0 && !ending.reached(canvas_of(decoder, shown)); show()) {
    call([&](dllm_error* err) { return dllm_decoder_step(decoder, context.task(), &active, err); });
  }
}

// A trace with the texts of its tokens: what dllm replay needs to draw it without the model.
void save_trace(Context& context, const Session& session, const dllm_decoder* decoder, const std::vector<int64_t>& slots,
                TokenTexts& texts) {
  std::string lines;
  for (int64_t slot : slots) {
    lines += text([&](dllm_buffer* out, dllm_error* err) { return dllm_decoder_trace(decoder, slot, out, err); });
  }
  const auto mask_id = static_cast<int32_t>(model_number(session.model.get(), "mask_id"));
  std::map<int32_t, std::string> used;
  const Trace trace = lines.empty() ? Trace() : parse_trace(lines, "the trace");
  const auto use = [&](int32_t id) {
    if (const std::string& piece = texts.of(id); !piece.empty()) used[id] = piece;
  };
  use(mask_id);
  for (const TraceSlot& slot : trace.slots) {
    for (const TraceStep& step : slot.steps) {
      for (int32_t id : step.ids) use(id);
      texts.cells({step.ids, step.states, step.confidence});  // puts characters of several tokens together
    }
  }
  std::ofstream file(context.text("trace"), std::ios::binary);
  file << trace_header(context.text("model"), mask_id, used, texts.joined()) << lines;
  file.close();
  if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + context.text("trace"));
}

void print_result(const Context& context, const Ending& ending, const dllm_decoder* decoder, int64_t slot) {
  const Canvas canvas = canvas_of(decoder, slot);
  const std::string text = ending.text(canvas);
  if (!context.json()) {
    std::printf("%s\n", text.c_str());
    return;
  }
  const Json line = {{"slot", slot}, {"text", text}, {"ids", canvas.ids},
                     {"steps", decoder_metric(decoder, slot, "steps")}, {"nfe", decoder_metric(decoder, slot, "nfe")}};
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request) {
  if (context.has("length")) {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("slot"), "gen_length", context.number("length"), err);
    });
  }
  int64_t slot = 0;
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder, request.canvas.data(), request.fixed.empty() ? nullptr : request.fixed.data(),
                            static_cast<int64_t>(request.canvas.size()), context.options("slot"), &slot, err);
  });
  return slot;
}

std::string policy_sentence() {
  std::string sentence = "which open positions are decided when:";
  for (int64_t i = 0; const char* name = dllm_registry_name("policy", i); ++i) sentence += std::string(" ") + name;
  return sentence;
}

Progress progress_of(const dllm_decoder* decoder, int64_t slot) {
  const auto metric = [&](const char* key) { return static_cast<int64_t>(decoder_metric(decoder, slot, key)); };
  return {metric("steps"), metric("nfe"), metric("open")};
}

Session::Session(Context& context)
    : engine(open_engine(context)),
      model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_tokenizer(context.text("model"))) {}

int run_requests(Context& context, Session& session, const std::vector<Request>& requests) {
  if (context.has("trace"))
    call([&](dllm_error* err) { return dllm_options_set_i64(context.options("decoder"), "trace", 1, err); });
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(session.model.get(), context.options("decoder"), out, err);
  });
  const bool has_holes = !requests[0].fixed.empty();
  const Ending ending(context, session.tokenizer.get(),
                      has_holes ? -1 : static_cast<int64_t>(requests[0].canvas.size()));
  std::vector<int64_t> slots;
  for (const Request& request : requests) slots.push_back(add_request(context, decoder.get(), request));
  TokenTexts texts(session.tokenizer.get());
  LiveView view;
  const bool shown = !context.flag("quiet") && !context.json() && view.is_terminal();
  step_until_done(context, decoder.get(), slots[0], ending, texts, shown ? &view : nullptr);
  for (int64_t slot : slots) print_result(context, ending, decoder.get(), slot);
  if (context.has("trace")) save_trace(context, session, decoder.get(), slots, texts);
  return 0;
}

}  // namespace dllm::cli
