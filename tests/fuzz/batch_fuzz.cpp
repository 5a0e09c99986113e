// Batches through the C ABI, built from any bytes: names, element types, shapes and numbers. They
// go into a forward pass, the preparation of an objective, a loss and a training step of a tiny
// model. Every call works or is refused with a message; nothing is an internal error.
//
// Byte 0: what is called. Then arrays: a byte that names it, one of its type, one of its rank, one
// per dimension, one for how the numbers are drawn. What is left over feeds the numbers of all
// arrays, over and over.

#include "dllm/dllm.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int32_t kVocabulary = 24;
constexpr const char* kNames[] = {"ids",           "targets",
                                  "weights",       "segments",
                                  "positions",     "sample",
                                  "keep",          "t",
                                  "flag",          "prompt_length",
                                  "embeddings",    "rows",
                                  "labels",        "keys",
                                  "mask",          "u_t",
                                  "u_mask",        "normalizer",
                                  "timesteps",     "",
                                  "no_such_array", "trained_padding",
                                  "block_length"};
// The reserved arrays and their types, so that most batches reach what is behind the first check.
constexpr int32_t kTypes[] = {DLLM_I32, DLLM_I32, DLLM_F32, DLLM_I32, DLLM_I32, DLLM_U8,
                              DLLM_U8,  DLLM_F32, DLLM_U8,  DLLM_I32, DLLM_F32, DLLM_I64,
                              DLLM_I32, DLLM_U8,  DLLM_F32, DLLM_F32, DLLM_F32, DLLM_F32,
                              DLLM_F32, DLLM_F32, DLLM_F32, DLLM_U8,  DLLM_I32};

void must(dllm_status status, dllm_error* err) {
  if (status == DLLM_OK) return;
  std::fprintf(stderr, "%s\n", dllm_error_message(err));
  std::abort();
}

// A refusal has a message of one line, and is never an internal error.
void look(dllm_status status, dllm_error* err) {
  if (status == DLLM_OK) return;
  const char* message = dllm_error_message(err);
  if (status != DLLM_INTERNAL && status != DLLM_UNKNOWN && *message != 0 &&
      std::strchr(message, '\n') == nullptr)
    return;
  std::fprintf(stderr, "%s: %s\n", dllm_status_name(status), message);
  std::abort();
}

struct World {
  World() {
    const char config[] =
        R"({"model_type": "llama", "vocab_size": 24, "hidden_size": 16, "intermediate_size": 16,
 "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32,
 "tie_word_embeddings": true, "dllm": {"attention": "bidirectional", "mask_token_id": 23}})";
    dllm_options* opts = nullptr;
    dllm_engine* engine = nullptr;
    must(dllm_options_new("engine", &opts, err), err);
    must(dllm_options_set_i64(opts, "threads", 1, err), err);
    must(dllm_engine_new(opts, &engine, err), err);
    dllm_options_release(opts);
    must(dllm_model_new(engine, config, sizeof config - 1, nullptr, nullptr, &model, err), err);
    must(dllm_model_new(engine, config, sizeof config - 1, nullptr, nullptr, &trained, err), err);
    dllm_engine_release(engine);
    must(dllm_options_new("objective:mdlm", &opts, err), err);
    must(dllm_options_set_i64(opts, "mask_id", 23, err), err);
    must(dllm_objective_new("mdlm", nullptr, opts, &objectives[0], err), err);
    dllm_options_release(opts);
    must(dllm_objective_new("ar", nullptr, nullptr, &objectives[1], err), err);
    must(dllm_objective_new("token_ce", nullptr, nullptr, &objectives[2], err), err);
    must(dllm_trainer_new(trained, objectives[0], nullptr, &trainer, err), err);
  }
  dllm_error* err = dllm_error_new();
  dllm_model *model = nullptr, *trained = nullptr; // the weights of the first never change
  dllm_objective* objectives[3] = {};
  dllm_trainer* trainer = nullptr;
};

class Bytes {
public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }
  bool more() const { return at_ < size_; }
  // Of the rest, again from its beginning when it is used up.
  uint8_t cycled(size_t index) const {
    return at_ < size_ ? data_[at_ + index % (size_ - at_)] : 0;
  }

private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

size_t width_of(int32_t type) {
  switch (type) {
  case DLLM_F64:
  case DLLM_I64: return 8;
  case DLLM_F16:
  case DLLM_BF16: return 2;
  case DLLM_U8:
  case DLLM_I8: return 1;
  default: return 4;
  }
}

struct Array {
  const char* name;
  int32_t type;
  std::vector<int64_t> dims;
  uint8_t manner;
};

Array next_array(Bytes& bytes) {
  const size_t which = bytes.next() % std::size(kNames);
  const uint8_t type = bytes.next(), rank = bytes.next();
  Array array{kNames[which], type >= 200 ? type % 12 : kTypes[which], {}, 0};
  for (int64_t axis = 0; axis < rank % 10; ++axis) {
    const uint8_t extent = bytes.next();
    array.dims.push_back(extent < 240    ? extent % 40
                         : extent == 255 ? INT64_MAX
                         : extent == 254 ? -1
                                         : 1000 * extent);
  }
  array.manner = bytes.next();
  return array;
}

// Numbers of an array: small ids, any bytes, or what is near a border.
std::vector<uint8_t> numbers_of(const Array& array, const Bytes& bytes, size_t count) {
  const size_t width = width_of(array.type);
  std::vector<uint8_t> made(count * width + 1);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t byte = bytes.cycled(i);
    if (array.manner % 4 == 3) {
      for (size_t b = 0; b < width; ++b) made[i * width + b] = bytes.cycled(i * width + b);
    } else if (array.type == DLLM_F32) {
      const float value = array.manner % 4 == 2 && byte == 255 ? __builtin_nanf("")
                                                               : static_cast<float>(byte) / 128.0f;
      std::memcpy(made.data() + i * width, &value, sizeof value);
    } else {
      const int64_t value = array.manner % 4 == 2 ? int64_t{byte} - 3 : byte % kVocabulary;
      std::memcpy(made.data() + i * width, &value, width); // little-endian
    }
  }
  return made;
}

void add_array(dllm_batch* batch, const Array& array, const Bytes& bytes, dllm_error* err) {
  double count = 1;
  bool impossible = false; // the library must refuse before it reads
  for (const int64_t extent : array.dims) {
    impossible = impossible || extent < 0 || extent == INT64_MAX;
    count *= static_cast<double>(extent);
  }
  if (!impossible && count > 100'000) return; // the caller of the ABI would have to hold them
  const std::vector<uint8_t> numbers =
      numbers_of(array, bytes, impossible ? 0 : static_cast<size_t>(count));
  look(dllm_batch_set(batch, array.name, array.type, array.dims.data(),
                      static_cast<int64_t>(array.dims.size()), numbers.data(), err),
       err);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World* world = new World;
  if (size < 1 || size > 4096) return 0;
  dllm_error* err = world->err;
  Bytes bytes(data, size);
  const uint8_t what = bytes.next();
  std::vector<Array> arrays;
  for (int i = 0; i < 1 + what % 6 && bytes.more(); ++i) arrays.push_back(next_array(bytes));
  dllm_batch *batch = nullptr, *made = nullptr;
  must(dllm_batch_new(&batch, err), err);
  for (const Array& array : arrays) add_array(batch, array, bytes, err);

  dllm_objective* objective = world->objectives[what / 6 % 3];
  double loss = 0;
  look(dllm_model_forward(world->model, batch, nullptr, nullptr, &made, err), err);
  dllm_batch_release(made);
  made = nullptr;
  const dllm_status prepared =
      dllm_objective_prepare(objective, world->model, batch, what, what / 18, &made, err);
  look(prepared, err);
  if (prepared == DLLM_OK)
    look(dllm_objective_loss(objective, world->model, made, 1, nullptr, &loss, err), err);
  dllm_batch_release(made);
  look(dllm_objective_loss(objective, world->model, batch, 1, nullptr, &loss, err), err);
  look(dllm_trainer_step(world->trainer, batch, nullptr, &loss, err), err);
  dllm_batch_release(batch);
  return 0;
}
