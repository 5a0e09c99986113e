// Networks of other models as parts: a teacher through the C interface.
#include "world.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

dllm_objective* objective_of(world& w, const char* settings) {
  dllm_options* opts = nullptr;
  NEED(dllm_options_new("objective:mdlm", &opts, w.err), w.err);
  NEED(dllm_options_set_json(opts, settings, static_cast<int64_t>(std::strlen(settings)), w.err),
       w.err);
  dllm_objective* objective = nullptr;
  NEED(dllm_objective_new("mdlm", nullptr, opts, &objective, w.err), w.err);
  dllm_options_release(opts);
  return objective;
}

Json described(world& w, const dllm_model* model) {
  dllm_buffer* out = dllm_buffer_new();
  NEED(dllm_model_describe(model, out, w.err), w.err);
  Json made = Json::parse(static_cast<const char*>(dllm_buffer_data(out)));
  dllm_buffer_release(out);
  return made;
}

dllm_model* new_model(world& w, int64_t seed) {
  dllm_buffer* config = dllm_buffer_new();
  NEED(dllm_model_config(w.model, config, w.err), w.err);
  dllm_options* opts = nullptr;
  NEED(dllm_options_new("model", &opts, w.err), w.err);
  NEED(dllm_options_set_i64(opts, "seed", seed, w.err), w.err);
  dllm_model* made = nullptr;
  NEED(dllm_model_new(w.engine, static_cast<const char*>(dllm_buffer_data(config)),
                      dllm_buffer_size(config), opts, nullptr, &made, w.err),
       w.err);
  dllm_options_release(opts);
  dllm_buffer_release(config);
  return made;
}

// A few steps towards a teacher of other numbers.
void train_with_teacher(world& w) {
  dllm_objective* objective =
      objective_of(w, R"({"align": 1, "distill": 0.5, "teacher": "model"})");
  dllm_trainer* trainer = nullptr;
  NEED(dllm_trainer_new(w.model, objective, nullptr, &trainer, w.err), w.err);
  dllm_loader* loader = nullptr;
  dllm_options* opts = nullptr;
  NEED(dllm_options_new("loader", &opts, w.err), w.err);
  NEED(dllm_options_set_i64(opts, "batch", 2, w.err), w.err);
  NEED(dllm_options_set_i64(opts, "length", 16, w.err), w.err);
  NEED(dllm_loader_new(w.data, opts, &loader, w.err), w.err);
  NEED(dllm_trainer_run(trainer, loader, 2, nullptr, nullptr, nullptr, w.err), w.err);
  for (const char* name : {"align", "distill"}) {
    double value = 0;
    NEED(dllm_trainer_metric(trainer, name, &value, w.err), w.err);
    CHECK(std::isfinite(value) && value > 0);
  }
  dllm_options_release(opts);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  dllm_objective_release(objective);
}

void refuse(world& w, const dllm_model* teacher) {
  CHECK(dllm_model_add_network(w.model, teacher, "teacher", w.err) == DLLM_ALREADY_EXISTS);
  CHECK(dllm_model_add_network(w.model, teacher, "a/b", w.err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_model_add_network(w.model, nullptr, "x", w.err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_model_remove_network(w.model, "techer", w.err) == DLLM_NOT_FOUND);
  CHECK(std::string(dllm_error_hint(w.err)).find("teacher") != std::string::npos);
  CHECK(dllm_model_remove_network(w.model, "base", w.err) == DLLM_NOT_FOUND);
}

// A save of a model leaves its teacher out.
void save_without(world& w) {
  std::string pattern = (fs::temp_directory_path() / "dllm-networks-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  NEED(dllm_model_save(w.model, (folder / "model").c_str(), nullptr, nullptr, w.err), w.err);
  dllm_model* loaded = nullptr;
  NEED(dllm_model_load(w.engine, (folder / "model").c_str(), nullptr, nullptr, &loaded, w.err),
       w.err);
  CHECK(dllm_model_param_count(loaded) < dllm_model_param_count(w.model));
  CHECK(!described(w, loaded).contains("parts") ||
        described(w, loaded).at("parts") == Json({"base"}));
  dllm_model_release(loaded);
  fs::remove_all(folder);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  dllm_model* teacher = new_model(w, 7);
  dllm_objective* objective = objective_of(w, R"({"align": 1, "teacher": "model"})");
  dllm_trainer* trainer = nullptr;
  CHECK(dllm_trainer_new(w.model, objective, nullptr, &trainer, w.err) == DLLM_NOT_FOUND);
  dllm_objective_release(objective);
  const int64_t alone = dllm_model_param_count(w.model);
  NEED(dllm_model_add_network(w.model, teacher, "teacher", w.err), w.err);
  CHECK(dllm_model_param_count(w.model) == 2 * alone);
  refuse(w, teacher);
  dllm_model_release(teacher); // the part keeps its arrays
  train_with_teacher(w);
  save_without(w);
  NEED(dllm_model_remove_network(w.model, "teacher", w.err), w.err);
  CHECK(dllm_model_param_count(w.model) == alone);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
