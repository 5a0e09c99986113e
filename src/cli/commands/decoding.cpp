#include "decoding.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void step_until_done(Context& context, dllm_decoder* decoder, int64_t shown, LiveView* view) {
  int64_t active = 1;
  for (int64_t step = 0; active > 0; ++step) {
    if (view != nullptr) {
      const Canvas canvas = canvas_of(decoder, shown);
      const auto open = std::count(canvas.states.begin(), canvas.states.end(), DLLM_MASKED);
      view->show(canvas, step, static_cast<double>(open));
    }
    call([&](dllm_error* err) { return dllm_decoder_step(decoder, context.task(), &active, err); });
  }
}

void print_result(const Context& context, const Session& session, const dllm_decoder* decoder, int64_t slot) {
  const Canvas canvas = canvas_of(decoder, slot);
  const std::string text = decode(session.tokenizer.get(), canvas.ids);
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

Session::Session(Context& context)
    : engine(open_engine(context)),
      model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_tokenizer(context.text("model"))) {}

int run_requests(Context& context, Session& session, const std::vector<Request>& requests) {
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(session.model.get(), context.options("decoder"), out, err);
  });
  std::vector<int64_t> slots;
  for (const Request& request : requests) slots.push_back(add_request(context, decoder.get(), request));
  {
    LiveView view(session.tokenizer.get());
    const bool shown = !context.flag("quiet") && !context.json() && view.is_terminal();
    step_until_done(context, decoder.get(), slots[0], shown ? &view : nullptr);
    if (shown) view.show(canvas_of(decoder.get(), slots[0]), static_cast<int64_t>(decoder_metric(decoder.get(), slots[0], "steps")), 0);
  }
  for (int64_t slot : slots) print_result(context, session, decoder.get(), slot);
  if (context.has("trace")) {
    std::ofstream file(context.text("trace"));
    file << text([&](dllm_buffer* out, dllm_error* err) { return dllm_decoder_trace(decoder.get(), slots[0], out, err); });
    if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + context.text("trace"));
  }
  return 0;
}

}  // namespace dllm::cli
