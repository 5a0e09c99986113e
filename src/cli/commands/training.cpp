#include "training.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Owned<dllm_dataset> open_data(Context& context, const dllm_tokenizer* tokenizer) {
  return make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
    return dllm_dataset_open(context.text("data").c_str(), tokenizer, context.options("dataset"), context.task(), out, err);
  });
}

// A split needs several documents: one long text is cut at its blank lines, else at its line ends.
Owned<dllm_dataset> open_documents(Context& context, const dllm_tokenizer* tokenizer) {
  auto data = open_data(context, tokenizer);
  for (const char* rows : {"paragraph", "line"}) {
    if (dllm_dataset_size(data.get()) > 1) break;
    std::fprintf(stderr, "%s is one document: a %s is a document from here on (--dataset.rows)\n",
                 context.text("data").c_str(), rows);
    call([&](dllm_error* err) { return dllm_options_set_str(context.options("dataset"), "rows", rows, err); });
    data = open_data(context, tokenizer);
  }
  return data;
}

// The run's own tokenizer when it was started before, the one asked for, the model's, or one trained on the data.
Owned<dllm_tokenizer> choose_tokenizer(Context& context) {
  const std::string own = context.text("out") + "/tokenizer.json";
  if (fs::exists(own)) return open_tokenizer(own);
  if (context.has("tokenizer")) return open_tokenizer(context.text("tokenizer"));
  if (context.has("from")) return open_tokenizer(context.text("from"));
  std::fprintf(stderr, "training a tokenizer of %s tokens on %s\n", context.text("vocab").c_str(), context.text("data").c_str());
  const auto raw = open_data(context, nullptr);
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("tokenizer_train", out, err); });
  call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), "vocab_size", context.number("vocab"), err); });
  return make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_train(raw.get(), options.get(), context.task(), out, err);
  });
}

// A Llama shape: rotary positions, gated MLP of about 8/3 of the width, tied embeddings.
std::string config_from_scratch(const Context& context, const dllm_tokenizer* tokenizer) {
  const int64_t hidden = context.number("hidden");
  if (hidden < 64 || hidden % 64 != 0) {
    throw Failure(DLLM_INVALID_ARGUMENT, "--hidden " + std::to_string(hidden) + " is not a multiple of 64");
  }
  const int64_t heads = hidden / 64;
  Json config = {{"model_type", "llama"}, {"architectures", {"LlamaForCausalLM"}},
                 {"vocab_size", dllm_tokenizer_size(tokenizer)}, {"hidden_size", hidden},
                 {"intermediate_size", (hidden * 8 / 3 + 31) / 32 * 32}, {"num_hidden_layers", context.number("layers")},
                 {"num_attention_heads", heads}, {"num_key_value_heads", heads}, {"head_dim", 64},
                 {"hidden_act", "silu"}, {"max_position_embeddings", 1024}, {"rms_norm_eps", 1e-5},
                 {"rope_theta", 10000.0}, {"tie_word_embeddings", true},
                 // Products of unit variance; the usual 0.02 is meant for wider models.
                 {"initializer_range", 1.0 / std::sqrt(static_cast<double>(hidden))}};
  config["dllm"] = {{"attention", context.text("objective") == "ar" ? "causal" : "bidirectional"}, {"shift", context.text("objective") == "ar" ? 1 : 0}};
  int32_t mask_id = -1;
  if (dllm_tokenizer_id(tokenizer, "<|mask|>", &mask_id, nullptr) == DLLM_OK) config["dllm"]["mask_token_id"] = mask_id;
  return config.dump();
}

Owned<dllm_model> open_or_make_model(Context& context, const Run& run, const std::string& checkpoint) {
  if (!checkpoint.empty()) return open_model(context, run.engine.get(), checkpoint + "/model");
  if (context.has("from")) return open_model(context, run.engine.get(), context.text("from"));
  const std::string config = config_from_scratch(context, run.tokenizer.get());
  auto model = make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_new(run.engine.get(), config.data(), static_cast<int64_t>(config.size()), context.options("model"),
                          context.task(), out, err);
  });
  call([&](dllm_error* err) { return dllm_model_set_tokenizer(model.get(), run.tokenizer.get(), err); });
  return model;
}

std::string latest_checkpoint(const std::string& root) {
  const Owned<dllm_buffer> dir(dllm_buffer_new());
  if (dllm_checkpoint_latest(root.c_str(), dir.get(), nullptr) != DLLM_OK) return {};
  return static_cast<const char*>(dllm_buffer_data(dir.get()));
}

void open_loaders(Context& context, Run& run) {
  const auto open = [&](const char* split) {
    call([&](dllm_error* err) { return dllm_options_set_str(context.options("loader"), "split", split, err); });
    return make<dllm_loader>([&](dllm_loader** out, dllm_error* err) {
      return dllm_loader_new(run.data.get(), context.options("loader"), out, err);
    });
  };
  run.held_out = open("held_out");
  run.loader = open("train");
}

void open_objective(Context& context, Run& run) {
  if (context.has("schedule")) {
    run.schedule = make<dllm_schedule>([&](dllm_schedule** out, dllm_error* err) {
      return dllm_schedule_new(context.text("schedule").c_str(), context.options("schedule"), out, err);
    });
  }
  run.objective = make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new(context.text("objective").c_str(), run.schedule.get(), context.options("objective"), out, err);
  });
}

// A folder that a save wrote or began: step_000500, with the file by which it is known.
bool is_checkpoint(const fs::directory_entry& entry) {
  std::error_code ignored;
  const bool folder = entry.is_directory(ignored) && !entry.is_symlink(ignored);
  return folder && entry.path().filename().string().rfind("step_", 0) == 0 &&
         (fs::exists(entry.path() / "COMMIT", ignored) || fs::exists(entry.path() / "COMMIT.partial", ignored));
}

void remove_checkpoints(const std::string& root) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename();
    if (is_checkpoint(entry) || name == "tokenizer.json" || name == "metrics.jsonl") {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace

double trainer_metric(const Run& run, const char* key) {
  double value = 0;
  call([&](dllm_error* err) { return dllm_trainer_metric(run.trainer.get(), key, &value, err); });
  return value;
}

Run open_run(Context& context) {
  const std::string out = context.text("out");
  if (context.flag("fresh")) remove_checkpoints(out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw Failure(DLLM_PERMISSION_DENIED, "cannot create " + out + ": " + error.message());

  Run run;
  run.engine = open_engine(context);
  run.tokenizer = choose_tokenizer(context);
  call([&](dllm_error* err) { return dllm_tokenizer_save(run.tokenizer.get(), (out + "/tokenizer.json").c_str(), err); });
  run.data = open_documents(context, run.tokenizer.get());
  open_loaders(context, run);
  const std::string checkpoint = latest_checkpoint(out);
  run.model = open_or_make_model(context, run, checkpoint);
  open_objective(context, run);
  call([&](dllm_error* err) { return dllm_options_set_i64(context.options("trainer"), "steps", context.number("steps"), err); });
  // Held-out losses and checkpoints belong to the step that asks for them.
  const int64_t stops = std::gcd(context.number("eval-every"), context.number("save-every"));
  call([&](dllm_error* err) { return dllm_options_set_i64(context.options("trainer"), "sync_every", stops, err); });
  run.trainer = make<dllm_trainer>([&](dllm_trainer** made, dllm_error* err) {
    return dllm_trainer_new(run.model.get(), run.objective.get(), context.options("trainer"), made, err);
  });
  const auto add_sink = [&](const char* kind, const std::string& target) {
    call([&](dllm_error* err) { return dllm_trainer_add_sink(run.trainer.get(), kind, target.c_str(), nullptr, err); });
  };
  add_sink("jsonl", out + "/metrics.jsonl");
  if (!context.json()) add_sink("console", "");
  if (!checkpoint.empty()) {
    call([&](dllm_error* err) {
      return dllm_checkpoint_restore(run.trainer.get(), run.loader.get(), checkpoint.c_str(), context.task(), err);
    });
    std::fprintf(stderr, "resumed from %s\n", checkpoint.c_str());
  }
  return run;
}

std::string describe_run(const Run& run) {
  int64_t parameters = 0;
  for (int64_t i = 0; i < dllm_model_param_count(run.model.get()); ++i) {
    const auto tensor = make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
      return dllm_model_param(run.model.get(), dllm_model_param_name(run.model.get(), i), out, err);
    });
    int64_t count = 1;
    for (int64_t axis = 0; axis < dllm_tensor_rank(tensor.get()); ++axis) count *= dllm_tensor_dim(tensor.get(), axis);
    parameters += count;
  }
  int64_t threads = 0;
  dllm_engine_i64(run.engine.get(), "threads", &threads, nullptr);
  const char* device = dllm_engine_device_name(run.engine.get(), 0);
  const std::string where = threads > 0 ? std::to_string(threads) + " threads" : std::string("on ") + (device != nullptr ? device : "a device");
  char line[240];
  std::snprintf(line, sizeof line, "%.2f M parameters, vocabulary %lld, %lld documents or rows, %s",
                static_cast<double>(parameters) / 1e6, static_cast<long long>(dllm_tokenizer_size(run.tokenizer.get())),
                static_cast<long long>(dllm_dataset_size(run.data.get())), where.c_str());
  return line;
}

void print_held_out(Context& context, Run& run, int64_t step) {
  if (run.last_eval == step) return;
  run.last_eval = step;
  call([&](dllm_error* err) { return dllm_loader_seek(run.held_out.get(), 0, err); });
  double loss = 0;  // the console and the metrics file hear of it from the trainer
  call([&](dllm_error* err) {
    return dllm_trainer_eval(run.trainer.get(), run.held_out.get(), context.number("eval-batches"), context.task(), &loss, err);
  });
  if (context.json()) std::printf("{\"event\": \"eval\", \"step\": %lld, \"loss\": %.6f}\n", static_cast<long long>(step), loss);
}

std::string save(Context& context, Run& run) {
  try {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_checkpoint_save(run.trainer.get(), run.loader.get(), context.text("out").c_str(),
                                  context.options("checkpoint"), nullptr, out, err);
    });
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_ALREADY_EXISTS) throw;
    return latest_checkpoint(context.text("out"));
  }
}

}  // namespace dllm::cli
