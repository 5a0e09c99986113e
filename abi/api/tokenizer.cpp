#include "handles.h"

#include "base/json.h"
#include "text/chat/chat.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

namespace {

// Returns the ids of the caller. Fails for an id that the tokenizer does not have, also when a
// larger vocabulary of the model has it.
std::span<const int32_t> known_ids(const text::Tokenizer& tokenizer, const int32_t* ids,
                                   int64_t count) {
  const std::span<const int32_t> all = need_array(ids, count, "ids");
  tokenizer.check_ids(all);
  return all;
}

} // namespace

dllm_status dllm_tokenizer_load(const char* path, const dllm_options* opts, dllm_tokenizer** out,
                                dllm_error* err) {
  return dllm_tokenizer_load_task(path, opts, nullptr, out, err);
}

dllm_status dllm_tokenizer_load_task(const char* path, const dllm_options* opts, dllm_task* task,
                                     dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const FileTask own(task);
    *out =
        new dllm_tokenizer(text::Tokenizer::load(need_place(path), options_of(opts, "tokenizer")));
  });
}

dllm_status dllm_tokenizer_load_source(const dllm_source* source, const dllm_options* opts,
                                       dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tokenizer(
        text::Tokenizer::load(*need(source, "source").object, options_of(opts, "tokenizer")));
  });
}

dllm_status dllm_tokenizer_train(const dllm_dataset* text, const dllm_options* opts,
                                 dllm_task* task, dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const text::Dataset& data = *need(text, "text").object;
    *out = new dllm_tokenizer(
        text::train_tokenizer(data, options_of(opts, "tokenizer_train"), task_of(task)));
  });
}

dllm_status dllm_tokenizer_save(const dllm_tokenizer* tok, const char* path, dllm_error* err) {
  return guard(err, [&] { need(tok, "tok").object->save(need_text(path, "path")); });
}

void dllm_tokenizer_release(dllm_tokenizer* tok) {
  release(tok);
}

int64_t dllm_tokenizer_size(const dllm_tokenizer* tok) {
  const Held held(tok);
  return held ? held->object->size() : 0;
}

dllm_status dllm_tokenizer_id(const dllm_tokenizer* tok, const char* name, int32_t* out,
                              dllm_error* err) {
  return guard(err, [&] {
    const int32_t id = need(tok, "tok").object->id_of_role(need_text(name, "name"));
    need_out(out, "out") = id;
  });
}

dllm_status dllm_tokenizer_encode(const dllm_tokenizer* tok, const char* text, int64_t size,
                                  int32_t* dst, int64_t dst_count, int64_t* out_count,
                                  dllm_error* err) {
  return guard(err, [&] {
    const std::vector<int32_t> ids =
        need(tok, "tok").object->encode(need_content(text, size, "text"));
    copy_out(std::span<const int32_t>(ids), dst, dst_count, out_count, "dst");
  });
}

dllm_status dllm_tokenizer_encode_task(const dllm_tokenizer* tok, const char* text, int64_t size,
                                       dllm_task* task, dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const text::Tokenizer& object = *need(tok, "tok").object;
    const std::vector<int32_t> ids = object.encode(need_content(text, size, "text"), task_of(task));
    auto made = std::make_unique<dllm_batch>();
    made->object.set("ids", Tensor::from(Shape{1, static_cast<int64_t>(ids.size())}, ids));
    *out = made.release();
  });
}

dllm_status dllm_tokenizer_decode(const dllm_tokenizer* tok, const int32_t* ids, int64_t count,
                                  dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] {
    const text::Tokenizer& object = *need(tok, "tok").object;
    fill(out, object.decode(known_ids(object, ids, count)));
  });
}

dllm_status dllm_tokenizer_decode_stream(const dllm_tokenizer* tok, const int32_t* ids,
                                         int64_t count, dllm_buffer* out, int64_t* out_used,
                                         dllm_error* err) {
  return guard(err, [&] {
    const text::Tokenizer& object = *need(tok, "tok").object;
    int64_t used = 0;
    std::string text =
        object.decode_stream(known_ids(object, ids, count), object.decode_options(), used);
    int64_t& count_out = need_out(out_used, "out_used");
    fill(out, std::move(text));
    count_out = used;
  });
}

dllm_status dllm_tokenizer_chat(const dllm_tokenizer* tok, const char* messages_json, int64_t size,
                                const dllm_options* opts, dllm_batch** out, dllm_error* err) {
  return dllm_tokenizer_chat_task(tok, messages_json, size, opts, nullptr, out, err);
}

dllm_status dllm_tokenizer_chat_task(const dllm_tokenizer* tok, const char* messages_json,
                                     int64_t size, const dllm_options* opts, dllm_task* task,
                                     dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const std::shared_ptr<const text::Tokenizer>& tokenizer = need(tok, "tok").object;
    const Task* const stop = task_of(task);
    const Json messages =
        parse_json(need_content(messages_json, size, "messages_json"), "messages");
    const text::ChatRow row = text::Chat(tokenizer, options_of(opts, "chat")).row(messages, stop);
    const Shape shape{1, static_cast<int64_t>(row.ids.size())};
    auto made = std::make_unique<dllm_batch>();
    made->object.set("ids", Tensor::from(shape, row.ids));
    made->object.set("keep", Tensor::from(shape, row.keep()));
    *out = made.release();
  });
}
