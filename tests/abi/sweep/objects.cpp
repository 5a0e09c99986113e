#include "objects.h"

#include "dllm/dllm.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

// The function by its header's type, out of the library under test.
#define CALL(name) reinterpret_cast<decltype(&name)>(symbol(#name))
// The object of a noun, and the error every call here writes to.
#define OBJECT(noun) static_cast<dllm_##noun*>(object(#noun))
#define ERR OBJECT(error)

namespace sweep {

const char kConfig[] = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "vocab_size": 300, "max_position_embeddings": 64,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
  "tie_word_embeddings": true, "initializer_range": 0.02, "mask_token_id": 299})";

namespace {

constexpr char kDocument[] = R"({"text": "the cat sat on the mat, the dog sat on the log"})";
constexpr int32_t kIds[4] = {1, 2, 3, 4};

} // namespace

void* Objects::symbol(const std::string& name) const {
  void* found = dlsym(library_, name.c_str());
  if (found != nullptr) return found;
  std::printf("     %s is not exported\n", name.c_str());
  std::fflush(stdout);
  _exit(3);
}

void Objects::check(int32_t status, const char* what) {
  if (status == DLLM_OK) return;
  std::printf("     no %s to test with: %s\n", what, CALL(dllm_error_message)(ERR));
  std::fflush(stdout);
  _exit(3);
}

void* Objects::object(const std::string& noun, const std::string& variant) {
  if (noun == "event") return event;
  const std::string name = noun + ":" + variant;
  const auto found = objects_.find(name);
  if (found != objects_.end()) return found->second;
  void* made = make(noun, variant); // may make others first
  objects_[name] = made;
  return made;
}

void Objects::taken(const std::string& noun) {
  std::erase_if(objects_, [&](const auto& entry) { return entry.first.rfind(noun + ":", 0) == 0; });
}

void* Objects::released(const std::string& noun) {
  void* made = make(noun, "");
  reinterpret_cast<void (*)(void*)>(symbol("dllm_" + noun + "_release"))(made);
  return made;
}

void* Objects::make(const std::string& noun, const std::string& variant) {
  if (noun == "error") return CALL(dllm_error_new)();
  if (noun == "buffer") return CALL(dllm_buffer_new)();
  if (noun == "task") return CALL(dllm_task_new)();
  if (noun == "options") return make_options(variant.empty() ? "engine" : variant.c_str());
  if (noun == "dataset") return make_dataset(variant == "raw" ? nullptr : object("tokenizer"));
  static const std::map<std::string, Maker> makers = {
      {"engine", &Objects::make_engine},         {"tensor", &Objects::make_tensor},
      {"source", &Objects::make_source},         {"model", &Objects::make_model},
      {"tokenizer", &Objects::make_tokenizer},   {"answer", &Objects::make_answer},
      {"loader", &Objects::make_loader},         {"batch", &Objects::make_batch},
      {"schedule", &Objects::make_schedule},     {"objective", &Objects::make_objective},
      {"trainer", &Objects::make_trainer},       {"decoder", &Objects::make_decoder},
      {"generator", &Objects::make_generator},   {"queue", &Objects::make_queue},
      {"checkpoint", &Objects::make_checkpoint}, {"lua", &Objects::make_lua}};
  return (this->*makers.at(noun))();
}

void* Objects::make_options(const char* kind) {
  dllm_options* out = nullptr;
  check(CALL(dllm_options_new)(kind, &out, ERR), kind);
  return out;
}

void* Objects::options_with(const char* kind,
                            std::initializer_list<std::pair<const char*, int64_t>> keys) {
  auto* opts = static_cast<dllm_options*>(object("options", kind));
  for (const auto& [key, value] : keys)
    check(CALL(dllm_options_set_i64)(opts, key, value, ERR), key);
  return opts;
}

void* Objects::make_engine() {
  dllm_engine* out = nullptr;
  check(CALL(dllm_engine_new)(nullptr, &out, ERR), "engine");
  return out;
}

void* Objects::make_tensor() {
  const int64_t dims[1] = {8};
  const float data[8] = {};
  dllm_tensor* out = nullptr;
  check(CALL(dllm_tensor_new)(DLLM_F32, dims, 1, data, &out, ERR), "tensor");
  return out;
}

void* Objects::make_source() {
  dllm_source* out = nullptr;
  check(CALL(dllm_source_new)(&out, ERR), "source");
  check(CALL(dllm_source_add)(out, "config.json", kConfig, std::strlen(kConfig), 0, ERR), "file");
  return out;
}

void* Objects::make_model() {
  dllm_model* out = nullptr;
  const auto size = static_cast<int64_t>(std::strlen(kConfig));
  check(CALL(dllm_model_new)(OBJECT(engine), kConfig, size, nullptr, nullptr, &out, ERR), "model");
  return out;
}

void* Objects::make_tokenizer() {
  auto* text = static_cast<dllm_dataset*>(object("dataset", "raw"));
  auto* opts = static_cast<dllm_options*>(options_with("tokenizer_train", {{"vocab_size", 280}}));
  dllm_tokenizer* out = nullptr;
  check(CALL(dllm_tokenizer_train)(text, opts, nullptr, &out, ERR), "tokenizer");
  return out;
}

void* Objects::make_dataset(void* tokenizer) {
  dllm_dataset* out = nullptr;
  auto* tok = static_cast<dllm_tokenizer*>(tokenizer);
  check(CALL(dllm_dataset_new)(tok, nullptr, &out, ERR), "dataset");
  for (int i = 0; i < 8; ++i) {
    check(CALL(dllm_dataset_add)(out, kDocument, sizeof kDocument - 1, ERR), "document");
  }
  return out;
}

void* Objects::make_loader() {
  auto* opts = static_cast<dllm_options*>(options_with("loader", {{"length", 8}, {"batch", 1}}));
  dllm_loader* out = nullptr;
  check(CALL(dllm_loader_new)(OBJECT(dataset), opts, &out, ERR), "loader");
  return out;
}

void* Objects::make_batch() {
  const int64_t dims[2] = {1, 4};
  dllm_batch* out = nullptr;
  check(CALL(dllm_batch_new)(&out, ERR), "batch");
  check(CALL(dllm_batch_set)(out, "ids", DLLM_I32, dims, 2, kIds, ERR), "array");
  return out;
}

void* Objects::make_answer() {
  dllm_answer* out = nullptr;
  check(CALL(dllm_answer_new)(OBJECT(tokenizer), nullptr, &out, ERR), "answer");
  return out;
}

void* Objects::make_schedule() {
  dllm_schedule* out = nullptr;
  check(CALL(dllm_schedule_new)("linear", nullptr, &out, ERR), "schedule");
  return out;
}

void* Objects::make_objective() {
  dllm_objective* out = nullptr;
  auto* opts = static_cast<dllm_options*>(options_with("objective", {{"mask_id", 299}}));
  check(CALL(dllm_objective_new)("mdlm", nullptr, opts, &out, ERR), "objective");
  return out;
}

void* Objects::make_trainer() {
  dllm_trainer* out = nullptr;
  check(CALL(dllm_trainer_new)(OBJECT(model), OBJECT(objective), nullptr, &out, ERR), "trainer");
  return out;
}

void* Objects::make_decoder() {
  const auto keys = {std::pair<const char*, int64_t>{"gen_length", 4}, {"steps", 2}, {"trace", 1}};
  auto* opts = static_cast<dllm_options*>(options_with("decoder", keys));
  dllm_decoder* out = nullptr;
  check(CALL(dllm_decoder_new)(OBJECT(model), opts, &out, ERR), "decoder");
  check(CALL(dllm_decoder_start)(out, kIds, 4, 7, ERR), "request");
  return out;
}

void* Objects::make_generator() {
  auto* request = static_cast<dllm_options*>(options_with("request", {{"length", 4}}));
  dllm_generator* out = nullptr;
  int64_t number = 0;
  check(CALL(dllm_generator_new)(OBJECT(model), OBJECT(tokenizer), nullptr, &out, ERR),
        "generator");
  check(CALL(dllm_generator_add)(out, request, nullptr, &number, ERR), "request of text");
  return out;
}

void* Objects::make_queue() {
  auto* request = static_cast<dllm_options*>(options_with("request", {{"length", 4}}));
  dllm_queue* out = nullptr;
  int64_t number = 0;
  check(CALL(dllm_queue_new)(OBJECT(model), OBJECT(tokenizer), nullptr, &out, ERR), "queue");
  check(CALL(dllm_queue_submit)(out, request, nullptr, nullptr, &number, ERR), "submission");
  return out;
}

void* Objects::make_checkpoint() {
  if (access("saved", F_OK) != 0) {
    check(CALL(dllm_model_save)(OBJECT(model), "saved", nullptr, nullptr, ERR), "saved model");
  }
  dllm_checkpoint* out = nullptr;
  check(CALL(dllm_checkpoint_open)("saved", &out, ERR), "checkpoint");
  return out;
}

void* Objects::make_lua() {
  dllm_lua* out = nullptr;
  check(CALL(dllm_lua_new)(nullptr, &out, ERR), "lua");
  return out;
}

} // namespace sweep
