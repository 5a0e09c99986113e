#include "tokenizer_handle.h"

#include "base/files.h"
#include "base/json.h"
#include "batch_handle.h"
#include "buffer_handle.h"
#include "ckpt/gguf_vocabulary.h"
#include "ckpt/model_folder.h"
#include "dataset_handle.h"
#include "options_handle.h"
#include "source_handle.h"
#include "task_handle.h"
#include "text/bpe_trainer.h"
#include "text/chat.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

namespace {

// The reader of GGUF files and the tokenizers are neighbours that do not see each other: the words cross here.
text::GgufVocabulary text_vocabulary(const ckpt::GgufFile& file) {
  ckpt::GgufVocabulary from = ckpt::read_gguf_vocabulary(file);
  text::GgufVocabulary to;
  const auto id = [](const std::optional<int64_t>& value) { return static_cast<int32_t>(value.value_or(-1)); };
  to.model = std::move(from.model);
  to.pre = std::move(from.pre);
  to.tokens = std::move(from.tokens);
  to.types = std::move(from.types);
  to.scores = std::move(from.scores);
  to.merges = std::move(from.merges);
  to.bos = id(from.bos);
  to.eos = id(from.eos);
  to.pad = id(from.padding);
  to.mask = id(from.mask);
  to.unk = id(from.unknown);
  to.add_bos = from.add_bos.value_or(false);
  to.add_eos = from.add_eos.value_or(false);
  to.add_space_prefix = from.add_space_prefix.value_or(true);
  to.chat_template = std::move(from.chat_template);
  to.name = file.name();
  return to;
}

// Ids that a model has and the tokenizer has not are the caller's to leave out.
std::span<const int32_t> known_ids(const text::Tokenizer& tokenizer, const int32_t* ids, int64_t count) {
  const std::span<const int32_t> all = need_array(ids, count, "ids");
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] >= 0 && all[i] < tokenizer.size()) continue;
    fail(Code::invalid_argument, "ids[{}] = {} is out of the vocabulary of {}", i, all[i], tokenizer.size());
  }
  return all;
}

// "mask", "bos", "eos" and "pad" are the roles, never the words of these letters.
int32_t id_of(const text::Tokenizer& tokenizer, std::string_view name) {
  const text::SpecialIds& special = tokenizer.special();
  const std::pair<const char*, int32_t> roles[] = {
      {"mask", special.mask}, {"bos", special.bos}, {"eos", special.eos}, {"pad", special.pad}};
  for (const auto& [role, id] : roles) {
    if (name != role) continue;
    if (id >= 0) return id;
    fail_with_hint("name it with an option of kind tokenizer, or look the token up by its own text",
                   Code::not_found, "{} has no {} token", tokenizer.name(), role);
  }
  return tokenizer.id(name);
}

}  // namespace

std::shared_ptr<text::Tokenizer> dllm::abi::load_tokenizer(const Source& source, const Options& options) {
  for (const std::string& name : source.names()) {
    if (name.size() < 5 || name.compare(name.size() - 5, 5, ".gguf") != 0 || source.has("tokenizer.json")) continue;
    return text::Tokenizer::from_gguf(text_vocabulary(ckpt::GgufFile(source.content(name), name)), options);
  }
  return text::Tokenizer::load(source, options);
}

dllm_status dllm_tokenizer_load(const char* path, const dllm_options* opts, dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const std::string from = ckpt::tokenizer_folder(need_text(path, "path"));
    const Options options = options_of(opts, "tokenizer");
    if (!is_directory(from) && !file_exists(from)) fail(Code::not_found, "there is no file or folder {}", from);
    // A file of any name may hold the JSON; a folder or a .gguf file is looked into.
    const bool is_json = !is_directory(from) && (from.size() < 5 || from.compare(from.size() - 5, 5, ".gguf") != 0);
    *out = new dllm_tokenizer(is_json ? text::Tokenizer::load(from, options)
                                      : load_tokenizer(*open_source(from), options));
  });
}

dllm_status dllm_tokenizer_load_source(const dllm_source* source, const dllm_options* opts, dllm_tokenizer** out,
                                       dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tokenizer(load_tokenizer(*need(source, "source").object, options_of(opts, "tokenizer")));
  });
}

dllm_status dllm_tokenizer_train(const dllm_dataset* text, const dllm_options* opts, dllm_task* task,
                                 dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const text::Dataset& data = *need(text, "text").object;
    *out = new dllm_tokenizer(text::train_tokenizer(data, options_of(opts, "tokenizer_train"), task_of(task)));
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

dllm_status dllm_tokenizer_id(const dllm_tokenizer* tok, const char* name, int32_t* out, dllm_error* err) {
  return guard(err, [&] {
    const int32_t id = id_of(*need(tok, "tok").object, need_text(name, "name"));
    need_out(out, "out") = id;
  });
}

dllm_status dllm_tokenizer_encode(const dllm_tokenizer* tok, const char* text, int64_t size, int32_t* dst,
                                  int64_t dst_count, int64_t* out_count, dllm_error* err) {
  return guard(err, [&] {
    const std::vector<int32_t> ids = need(tok, "tok").object->encode(need_content(text, size, "text"));
    copy_out(std::span<const int32_t>(ids), dst, dst_count, out_count, "dst");
  });
}

dllm_status dllm_tokenizer_encode_task(const dllm_tokenizer* tok, const char* text, int64_t size, dllm_task* task,
                                       dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const text::Tokenizer& object = *need(tok, "tok").object;
    const std::vector<int32_t> ids = object.encode(need_content(text, size, "text"), task_of(task));
    auto made = std::make_unique<dllm_batch>();
    made->object.set("ids", Tensor::from(Shape{1, static_cast<int64_t>(ids.size())}, ids));
    *out = made.release();
  });
}

dllm_status dllm_tokenizer_decode(const dllm_tokenizer* tok, const int32_t* ids, int64_t count, dllm_buffer* out,
                                  dllm_error* err) {
  return guard(err, [&] {
    const text::Tokenizer& object = *need(tok, "tok").object;
    fill(out, object.decode(known_ids(object, ids, count)));
  });
}

dllm_status dllm_tokenizer_decode_stream(const dllm_tokenizer* tok, const int32_t* ids, int64_t count, dllm_buffer* out,
                                         int64_t* out_used, dllm_error* err) {
  return guard(err, [&] {
    const text::Tokenizer& object = *need(tok, "tok").object;
    int64_t used = 0;
    std::string text = object.decode_stream(known_ids(object, ids, count), object.decode_options(), used);
    int64_t& told = need_out(out_used, "out_used");
    fill(out, std::move(text));
    told = used;
  });
}

dllm_status dllm_tokenizer_chat(const dllm_tokenizer* tok, const char* messages_json, int64_t size,
                                const dllm_options* opts, dllm_batch** out, dllm_error* err) {
  return dllm_tokenizer_chat_task(tok, messages_json, size, opts, nullptr, out, err);
}

dllm_status dllm_tokenizer_chat_task(const dllm_tokenizer* tok, const char* messages_json, int64_t size,
                                     const dllm_options* opts, dllm_task* task, dllm_batch** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const std::shared_ptr<const text::Tokenizer>& tokenizer = need(tok, "tok").object;
    const Task* const stop = task_of(task);
    const Json messages = parse_json(need_content(messages_json, size, "messages_json"), "messages");
    const text::ChatRow row = text::Chat(tokenizer, options_of(opts, "chat")).row(messages, stop);
    const Shape shape{1, static_cast<int64_t>(row.ids.size())};
    auto made = std::make_unique<dllm_batch>();
    made->object.set("ids", Tensor::from(shape, row.ids));
    std::vector<uint8_t> keep;
    for (const uint8_t spoken : row.spoken) keep.push_back(spoken == 0 ? 1 : 0);
    made->object.set("keep", Tensor::from(shape, keep));
    *out = made.release();
  });
}
