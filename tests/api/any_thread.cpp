// Every function with `Threads any`, from other threads, while a trainer steps and a decoder of the
// same model steps. The list of functions is abi/manifest.json: one without a call here fails the
// test. Meant for ThreadSanitizer; without it the answers are checked.

#include "world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3; // of every call, in every thread

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What all threads use at once.
struct Shared {
  world w{};
  fs::path folder;
  dllm_trainer* trainer = nullptr;
  dllm_loader* loader = nullptr;
  dllm_decoder* decoder = nullptr;
  dllm_generator* generator = nullptr;
  dllm_queue* queue = nullptr;
  dllm_objective* objective = nullptr;
  dllm_schedule* schedule = nullptr;
  dllm_options* options = nullptr;
  dllm_batch* batch = nullptr; // rows of the loader
  dllm_tensor* tensor = nullptr;
  dllm_source* source = nullptr; // the saved model
  dllm_checkpoint* checkpoint = nullptr;
  dllm_model* adapted = nullptr; // has an adapter
  dllm_dataset* texts = nullptr;
  dllm_task* task = nullptr;
  std::string config;
};

// What one thread owns, and the calls.
class Caller {
public:
  Caller(Shared& shared, int number)
      : s(shared), own(shared.folder / ("thread" + std::to_string(number))), err(dllm_error_new()),
        buffer(dllm_buffer_new()) {
    fs::create_directories(own);
    add_containers(), add_files(), add_model(), add_work(), add_generators(), add_queue(),
        add_library(), add_text();
  }
  ~Caller() {
    dllm_buffer_release(buffer);
    dllm_error_release(err);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  std::map<std::string, std::function<void()>> calls;
  std::string failed; // the first call that went wrong, and how

private:
  void good(bool is_good, const std::string& what) {
    if (!is_good && failed.empty()) failed = what;
  }
  void ok(dllm_status status, const std::string& what) {
    if (status != DLLM_OK && failed.empty()) failed = what + ": " + dllm_error_message(err);
  }
  // Creates an object and releases it.
  template <class T, class Make, class Release>
  void make(const std::string& what, Make make_it, Release release) {
    T* made = nullptr;
    ok(make_it(&made), what);
    release(made);
  }
  int64_t i64_of(const char* text) const { return static_cast<int64_t>(std::strlen(text)); }

  void add_containers();
  void add_files();
  void add_model();
  void add_work();
  void add_generators();
  void add_queue();
  void add_library();
  void add_text();

  Shared& s;
  fs::path own;
  dllm_error* err;
  dllm_buffer* buffer;
};

void Caller::add_containers() {
  const auto new_batch = [this] {
    make<dllm_batch>(
        "batch", [&](auto out) { return dllm_batch_new(out, err); }, dllm_batch_release);
  };
  calls["dllm_batch_new"] = calls["dllm_batch_release"] = new_batch;
  calls["dllm_batch_array"] = [this] {
    make<dllm_tensor>(
        "array", [&](auto out) { return dllm_batch_array(s.batch, "ids", out, err); },
        dllm_tensor_release);
  };
  calls["dllm_batch_count"] = [this] { good(dllm_batch_count(s.batch) >= 2, "batch_count"); };
  calls["dllm_batch_name"] = [this] { good(dllm_batch_name(s.batch, 0) != nullptr, "batch_name"); };
  const auto new_buffer = [] { dllm_buffer_release(dllm_buffer_new()); };
  calls["dllm_buffer_new"] = calls["dllm_buffer_release"] = new_buffer;
  calls["dllm_buffer_data"] = [this] { good(dllm_buffer_data(buffer) != nullptr, "buffer_data"); };
  calls["dllm_buffer_size"] = [this] { good(dllm_buffer_size(buffer) >= 0, "buffer_size"); };
  const auto new_error = [] { dllm_error_release(dllm_error_new()); };
  calls["dllm_error_new"] = calls["dllm_error_release"] = new_error;
  calls["dllm_error_code"] = [this] { dllm_error_code(err); };
  calls["dllm_error_message"] = [this] { good(dllm_error_message(err) != nullptr, "message"); };
  calls["dllm_error_hint"] = [this] { good(dllm_error_hint(err) != nullptr, "hint"); };
  const auto new_options = [this] {
    make<dllm_options>(
        "options", [&](auto out) { return dllm_options_new("decoder", out, err); },
        dllm_options_release);
  };
  calls["dllm_options_new"] = calls["dllm_options_release"] = new_options;
  calls["dllm_options_to_json"] = [this] {
    ok(dllm_options_to_json(s.options, buffer, err), "json");
  };
  calls["dllm_options_schema"] = [this] {
    ok(dllm_options_schema("trainer", buffer, err), "schema");
  };
  const auto new_tensor = [this] {
    const std::array<int64_t, 1> dims{3};
    const std::array<float, 3> data{1, 2, 3};
    make<dllm_tensor>(
        "tensor",
        [&](auto out) { return dllm_tensor_new(DLLM_F32, dims.data(), 1, data.data(), out, err); },
        dllm_tensor_release);
  };
  calls["dllm_tensor_new"] = calls["dllm_tensor_release"] = new_tensor;
  calls["dllm_tensor_dtype"] = [this] { good(dllm_tensor_dtype(s.tensor) == DLLM_I32, "dtype"); };
  calls["dllm_tensor_rank"] = [this] { good(dllm_tensor_rank(s.tensor) == 2, "rank"); };
  calls["dllm_tensor_dim"] = [this] { good(dllm_tensor_dim(s.tensor, 1) == 32, "dim"); };
  calls["dllm_tensor_data"] = [this] { good(dllm_tensor_data(s.tensor) != nullptr, "data"); };
  calls["dllm_tensor_read"] = [this] {
    std::vector<float> read(static_cast<size_t>(dllm_tensor_dim(s.tensor, 0) * 32));
    ok(dllm_tensor_read(s.tensor, DLLM_F32, read.data(), static_cast<int64_t>(read.size() * 4),
                        err),
       "read");
  };
  const auto new_source = [this] {
    make<dllm_source>(
        "source", [&](auto out) { return dllm_source_new(out, err); }, dllm_source_release);
  };
  calls["dllm_source_new"] = calls["dllm_source_release"] = new_source;
  const auto new_task = [] { dllm_task_release(dllm_task_new()); };
  calls["dllm_task_new"] = calls["dllm_task_release"] = new_task;
  calls["dllm_task_cancel"] = [] {
    dllm_task* task = dllm_task_new();
    dllm_task_cancel(task);
    dllm_task_release(task);
  };
  // The task of the training that runs; nothing here stops it.
  calls["dllm_task_is_cancelled"] = [this] {
    good(dllm_task_is_cancelled(s.task) == 0, "cancelled");
  };
  calls["dllm_task_set_deadline"] = [this] { dllm_task_set_deadline(s.task, 3600 * 1000); };
  calls["dllm_task_progress"] = [this] {
    int64_t done = -1, total = -1;
    dllm_task_progress(s.task, &done, &total);
    good(done >= 0 && total >= 0, "progress");
  };
}

void Caller::add_files() {
  const std::string root = (s.folder / "run").string();
  calls["dllm_checkpoint_latest"] = [=, this] {
    ok(dllm_checkpoint_latest(root.c_str(), buffer, err), "latest");
  };
  const auto open = [=, this] {
    make<dllm_checkpoint>(
        "open",
        [&](auto out) { return dllm_checkpoint_open((s.folder / "model").c_str(), out, err); },
        dllm_checkpoint_release);
  };
  calls["dllm_checkpoint_open"] = calls["dllm_checkpoint_release"] = open;
  calls["dllm_checkpoint_latest_task"] = [=, this] {
    ok(dllm_checkpoint_latest_task(root.c_str(), s.task, buffer, err), "latest_task");
  };
  calls["dllm_checkpoint_check"] = [=, this] {
    ok(dllm_checkpoint_latest(root.c_str(), buffer, err), "latest");
    const std::string dir = static_cast<const char*>(dllm_buffer_data(buffer));
    ok(dllm_checkpoint_check(dir.c_str(), nullptr, buffer, err), "check");
  };
  calls["dllm_checkpoint_open_task"] = [=, this] {
    make<dllm_checkpoint>(
        "open_task",
        [&](auto out) {
          return dllm_checkpoint_open_task((s.folder / "model").c_str(), s.task, out, err);
        },
        dllm_checkpoint_release);
  };
  calls["dllm_checkpoint_describe"] = [this] {
    ok(dllm_checkpoint_describe(s.checkpoint, buffer, err), "describe");
  };
  calls["dllm_checkpoint_tensor"] = [this] {
    make<dllm_tensor>(
        "tensor",
        [&](auto out) {
          return dllm_checkpoint_tensor(s.checkpoint, "model.norm.weight", out, err);
        },
        dllm_tensor_release);
  };
  calls["dllm_checkpoint_verify"] = [this] {
    ok(dllm_checkpoint_verify(s.checkpoint, nullptr, err), "verify");
  };
  calls["dllm_model_save"] = [this] {
    dllm_options* opts = make_options("save", R"({"overwrite": true})", err);
    ok(dllm_model_save(s.w.model, (own / "saved").c_str(), opts, nullptr, err), "save");
    dllm_options_release(opts);
  };
  calls["dllm_model_quantize"] = [this] {
    dllm_options* opts = make_options("quantize", R"({"overwrite": true})", err);
    ok(dllm_model_quantize((s.folder / "model").c_str(), (own / "small.gguf").c_str(), opts,
                           nullptr, buffer, err),
       "quantize");
    dllm_options_release(opts);
  };
  calls["dllm_model_load"] = [this] {
    make<dllm_model>(
        "load",
        [&](auto out) {
          return dllm_model_load(s.w.engine, (s.folder / "model").c_str(), nullptr, nullptr, out,
                                 err);
        },
        dllm_model_release);
  };
  calls["dllm_model_load_source"] = [this] {
    make<dllm_model>(
        "load_source",
        [&](auto out) {
          return dllm_model_load_source(s.w.engine, s.source, nullptr, nullptr, out, err);
        },
        dllm_model_release);
  };
  calls["dllm_dataset_open"] = [this] {
    make<dllm_dataset>(
        "dataset_open",
        [&](auto out) {
          return dllm_dataset_open((s.folder / "text.txt").c_str(), s.w.tok, nullptr, nullptr, out,
                                   err);
        },
        dllm_dataset_release);
  };
  calls["dllm_dataset_save"] = [this] {
    fs::remove(own / "rows.tokens");
    ok(dllm_dataset_save(s.w.data, (own / "rows.tokens").c_str(), nullptr, nullptr, err),
       "dataset_save");
  };
  calls["dllm_engine_plan"] = [this] {
    ok(dllm_engine_plan(s.w.engine, (s.folder / "model").c_str(), nullptr, nullptr, buffer, err),
       "plan");
  };
}

void Caller::add_model() {
  const auto new_model = [this] {
    make<dllm_model>(
        "model_new",
        [&](auto out) {
          return dllm_model_new(s.w.engine, s.config.data(), static_cast<int64_t>(s.config.size()),
                                nullptr, nullptr, out, err);
        },
        dllm_model_release);
  };
  calls["dllm_model_new"] = calls["dllm_model_release"] = new_model;
  calls["dllm_model_config"] = [this] { ok(dllm_model_config(s.w.model, buffer, err), "config"); };
  calls["dllm_model_describe"] = [this] {
    ok(dllm_model_describe(s.w.model, buffer, err), "describe");
  };
  calls["dllm_model_i64"] = [this] {
    int64_t bytes = 0;
    ok(dllm_model_i64(s.w.model, "bytes", &bytes, err), "bytes");
    good(bytes > 1000, "bytes of a model that is there");
  };
  calls["dllm_model_adapters"] = [this] {
    ok(dllm_model_adapters(s.adapted, buffer, err), "adapters");
    const std::string list = static_cast<const char*>(dllm_buffer_data(buffer));
    good(list.find("\"rank\":2") != std::string::npos, "the adapter is in the list");
  };
  calls["dllm_model_save_adapter"] = [this] {
    fs::remove_all(own / "adapter");
    ok(dllm_model_save_adapter(s.adapted, (own / "adapter").c_str(), "default", nullptr, err),
       "save_adapter");
  };
  calls["dllm_model_version"] = [this] { good(dllm_model_version(s.w.model) > 0, "version"); };
  calls["dllm_model_param_count"] = [this] {
    good(dllm_model_param_count(s.w.model) > 10, "param_count");
  };
  calls["dllm_model_param_name"] = [this] {
    good(dllm_model_param_name(s.w.model, 3) != nullptr, "param_name");
  };
  calls["dllm_model_param"] = [this] {
    for (int64_t i = 0; i < dllm_model_param_count(s.w.model); ++i) {
      dllm_tensor* value = nullptr;
      ok(dllm_model_param(s.w.model, dllm_model_param_name(s.w.model, i), &value, err), "param");
      const auto* numbers = static_cast<const float*>(dllm_tensor_data(value));
      good(numbers != nullptr && std::isfinite(numbers[0]), "a parameter is finite");
      dllm_tensor_release(value);
    }
  };
  const auto new_engine = [this] {
    make<dllm_engine>(
        "engine", [&](auto out) { return dllm_engine_new(nullptr, out, err); },
        dllm_engine_release);
  };
  calls["dllm_engine_new"] = calls["dllm_engine_release"] = new_engine;
  calls["dllm_engine_new_hosted"] = [this] {
    const auto in_order = [](int64_t count, dllm_chunk_fn chunk, void* job, void*) {
      for (int64_t i = 0; i < count; ++i) chunk(job, i);
    };
    make<dllm_engine>(
        "hosted",
        [&](auto out) {
          return dllm_engine_new_hosted(nullptr, nullptr, nullptr, in_order, nullptr, out, err);
        },
        dllm_engine_release);
  };
  calls["dllm_engine_device_count"] = [this] {
    good(dllm_engine_device_count(s.w.engine) == 1, "device_count");
  };
  calls["dllm_engine_device_name"] = [this] {
    good(dllm_engine_device_name(s.w.engine, 0) != nullptr, "device");
  };
  calls["dllm_engine_describe"] = [this] {
    ok(dllm_engine_describe(s.w.engine, buffer, err), "describe");
  };
  calls["dllm_engine_i64"] = [this] {
    int64_t used = 0;
    ok(dllm_engine_i64(s.w.engine, "memory_used", &used, err), "memory_used");
  };
  calls["dllm_engine_trim"] = [this] { ok(dllm_engine_trim(s.w.engine, err), "trim"); };
}

void Caller::add_generators() {
  const auto made_new = [this] {
    make<dllm_generator>(
        "generator",
        [&](auto out) { return dllm_generator_new(s.w.model, s.w.tok, nullptr, out, err); },
        dllm_generator_release);
  };
  calls["dllm_generator_new"] = calls["dllm_generator_release"] = made_new;
  calls["dllm_generator_load"] = [this] {
    make<dllm_generator>(
        "generator_load",
        [&](auto out) {
          return dllm_generator_load((s.folder / "model").c_str(), s.w.engine, nullptr, nullptr,
                                     nullptr, out, err);
        },
        dllm_generator_release);
  };
  calls["dllm_generator_decoder"] = [this] {
    make<dllm_decoder>(
        "generator_decoder",
        [&](auto out) { return dllm_generator_decoder(s.generator, out, err); },
        dllm_decoder_release);
  };
  calls["dllm_generator_model"] = [this] {
    make<dllm_model>(
        "generator_model", [&](auto out) { return dllm_generator_model(s.generator, out, err); },
        dllm_model_release);
  };
  calls["dllm_generator_tokenizer"] = [this] {
    make<dllm_tokenizer>(
        "generator_tokenizer",
        [&](auto out) { return dllm_generator_tokenizer(s.generator, out, err); },
        dllm_tokenizer_release);
  };
}

void Caller::add_queue() {
  const auto made_new = [this] {
    make<dllm_queue>(
        "queue", [&](auto out) { return dllm_queue_new(s.w.model, s.w.tok, nullptr, out, err); },
        dllm_queue_release);
  };
  calls["dllm_queue_new"] = calls["dllm_queue_release"] = made_new;
  calls["dllm_queue_load"] = [this] {
    make<dllm_queue>(
        "queue_load",
        [&](auto out) {
          return dllm_queue_load((s.folder / "model").c_str(), s.w.engine, nullptr, nullptr,
                                 nullptr, out, err);
        },
        dllm_queue_release);
  };
  // A request from its submission to its removal.
  const auto asked = [this] {
    dllm_options* request = make_options("request", R"({"prompt": "the cat", "length": 4})", err);
    int64_t number = 0, version = 0, over = 0;
    ok(dllm_queue_submit(s.queue, request, nullptr, nullptr, &number, err), "submit");
    dllm_options_release(request);
    while (over == 0 && failed.empty()) {
      ok(dllm_queue_wait(s.queue, number, 60000, nullptr, &version, &over, err), "wait");
      ok(dllm_queue_text(s.queue, number, "canvas", buffer, err), "canvas of a queue");
    }
    ok(dllm_queue_describe(s.queue, number, buffer, err), "describe a queue");
    ok(dllm_queue_cancel(s.queue, number, err), "cancel");
    ok(dllm_queue_remove(s.queue, number, err), "remove");
  };
  for (const char* name : {"submit", "wait", "text", "describe", "cancel", "remove"})
    calls[std::string("dllm_queue_") + name] = asked;
  calls["dllm_queue_drain"] = [this] {
    make<dllm_queue>(
        "drained",
        [&](auto out) {
          const dllm_status made = dllm_queue_new(s.w.model, s.w.tok, nullptr, out, err);
          return made != DLLM_OK ? made : dllm_queue_drain(*out, nullptr, err);
        },
        dllm_queue_release);
  };
  calls["dllm_queue_model"] = [this] {
    make<dllm_model>(
        "queue_model", [&](auto out) { return dllm_queue_model(s.queue, out, err); },
        dllm_model_release);
  };
  calls["dllm_queue_tokenizer"] = [this] {
    make<dllm_tokenizer>(
        "queue_tokenizer", [&](auto out) { return dllm_queue_tokenizer(s.queue, out, err); },
        dllm_tokenizer_release);
  };
}

void Caller::add_work() {
  const auto new_decoder = [this] {
    make<dllm_decoder>(
        "decoder", [&](auto out) { return dllm_decoder_new(s.w.model, nullptr, out, err); },
        dllm_decoder_release);
  };
  calls["dllm_decoder_new"] = calls["dllm_decoder_release"] = new_decoder;
  calls["dllm_decoder_ids"] = [this] {
    std::array<int32_t, 64> ids{};
    int64_t count = 0;
    ok(dllm_decoder_ids(s.decoder, 0, ids.data(), 64, &count, err), "ids");
    good(count == 43 && ids[0] == 5 && ids[2] == 7, "the prompt of the canvas");
  };
  calls["dllm_decoder_states"] = [this] {
    std::array<uint8_t, 64> states{};
    int64_t count = 0;
    ok(dllm_decoder_states(s.decoder, 0, states.data(), 64, &count, err), "states");
    good(count == 43 && states[0] == DLLM_FIXED, "states of the prompt");
  };
  calls["dllm_decoder_confidence"] = [this] {
    std::array<float, 64> confidence{};
    int64_t count = 0;
    ok(dllm_decoder_confidence(s.decoder, 0, confidence.data(), 64, &count, err), "confidence");
  };
  calls["dllm_decoder_metric"] = [this] {
    double open = -1, all = -1;
    ok(dllm_decoder_metric(s.decoder, 0, "open", &open, err), "open");
    ok(dllm_decoder_metric(s.decoder, -1, "nfe", &all, err), "nfe");
    good(open >= 0 && all >= 0, "metrics");
  };
  calls["dllm_decoder_trace"] = [this] {
    ok(dllm_decoder_trace(s.decoder, 0, buffer, err), "trace");
    const auto* text = static_cast<const char*>(dllm_buffer_data(buffer));
    good(dllm_buffer_size(buffer) > 0 && text[dllm_buffer_size(buffer) - 1] == '\n',
         "whole lines of a trace");
  };
  calls["dllm_decoder_describe"] = [this] {
    ok(dllm_decoder_describe(s.decoder, buffer, err), "describe");
  };
  calls["dllmx_decoder_statistics"] = [this] {
    dllm_batch* made =
        nullptr; // the decoder takes whole steps: no statistics, or those of one predict
    const dllm_status status = dllmx_decoder_statistics(s.decoder, 0, &made, err);
    good(status == DLLM_OK || status == DLLM_FAILED_PRECONDITION, "statistics");
    dllm_batch_release(made);
  };
  calls["dllm_trainer_metric"] = [this] {
    double loss = -1;
    ok(dllm_trainer_metric(s.trainer, "loss", &loss, err), "loss");
    good(std::isfinite(loss), "the loss is finite");
  };
  calls["dllm_trainer_describe"] = [this] {
    ok(dllm_trainer_describe(s.trainer, buffer, err), "describe");
  };
  calls["dllm_trainer_model"] = [this] {
    for (const char* role : {"live", "ema"}) {
      dllm_model* model = nullptr;
      ok(dllm_trainer_model(s.trainer, role, &model, err), role);
      dllm_tensor* value = nullptr;
      ok(dllm_model_param(model, "model.layers.1.self_attn.q_proj.weight", &value, err),
         "a parameter of a role");
      dllm_tensor_release(value);
      dllm_model_release(model);
    }
  };
  calls["dllm_trainer_release"] =
      [this] { // of a model of its own: making one is for the model's owner
        dllm_model* model = make_model(s.w.engine, s.w.tok, 16, 1, err);
        dllm_trainer_release(make_trainer(model, nullptr, err));
        dllm_model_release(model);
      };
  const auto new_loader = [this] {
    dllm_loader_release(make_loader(s.w.data, R"({"length": 16})", err));
  };
  calls["dllm_loader_new"] = calls["dllm_loader_release"] = new_loader;
  calls["dllm_loader_position"] = [this] { good(dllm_loader_position(s.loader) >= 0, "position"); };
  const auto new_objective = [this] {
    make<dllm_objective>(
        "objective",
        [&](auto out) { return dllm_objective_new("mdlm", s.schedule, nullptr, out, err); },
        dllm_objective_release);
  };
  calls["dllm_objective_new"] = calls["dllm_objective_release"] = new_objective;
  calls["dllm_objective_prepare"] = [this] {
    make<dllm_batch>(
        "prepare",
        [&](auto out) {
          return dllm_objective_prepare(s.objective, s.w.model, s.batch, 1, 2, out, err);
        },
        dllm_batch_release);
  };
  const auto new_schedule = [this] {
    make<dllm_schedule>(
        "schedule", [&](auto out) { return dllm_schedule_new("cosine", nullptr, out, err); },
        dllm_schedule_release);
  };
  calls["dllm_schedule_new"] = calls["dllm_schedule_release"] = new_schedule;
  calls["dllm_schedule_table"] = [this] {
    const std::array<double, 3> t{0, 0.5, 1}, alpha{1, 0.5, 0};
    make<dllm_schedule>(
        "table",
        [&](auto out) {
          return dllm_schedule_table(t.data(), alpha.data(), nullptr, nullptr, 3, out, err);
        },
        dllm_schedule_release);
  };
  calls["dllm_schedule_eval"] = [this] {
    const double t = 0.25;
    double alpha = 0;
    ok(dllm_schedule_eval(s.schedule, &t, 1, &alpha, nullptr, nullptr, err), "eval");
  };
}

void Caller::add_library() {
  calls["dllm_status_name"] = [this] {
    good(dllm_status_name(DLLM_ABORTED) != nullptr, "status_name");
  };
  calls["dllm_abi_version"] = [this] { good(dllm_abi_version() == 1, "abi_version"); };
  calls["dllm_version"] = [this] { good(dllm_version() != nullptr, "version"); };
  calls["dllm_build_info"] = [this] { good(dllm_build_info() != nullptr, "build_info"); };
  calls["dllm_has_feature"] = [this] {
    good(dllm_has_feature("no such feature") == 0, "has_feature");
  };
  calls["dllm_log_hook"] = [] {
    static std::atomic<int> lines{0};
    dllm_log_hook(
        DLLM_LOG_WARN,
        [](int32_t, const char*, void* user_data) { ++*static_cast<std::atomic<int>*>(user_data); },
        &lines);
  };
  calls["dllm_log_config"] = [] { dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_QUEUE); };
  calls["dllm_log_next"] = [this] {
    int32_t level = 0;
    dllm_log_next(buffer, &level);
  };
  const auto new_lua = [this] {
    dllm_lua* lua = nullptr;
    const dllm_status status = dllm_lua_new(nullptr, &lua, err);
    good(status == DLLM_OK || status == DLLM_UNIMPLEMENTED, "lua_new");
    dllm_lua_release(lua);
  };
  calls["dllm_lua_new"] = calls["dllm_lua_release"] = new_lua;
  calls["dllm_plugin_list"] = [this] {
    const dllm_status status = dllm_plugin_list(buffer, err);
    good(status == DLLM_OK || status == DLLM_UNIMPLEMENTED, "plugin_list");
  };
  calls["dllm_plugin_describe"] = [this] {
    good(dllm_plugin_describe("/no/such/plugin.so", buffer, err) != DLLM_OK, "plugin_describe");
  };
  // HF_HUB_OFFLINE is set, and the cache is empty.
  const auto not_found = [this](const char* what, auto&& call) {
    calls[std::string("dllm_hub_") + what] = [this, what, call] {
      good(call(this) == DLLM_NOT_FOUND, what);
    };
  };
  not_found("pull", [](Caller* c) {
    return dllm_hub_pull("org/name", nullptr, c->s.task, c->buffer, c->err);
  });
  not_found("describe", [](Caller* c) {
    return dllm_hub_describe("org/name", nullptr, c->s.task, c->buffer, c->err);
  });
  not_found("verify",
            [](Caller* c) { return dllm_hub_verify("org/name", c->s.task, c->buffer, c->err); });
  not_found("remove",
            [](Caller* c) { return dllm_hub_remove("org/name", c->s.task, c->buffer, c->err); });
  calls["dllm_hub_list"] = [this] { ok(dllm_hub_list(s.task, buffer, err), "hub_list"); };
  calls["dllm_registry_name"] = [this] {
    good(dllm_registry_name("policy", 0) != nullptr, "registry_name");
  };
}

void Caller::add_text() {
  calls["dllm_dataset_new"] = calls["dllm_dataset_release"] = [this] {
    make<dllm_dataset>(
        "dataset", [&](auto out) { return dllm_dataset_new(s.w.tok, nullptr, out, err); },
        dllm_dataset_release);
  };
  calls["dllm_dataset_size"] = [this] { good(dllm_dataset_size(s.w.data) == 96, "dataset_size"); };
  const std::string tokenizer = (s.folder / "tokenizer.json").string();
  const auto load = [=, this] {
    make<dllm_tokenizer>(
        "tokenizer",
        [&](auto out) { return dllm_tokenizer_load(tokenizer.c_str(), nullptr, out, err); },
        dllm_tokenizer_release);
  };
  calls["dllm_tokenizer_load"] = calls["dllm_tokenizer_release"] = load;
  calls["dllm_tokenizer_load_task"] = [=, this] {
    make<dllm_tokenizer>(
        "load_task",
        [&](auto out) {
          return dllm_tokenizer_load_task(tokenizer.c_str(), nullptr, s.task, out, err);
        },
        dllm_tokenizer_release);
  };
  calls["dllm_tokenizer_load_source"] = [this] {
    make<dllm_tokenizer>(
        "tokenizer_source",
        [&](auto out) { return dllm_tokenizer_load_source(s.source, nullptr, out, err); },
        dllm_tokenizer_release);
  };
  calls["dllm_tokenizer_train"] = [this] {
    dllm_options* opts = make_options("tokenizer_train", R"({"vocab_size": 270})", err);
    make<dllm_tokenizer>(
        "tokenizer_train",
        [&](auto out) { return dllm_tokenizer_train(s.texts, opts, nullptr, out, err); },
        dllm_tokenizer_release);
    dllm_options_release(opts);
  };
  calls["dllm_tokenizer_save"] = [this] {
    ok(dllm_tokenizer_save(s.w.tok, (own / "tokenizer.json").c_str(), err), "tokenizer_save");
  };
  calls["dllm_tokenizer_size"] = [this] {
    good(dllm_tokenizer_size(s.w.tok) > 256, "tokenizer_size");
  };
  calls["dllm_tokenizer_id"] = [this] {
    int32_t id = -1;
    ok(dllm_tokenizer_id(s.w.tok, "mask", &id, err), "id");
  };
  calls["dllm_tokenizer_encode"] = [this] {
    std::array<int32_t, 32> ids{};
    int64_t count = 0;
    ok(dllm_tokenizer_encode(s.w.tok, "the cat sat", 11, ids.data(), 32, &count, err), "encode");
  };
  calls["dllm_tokenizer_encode_task"] = [this] {
    make<dllm_batch>(
        "encode_task",
        [&](auto out) {
          return dllm_tokenizer_encode_task(s.w.tok, "the cat sat", 11, nullptr, out, err);
        },
        dllm_batch_release);
  };
  calls["dllm_tokenizer_decode"] = [this] {
    const std::array<int32_t, 3> ids{260, 261, 262};
    ok(dllm_tokenizer_decode(s.w.tok, ids.data(), 3, buffer, err), "decode");
  };
  calls["dllm_tokenizer_decode_stream"] = [this] {
    const std::array<int32_t, 3> ids{260, 261, 262};
    int64_t used = 0;
    ok(dllm_tokenizer_decode_stream(s.w.tok, ids.data(), 3, buffer, &used, err), "decode_stream");
  };
  const auto new_answer = [this] {
    make<dllm_answer>(
        "answer", [&](auto out) { return dllm_answer_new(s.w.tok, nullptr, out, err); },
        dllm_answer_release);
  };
  calls["dllm_answer_new"] = calls["dllm_answer_release"] = new_answer;
  calls["dllm_tokenizer_chat"] = [this] {
    const char* messages = R"([{"role": "user", "content": "the cat"}])";
    dllm_options* opts = make_options(
        "chat", R"({"template": "{% for m in messages %}{{ m.content }}{% endfor %}"})", err);
    make<dllm_batch>(
        "chat",
        [&](auto out) {
          return dllm_tokenizer_chat(s.w.tok, messages, i64_of(messages), opts, out, err);
        },
        dllm_batch_release);
    dllm_options_release(opts);
  };
  calls["dllm_tokenizer_chat_task"] = [this] {
    const char* messages = R"([{"role": "user", "content": "the cat"}])";
    dllm_options* opts = make_options(
        "chat", R"({"template": "{% for m in messages %}{{ m.content }}{% endfor %}"})", err);
    make<dllm_batch>(
        "chat",
        [&](auto out) {
          return dllm_tokenizer_chat_task(s.w.tok, messages, i64_of(messages), opts, nullptr, out,
                                          err);
        },
        dllm_batch_release);
    dllm_options_release(opts);
  };
}

// Names of the functions with the word any. The manifest has one member a line, the name before the
// word.
std::vector<std::string> functions_for_any_thread() {
  std::ifstream file(DLLM_MANIFEST);
  std::vector<std::string> found;
  std::string name;
  const auto value_of = [](const std::string& line, const std::string& key) {
    const size_t at = line.find("\"" + key + "\": \"");
    if (at == std::string::npos) return std::string();
    const size_t begin = at + key.size() + 5;
    return line.substr(begin, line.find('"', begin) - begin);
  };
  for (std::string line; std::getline(file, line);) {
    const std::string named = value_of(line, "name");
    if (named.starts_with("dllm")) name = named;
    if (value_of(line, "threads") == "any") found.push_back(name);
  }
  return found;
}

void open_shared(Shared& s) {
  open_world(&s.w, 2);
  dllm_error* err = s.w.err;
  s.folder = fs::temp_directory_path() / ("dllm_any_thread_" + std::to_string(getpid()));
  fs::create_directories(s.folder);
  NEED(dllm_model_set_tokenizer(s.w.model, s.w.tok, err), err);
  NEED(dllm_model_save(s.w.model, (s.folder / "model").c_str(), nullptr, nullptr, err), err);
  NEED(dllm_tokenizer_save(s.w.tok, (s.folder / "tokenizer.json").c_str(), err), err);
  std::ofstream(s.folder / "text.txt") << "the cat sat on the mat and the dog sat on the log\n";
  s.config = read_file(s.folder / "model" / "config.json");
  NEED(dllm_source_new(&s.source, err), err);
  for (const auto& entry : fs::directory_iterator(s.folder / "model")) {
    const std::string content = read_file(entry.path());
    NEED(dllm_source_add(s.source, entry.path().filename().c_str(), content.data(),
                         static_cast<int64_t>(content.size()), 0, err),
         err);
  }
  s.trainer = make_trainer(s.w.model, R"({"ema": 0.9})", err);
  s.loader = make_loader(s.w.data, R"({"batch": 4, "length": 32, "epochs": 0})", err);
  dllm_options* opts =
      make_options("decoder", R"({"steps": 20, "gen_length": 40, "trace": true})", err);
  NEED(dllm_decoder_new(s.w.model, opts, &s.decoder, err), err);
  dllm_options_release(opts);
  fs::copy_file(s.folder / "tokenizer.json", s.folder / "model" / "tokenizer.json",
                fs::copy_options::overwrite_existing);
  NEED(dllm_generator_new(s.w.model, s.w.tok, nullptr, &s.generator, err), err);
  NEED(dllm_queue_new(s.w.model, s.w.tok, nullptr, &s.queue, err), err);
  const std::array<int32_t, 3> prompt = {5, 6, 7};
  NEED(dllm_decoder_start(s.decoder, prompt.data(), 3, 1, err), err);
  NEED(dllm_loader_next(s.loader, &s.batch, err), err);
  NEED(dllm_batch_array(s.batch, "ids", &s.tensor, err), err);
  NEED(dllm_schedule_new("linear", nullptr, &s.schedule, err), err);
  s.options = make_options("objective:mdlm",
                           ("{\"mask_id\": " + std::to_string(s.w.mask_id) + "}").c_str(), err);
  NEED(dllm_objective_new("mdlm", s.schedule, s.options, &s.objective, err), err);
  NEED(dllm_checkpoint_save(s.trainer, s.loader, (s.folder / "run").c_str(), nullptr, nullptr,
                            nullptr, err),
       err);
  NEED(dllm_checkpoint_open((s.folder / "model").c_str(), &s.checkpoint, err), err);
  NEED(dllm_dataset_new(nullptr, nullptr, &s.texts, err), err);
  for (int i = 0; i < 4; ++i) {
    const char* row = R"({"text": "the cat sat on the mat and the dog sat on the log"})";
    NEED(dllm_dataset_add(s.texts, row, static_cast<int64_t>(std::strlen(row)), err), err);
  }
  NEED(dllm_model_new(s.w.engine, s.config.data(), static_cast<int64_t>(s.config.size()), nullptr,
                      nullptr, &s.adapted, err),
       err);
  dllm_options* adapter = make_options("adapter", R"({"rank": 2})", err);
  NEED(dllm_model_add_adapter(s.adapted, "default", adapter, nullptr, err), err);
  dllm_options_release(adapter);
  s.task = dllm_task_new();
}

void close_shared(Shared& s) {
  dllm_task_release(s.task);
  dllm_dataset_release(s.texts);
  dllm_model_release(s.adapted);
  dllm_checkpoint_release(s.checkpoint);
  dllm_objective_release(s.objective);
  dllm_options_release(s.options);
  dllm_schedule_release(s.schedule);
  dllm_tensor_release(s.tensor);
  dllm_batch_release(s.batch);
  dllm_source_release(s.source);
  dllm_generator_release(s.generator);
  dllm_queue_release(s.queue);
  dllm_decoder_release(s.decoder);
  dllm_loader_release(s.loader);
  dllm_trainer_release(s.trainer);
  close_world(&s.w);
  fs::remove_all(s.folder);
}

// Steps until the callers are done; returns how many.
int64_t train(Shared& s, const std::atomic<int>& callers) {
  dllm_error* err = dllm_error_new();
  int64_t steps = 0;
  while (callers.load() > 0) {
    NEED(dllm_trainer_run(s.trainer, s.loader, 4, nullptr, nullptr, s.task, err), err);
    ++steps;
  }
  dllm_error_release(err);
  return steps;
}

int64_t decode(Shared& s, const std::atomic<int>& callers) {
  dllm_error* err = dllm_error_new();
  int64_t requests = 0, active = 0;
  const std::array<int32_t, 3> prompt = {5, 6, 7};
  while (callers.load() > 0) {
    NEED(dllm_decoder_start(s.decoder, prompt.data(), 3, requests++, err), err);
    do {
      if (requests % 2 == 0) NEED(dllmx_decoder_predict(s.decoder, nullptr, err), err);
      NEED(dllm_decoder_step(s.decoder, nullptr, &active, err), err);
    } while (active > 0);
  }
  dllm_error_release(err);
  return requests;
}

// The caller's own part of the functions first, so that no two threads walk in step.
void call_all(Caller& caller, const std::vector<std::string>& names, size_t first) {
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < names.size(); ++i) caller.calls.at(names[(first + i) % names.size()])();
  }
}

} // namespace

int main() {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  ::setenv("HF_HUB_CACHE", "/nowhere/hub", 1);
  Shared s;
  open_shared(s);
  const std::vector<std::string> names = functions_for_any_thread();
  CHECK(names.size() > 90);
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 2; ++i) callers.push_back(std::make_unique<Caller>(s, i));
  for (const std::string& name : names) {
    if (callers[0]->calls.count(name) != 0) continue;
    std::printf("# %s has Threads any in its header, and this test has no call for it\n",
                name.c_str());
    CHECK(!"every function with the word any is called");
  }
  for (const auto& [name, call] : callers[0]->calls) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::printf("# %s has no Threads any in its header\n", name.c_str());
    CHECK(!"every call of this test is of a function with the word any");
  }
  if (failures == 0) {
    std::atomic<int> running{static_cast<int>(callers.size())};
    int64_t steps = 0, requests = 0;
    std::vector<std::thread> threads;
    threads.emplace_back([&] { steps = train(s, running); });
    threads.emplace_back([&] { requests = decode(s, running); });
    for (size_t i = 0; i < callers.size(); ++i) {
      threads.emplace_back([&, i] {
        call_all(*callers[i], names, i * names.size() / callers.size());
        --running;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(steps > 0 && requests > 0);
    std::printf("# %zu functions, %lld runs of 4 steps, %lld requests\n", names.size(),
                static_cast<long long>(steps), static_cast<long long>(requests));
    for (const auto& caller : callers) {
      if (!caller->failed.empty()) std::printf("# %s\n", caller->failed.c_str());
      CHECK(caller->failed.empty());
    }
  }
  callers.clear();
  close_shared(s);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
