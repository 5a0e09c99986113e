// Adapters through the C interface: added, trained, saved, loaded, scaled, merged, removed.
#include "world.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "dllm-adapters-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

Json adapters_of(const world& w) {
  dllm_buffer* out = dllm_buffer_new();
  NEED(dllm_model_adapters(w.model, out, w.err), w.err);
  Json list = Json::parse(static_cast<const char*>(dllm_buffer_data(out)));
  dllm_buffer_release(out);
  return list;
}

std::vector<float> logits_of(const world& w) {
  const int32_t ids[6] = {5, 6, 7, 8, 9, 10};
  const int64_t dims[2] = {1, 6};
  dllm_batch *batch = nullptr, *result = nullptr;
  dllm_tensor* logits = nullptr;
  NEED(dllm_batch_new(&batch, w.err), w.err);
  NEED(dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, ids, w.err), w.err);
  NEED(dllm_model_forward(w.model, batch, nullptr, nullptr, &result, w.err), w.err);
  NEED(dllm_batch_array(result, "logits", &logits, w.err), w.err);
  const auto* numbers = static_cast<const float*>(dllm_tensor_data(logits));
  const std::vector<float> made(numbers, numbers + 6 * dllm_tensor_dim(logits, 2));
  dllm_tensor_release(logits);
  dllm_batch_release(result);
  dllm_batch_release(batch);
  return made;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

bool says(const char* text, const std::string& part) {
  const bool found = std::string(text).find(part) != std::string::npos;
  if (!found) std::printf("# \"%s\" is not in \"%s\"\n", part.c_str(), text);
  return found;
}

dllm_status add(const world& w, const char* name, const char* json) {
  dllm_options* opts = make_options("adapter", json, w.err);
  const dllm_status status = dllm_model_add_adapter(w.model, name, opts, nullptr, w.err);
  dllm_options_release(opts);
  return status;
}

void train(const world& w) {
  dllm_trainer* trainer = make_trainer(w.model, R"({"lr": 0.02, "warmup": 0})", w.err);
  dllm_loader* loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  NEED(dllm_trainer_run(trainer, loader, 4, nullptr, nullptr, nullptr, w.err), w.err);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
}

void test_adding(const world& w) {
  CHECK(adapters_of(w).empty());
  const std::vector<float> before = logits_of(w);
  const int64_t version = dllm_model_version(w.model);
  CHECK(add(w, "default", R"({"rank": 4, "targets": ["no_such"]})") == DLLM_NOT_FOUND);
  CHECK(says(dllm_error_message(w.err), "names no matrix"));
  CHECK(says(dllm_error_hint(w.err), "q_proj"));
  CHECK(add(w, "default", R"({"targets": ["embed_tokens"]})") == DLLM_UNIMPLEMENTED);
  CHECK(add(w, "default", R"({"layers": ["x-2"]})") == DLLM_INVALID_ARGUMENT);
  for (const char* name : {"", "a/b", "a:b", "\xC3\xA9"})
    CHECK(add(w, name, "{}") == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_model_add_adapter(nullptr, "a", nullptr, nullptr, w.err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_model_add_adapter(w.model, nullptr, nullptr, nullptr, w.err) == DLLM_INVALID_ARGUMENT);
  dllm_options* other = make_options("model", nullptr, w.err);
  CHECK(dllm_model_add_adapter(w.model, "a", other, nullptr, w.err) == DLLM_INVALID_ARGUMENT);
  dllm_options_release(other);
  CHECK(dllm_model_version(w.model) == version && adapters_of(w).empty());

  NEED(add(w, "default", R"({"rank": 4, "targets": ["q", "v"], "layers": ["1"]})"), w.err);
  CHECK(logits_of(w) == before);
  CHECK(add(w, "default", "{}") == DLLM_ALREADY_EXISTS);
  const Json list = adapters_of(w);
  CHECK(list.size() == 1 && list[0].at("name") == "default" && list[0].at("rank") == 4 &&
        list[0].at("alpha") == 8 && list[0].at("modules") == 2 && list[0].at("scale") == 1);
  CHECK(list[0].at("bytes") == 4 * list[0].at("params").get<int64_t>());
}

// Requests of one decoder have adapters of their own.
void test_requests(const world& w, const Folder& folder) {
  const std::string words = R"({"adapter_folders": ["a=)" + (folder / "adapter") +
                            R"("], "adapter_bytes": 1000000, "gen_length": 8})";
  dllm_options* opts = make_options("decoder", words.c_str(), w.err);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(w.model, opts, &decoder, w.err), w.err);
  dllm_options_release(opts);
  const int32_t prompt[3] = {5, 6, 7};
  const auto add_with = [&](const char* json) {
    dllm_options* slot = make_options("slot", json, w.err);
    const dllm_status status = dllm_decoder_add(decoder, prompt, nullptr, 3, slot, nullptr, w.err);
    dllm_options_release(slot);
    return status;
  };
  CHECK(add_with(R"({"adapters": ["b"]})") == DLLM_NOT_FOUND);
  CHECK(add_with(R"({"adapters": ["a:x"]})") == DLLM_INVALID_ARGUMENT);
  for (const char* json :
       {R"({"adapters": ["a"]})", R"({"adapters": ["a:0.5"]})", R"({"adapters": ["none"]})", "{}"})
    NEED(add_with(json), w.err);
  NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, w.err), w.err);
  CHECK(adapters_of(w).empty()); // the model has none of them
  dllm_decoder_release(decoder);
}

void test_training_and_files(const world& w, const Folder& folder) {
  const std::vector<float> plain = logits_of(w);
  train(w);
  const std::vector<float> trained = logits_of(w);
  CHECK(distance(trained, plain) > 1e-5);
  CHECK(dllm_model_save(w.model, (folder / "whole").c_str(), nullptr, nullptr, w.err) ==
        DLLM_UNIMPLEMENTED);
  const std::string place = folder / "adapter";
  CHECK(dllm_model_save_adapter(w.model, place.c_str(), "other", nullptr, w.err) == DLLM_NOT_FOUND);
  CHECK(says(dllm_error_hint(w.err), "default"));
  dllm_task* task = dllm_task_new();
  NEED(dllm_model_save_adapter(w.model, place.c_str(), "default", task, w.err), w.err);
  int64_t done = 0, total = 0;
  dllm_task_progress(task, &done, &total);
  CHECK(total > 0 && done == total);
  CHECK(dllm_model_save_adapter(w.model, place.c_str(), "default", nullptr, w.err) ==
        DLLM_ALREADY_EXISTS);
  CHECK(fs::exists(place + "/adapter_config.json") &&
        fs::exists(place + "/adapter_model.safetensors"));

  CHECK(dllm_model_set_adapter_scale(w.model, "default", NAN, w.err) == DLLM_INVALID_ARGUMENT);
  NEED(dllm_model_set_adapter_scale(w.model, "default", 0, w.err), w.err);
  CHECK(distance(logits_of(w), plain) < 1e-5);
  CHECK(adapters_of(w)[0].at("scale") == 0);
  NEED(dllm_model_set_adapter_scale(w.model, "default", 1, w.err), w.err);
  CHECK(logits_of(w) == trained);

  CHECK(dllm_model_remove_adapter(w.model, "other", w.err) == DLLM_NOT_FOUND);
  NEED(dllm_model_remove_adapter(w.model, "default", w.err), w.err);
  CHECK(logits_of(w) == plain && adapters_of(w).empty());
  CHECK(dllm_model_load_adapter(w.model, (folder / "none").c_str(), "x", nullptr, w.err) ==
        DLLM_NOT_FOUND);
  NEED(dllm_model_load_adapter(w.model, place.c_str(), "again", task, w.err), w.err);
  CHECK(logits_of(w) == trained);

  CHECK(dllm_model_merge_adapter(w.model, "default", nullptr, w.err) == DLLM_NOT_FOUND);
  dllm_task_cancel(task);
  CHECK(dllm_model_merge_adapter(w.model, "again", task, w.err) == DLLM_CANCELLED);
  CHECK(logits_of(w) == trained && adapters_of(w).size() == 1);
  dllm_task_release(task);
  NEED(add(w, "second", R"({"rank": 2})"), w.err);
  NEED(dllm_model_merge_adapter(w.model, nullptr, nullptr, w.err), w.err);
  CHECK(adapters_of(w).empty());
  CHECK(distance(logits_of(w), trained) < 1e-4);
  NEED(dllm_model_merge_adapter(w.model, nullptr, nullptr, w.err), w.err); // there is none
  NEED(dllm_model_save(w.model, (folder / "whole").c_str(), nullptr, nullptr, w.err), w.err);
}

// --- kind ia3 ---

struct Trained {
  std::vector<double> losses;
  double before = 0, after = 0; // mean losses of the same 32 batches, with the same noise
  std::vector<float> logits;
};

double loss_of_all(const world& w, dllm_trainer* trainer) {
  dllm_loader* loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  double loss = 0;
  NEED(dllm_trainer_eval(trainer, loader, 32, nullptr, &loss, w.err), w.err);
  dllm_loader_release(loader);
  return loss;
}

// Trains the model of the world, from the last checkpoint of `from` if that is not empty, and saves
// into `root`.
Trained train_from(const world& w, const std::string& from, const std::string& root,
                   int64_t steps) {
  Trained made;
  dllm_trainer* trainer = make_trainer(w.model, R"({"lr": 0.1, "warmup": 0})", w.err);
  dllm_loader* loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  if (!from.empty()) {
    dllm_buffer* folder = dllm_buffer_new();
    NEED(dllm_checkpoint_latest(from.c_str(), folder, w.err), w.err);
    const std::string path(static_cast<const char*>(dllm_buffer_data(folder)),
                           static_cast<size_t>(dllm_buffer_size(folder)));
    NEED(dllm_checkpoint_restore(trainer, loader, path.c_str(), nullptr, w.err), w.err);
    dllm_buffer_release(folder);
  }
  made.before = loss_of_all(w, trainer);
  for (int64_t step = 0; step < steps; ++step) {
    NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
    double loss = 0;
    NEED(dllm_trainer_metric(trainer, "loss", &loss, w.err), w.err);
    made.losses.push_back(loss);
  }
  NEED(dllm_checkpoint_save(trainer, loader, root.c_str(), nullptr, nullptr, nullptr, w.err),
       w.err);
  made.after = loss_of_all(w, trainer);
  made.logits = logits_of(w);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  return made;
}

std::vector<float> param_of(const dllm_model* model, const std::string& name, dllm_error* err) {
  dllm_tensor* tensor = nullptr;
  NEED(dllm_model_param(model, name.c_str(), &tensor, err), err);
  int64_t count = 1;
  for (int32_t i = 0; i < dllm_tensor_rank(tensor); ++i) count *= dllm_tensor_dim(tensor, i);
  std::vector<float> made(static_cast<size_t>(count));
  if (dllm_tensor_dtype(tensor) == DLLM_BF16) {
    const auto* halves = static_cast<const uint16_t*>(dllm_tensor_data(tensor));
    for (size_t i = 0; i < made.size(); ++i) {
      const uint32_t bits = uint32_t{halves[i]} << 16;
      std::memcpy(&made[i], &bits, sizeof bits);
    }
  } else {
    CHECK(dllm_tensor_dtype(tensor) == DLLM_F32);
    std::memcpy(made.data(), dllm_tensor_data(tensor), made.size() * sizeof(float));
  }
  dllm_tensor_release(tensor);
  return made;
}

// Returns W + factor B A. rank: columns of B.
std::vector<float> sum_of(std::vector<float> w, const std::vector<float>& a,
                          const std::vector<float>& b, size_t rank, double factor) {
  const size_t in = a.size() / rank;
  for (size_t o = 0; o < b.size() / rank; ++o) {
    for (size_t r = 0; r < rank; ++r) {
      for (size_t i = 0; i < in; ++i)
        w[o * in + i] += static_cast<float>(factor * b[o * rank + r] * a[r * in + i]);
    }
  }
  return w;
}

// A save with option merge writes the numbers of the base as the model has them, and adds the
// products. The model keeps its adapters.
void test_save_with_sums(const world& w, const Folder& folder, const char* dtype) {
  const std::string whole = folder / "whole", place = folder / "sums";
  dllm_options* opts =
      make_options("model", (std::string(R"({"dtype": ")") + dtype + "\"}").c_str(), w.err);
  dllm_model *model = nullptr, *merged = nullptr;
  NEED(dllm_model_load(w.engine, whole.c_str(), opts, nullptr, &model, w.err), w.err);
  dllm_options_release(opts);
  NEED(dllm_model_load_adapter(model, (folder / "adapter").c_str(), "one", nullptr, w.err), w.err);
  NEED(dllm_model_set_adapter_scale(model, "one", 3, w.err), w.err);
  CHECK(dllm_model_save(model, place.c_str(), nullptr, nullptr, w.err) == DLLM_UNIMPLEMENTED);
  opts = make_options("save", R"({"merge": true, "dtype": "f32", "overwrite": true})", w.err);
  NEED(dllm_model_save(model, place.c_str(), opts, nullptr, w.err), w.err);
  dllm_options_release(opts);
  NEED(dllm_model_load(w.engine, place.c_str(), nullptr, nullptr, &merged, w.err), w.err);
  int changed = 0;
  for (int64_t i = 0; i < dllm_model_param_count(merged); ++i) {
    const std::string name = dllm_model_param_name(merged, i);
    const std::string module = "adapter:one/" + name.substr(0, name.rfind('.'));
    const std::vector<float> base = param_of(model, name, w.err),
                             saved = param_of(merged, name, w.err);
    dllm_tensor* down = nullptr;
    if (dllm_model_param(model, (module + ".lora_A.weight").c_str(), &down, w.err) != DLLM_OK) {
      CHECK(saved == base);
      continue;
    }
    const auto rank = static_cast<size_t>(dllm_tensor_dim(down, 0));
    dllm_tensor_release(down);
    const std::vector<float> wanted =
        sum_of(base, param_of(model, module + ".lora_A.weight", w.err),
               param_of(model, module + ".lora_B.weight", w.err), rank,
               3 * 2); // the scale, and alpha / rank
    CHECK(distance(saved, wanted) < 1e-6 && distance(saved, base) > 1e-5);
    ++changed;
  }
  CHECK(changed > 0);
  dllm_model_release(merged);
  dllm_model_release(model);
}

dllm_decoder* new_decoder(const world& w, const char* json) {
  dllm_options* opts = make_options("decoder", json, w.err);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(w.model, opts, &decoder, w.err), w.err);
  dllm_options_release(opts);
  return decoder;
}

std::vector<float> decoded(const world& w, dllm_decoder* decoder) {
  const int32_t prompt[] = {5, 9, 7, 12};
  NEED(dllm_decoder_start(decoder, prompt, 4, 1, w.err), w.err);
  NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, w.err), w.err);
  std::vector<float> confidence(16);
  int64_t count = 0;
  NEED(
      dllm_decoder_confidence(decoder, 0, confidence.data(), std::ssize(confidence), &count, w.err),
      w.err);
  confidence.resize(static_cast<size_t>(count));
  return confidence;
}

constexpr const char* kDecoders[] = {
    R"({"steps": 4, "gen_length": 8})", R"({"steps": 4, "gen_length": 8, "loop": "host"})",
    R"({"steps": 4, "gen_length": 8, "block_length": 4, "cache": "prefix"})"};

// A decoder that exists when the adapters change computes what a new one computes.
void test_objects_that_exist(const world& w, const Folder& folder) {
  std::vector<dllm_decoder*> decoders;
  for (const char* json : kDecoders) decoders.push_back(new_decoder(w, json));
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  std::vector<float> before;
  const auto use = [&](bool changes) {
    const dllm_status status =
        dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err);
    CHECK(status == (before.empty() ? DLLM_OK : DLLM_FAILED_PRECONDITION)); // it is of the base
    std::vector<float> first;
    for (size_t i = 0; i < decoders.size(); ++i) {
      dllm_decoder* fresh = new_decoder(w, kDecoders[i]);
      const std::vector<float> own = decoded(w, decoders[i]);
      CHECK(own == decoded(w, fresh));
      dllm_decoder_release(fresh);
      if (i == 0) first = own;
    }
    CHECK((first != before) == changes);
    before = first;
  };
  use(true);
  dllm_task* task = dllm_task_new();
  dllm_task_cancel(task);
  CHECK(dllm_model_add_adapter(w.model, "one", nullptr, task, w.err) == DLLM_CANCELLED);
  dllm_task_release(task);
  NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
  before.clear(); // the trainer goes on
  use(true);
  NEED(add(w, "one", R"({"layers": ["0"]})"), w.err); // cuts the layers
  use(false);
  NEED(dllm_model_load_adapter(w.model, (folder / "adapter").c_str(), "two", nullptr, w.err),
       w.err);
  use(true);
  NEED(dllm_model_set_adapter_scale(w.model, "two", 2, w.err), w.err);
  use(true);
  NEED(dllm_model_set_adapter_scale(w.model, "two", 0, w.err), w.err);
  use(true);
  NEED(dllm_model_set_adapter_scale(w.model, "two", 2, w.err), w.err);
  NEED(dllm_model_merge_adapter(w.model, "two", nullptr, w.err), w.err);
  use(true);
  NEED(dllm_model_remove_adapter(w.model, "one", w.err), w.err);
  // Two adapters of one name, with matrices of the same shapes in other places.
  for (const char* json :
       {R"({"rank": 2, "targets": ["q"]})", R"({"rank": 2, "targets": ["o"]})"}) {
    NEED(add(w, "x", json), w.err);
    train(w);
    use(true);
    NEED(dllm_model_remove_adapter(w.model, "x", w.err), w.err);
  }
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  for (dllm_decoder* decoder : decoders) dllm_decoder_release(decoder);
}

// A vector for each matrix: trained, resumed, decoded with, saved, loaded and merged.
void test_vectors(const world& w, const Folder& folder) {
  constexpr const char* kVectors = R"({"kind": "ia3", "targets": ["k", "v", "down"]})";
  const std::vector<float> plain = logits_of(w);
  CHECK(add(w, "vectors", R"({"kind": "ia3", "rank": 4})") == DLLM_INVALID_ARGUMENT);
  CHECK(says(dllm_error_message(w.err), "rank"));
  NEED(add(w, "vectors", kVectors), w.err);
  CHECK(logits_of(w) == plain);
  CHECK(adapters_of(w)[0].at("kind") == "ia3" && adapters_of(w)[0].at("modules") == 6);
  dllm_decoder* decoder = new_decoder(w, kDecoders[2]);
  const std::vector<float> decoded_before = decoded(w, decoder);

  constexpr int64_t kSteps = 60;
  const Trained whole = train_from(w, "", folder / "whole_run", kSteps);
  std::printf("# loss of vectors: %.4f before, %.4f after\n", whole.before, whole.after);
  CHECK(whole.after < whole.before - 0.005); // by 0.013; the base is hardly trained
  CHECK(decoded(w, decoder) != decoded_before);
  dllm_decoder_release(decoder);

  const auto anew = [&] {
    NEED(dllm_model_remove_adapter(w.model, "vectors", w.err), w.err);
    CHECK(logits_of(w) == plain); // the base has not moved
    NEED(add(w, "vectors", kVectors), w.err);
  };
  anew();
  train_from(w, "", folder / "first_half", kSteps / 2);
  anew();
  const Trained rest = train_from(w, folder / "first_half", folder / "second_half", kSteps / 2);
  CHECK(rest.logits == whole.logits);
  CHECK(std::equal(rest.losses.begin(), rest.losses.end(), whole.losses.begin() + kSteps / 2));

  const std::string place = folder / "vectors";
  NEED(dllm_model_save_adapter(w.model, place.c_str(), "vectors", nullptr, w.err), w.err);
  anew();
  NEED(dllm_model_remove_adapter(w.model, "vectors", w.err), w.err);
  NEED(dllm_model_load_adapter(w.model, place.c_str(), "vectors", nullptr, w.err), w.err);
  CHECK(logits_of(w) == whole.logits);
  NEED(dllm_model_merge_adapter(w.model, "vectors", nullptr, w.err), w.err);
  CHECK(adapters_of(w).empty());
  CHECK(distance(logits_of(w), whole.logits) < 1e-4);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  const Folder folder;
  test_adding(w);
  test_training_and_files(w, folder);
  test_requests(w, folder);
  for (const char* dtype : {"f32", "bf16", "int8", "q8_0"}) test_save_with_sums(w, folder, dtype);
  test_objects_that_exist(w, folder);
  test_vectors(w, folder);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
