#include "conversation.h"

#include "../interrupt.h"
#include "../token_texts.h"

#include <algorithm>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
std::vector<T> read_row(const dllm_batch* batch, const char* name, int32_t dtype) {
  const auto tensor = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<T> values(static_cast<size_t>(dllm_tensor_dim(tensor.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(tensor.get(), dtype, values.data(), static_cast<int64_t>(values.size() * sizeof(T)), err);
  });
  return values;
}

Json turn(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

}  // namespace

Conversation::Conversation(Context& context, Session& session) : context_(context), session_(session) {
  if (context.has("template")) {
    const std::string source = read_all(context.text("template"));
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("chat"), "template", source.c_str(), err);
    });
  }
  reset();
  end_ = find_end();
  if (end_ < 0 || context.option("slot", "stop") != "[]") return;
  const std::string stop = Json{{"stop", {std::to_string(end_)}}}.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(context.options("slot"), stop.data(), static_cast<int64_t>(stop.size()), err);
  });
}

void Conversation::reset() {
  messages_ = Json::array();
  if (context_.has("system")) messages_.push_back(turn("system", context_.text("system")));
}

Conversation::Row Conversation::render(const Json& messages, bool opens) const {
  dllm_options* options = context_.options("chat");
  call([&](dllm_error* err) { return dllm_options_set_i64(options, "add_generation_prompt", opens ? 1 : 0, err); });
  const std::string json = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto batch = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_tokenizer_chat(session_.tokenizer.get(), json.data(), static_cast<int64_t>(json.size()), options, out,
                               err);
  });
  return {read_row<int32_t>(batch.get(), "ids", DLLM_I32), read_row<uint8_t>(batch.get(), "keep", DLLM_U8)};
}

// The last token of an answer of one word, unless it is the word itself.
int32_t Conversation::find_end() const {
  const std::string word = "word";
  const Row row = render({turn("user", word), turn("assistant", word)}, false);
  for (size_t i = row.ids.size(); i-- > 0;) {
    if (row.keep[i] != 0) continue;
    const std::string text = decode(session_.tokenizer.get(), {row.ids[i]});
    return word.find(text) == std::string::npos && text.find(word) == std::string::npos ? row.ids[i] : -1;
  }
  return -1;
}

Canvas Conversation::decode_answer(const std::vector<int32_t>& prompt, Answer& answer) {
  const Owned<dllm_decoder> decoder = open_decoder(context_, session_, false);
  const int64_t slot = add_request(context_, decoder.get(), {prompt, {}});
  const Owned<dllm_task> task(dllm_task_new()); // of this answer alone
  const Interrupt interrupt(task.get());
  TokenTexts texts(session_.tokenizer.get());
  LiveView view;
  const bool shown = !context_.flag("quiet") && !context_.json() && view.is_terminal();
  const int64_t planned = planned_steps(context_, progress_of(decoder.get(), slot).open);
  for (int64_t active = 1; active > 0;) {
    if (shown) {
      Canvas canvas = canvas_of(decoder.get(), slot);
      const auto cut = [&](auto& values) {
        values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
      };
      cut(canvas.ids), cut(canvas.states), cut(canvas.confidence);
      Progress progress = progress_of(decoder.get(), slot);
      progress.planned = planned;
      view.show(texts.cells(canvas), progress);
    }
    call([&](dllm_error* err) { return dllm_decoder_step(decoder.get(), task.get(), &active, err); });
  }
  if (shown) view.clear();
  answer.prompt_tokens = static_cast<int64_t>(prompt.size());
  answer.steps = static_cast<int64_t>(decoder_metric(decoder.get(), slot, "steps"));
  answer.nfe = static_cast<int64_t>(decoder_metric(decoder.get(), slot, "nfe"));
  return canvas_of(decoder.get(), slot);
}

Answer Conversation::say(const std::string& message) {
  Json messages = messages_;
  messages.push_back(turn("user", message));
  const Row row = render(messages, true);
  Answer answer;
  const Canvas canvas = decode_answer(row.ids, answer);
  std::vector<int32_t> said(canvas.ids.begin() + static_cast<std::ptrdiff_t>(row.ids.size()), canvas.ids.end());
  said.erase(std::find(said.begin(), said.end(), end_), said.end());
  answer.text = decode(session_.tokenizer.get(), said);
  messages.push_back(turn("assistant", answer.text));
  messages_ = std::move(messages);
  return answer;
}

}  // namespace dllm::cli
