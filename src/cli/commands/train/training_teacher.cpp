// This file gives a run its teacher: the model without its adapters, or the model or the anchors of
// --teacher.

#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kTeacher = "teacher"; // the part, and the option of objectives
constexpr const char* kMergeFirst =
    "a teacher is a whole model: dllm export RUN OUT --merge, then --teacher OUT";

// Returns true for a folder that dllm anchors or castlehill wrote, or began.
bool is_anchors(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "/anchors.settings.json", ignored) ||
         (fs::exists(path + "/manifest.json", ignored) &&
          !fs::exists(path + "/config.json", ignored));
}

bool is_model(const Context& context) {
  return context.has(kTeacher) && context.text(kTeacher) != "base" &&
         context.text(kTeacher) != "rows" && anchors_of(context).empty();
}

// Fails when the anchors are of a teacher of another size.
void check_anchors(const Context& context, const dllm_model* model) {
  const std::string path = anchors_of(context) + "/manifest.json";
  const Json manifest = Json::parse(read_all(path), nullptr, false);
  for (const auto& [key, own] :
       {std::pair{"num_hidden_layers", "layers"}, {"hidden_size", "hidden"}}) {
    const int64_t here = model_number(model, own);
    const Json there = manifest.is_object() ? manifest.value(key, Json()) : Json();
    if (there == here) continue;
    throw Failure(DLLM_FAILED_PRECONDITION,
                  path + " has " + key + " " + there.dump() + ", and the model has " +
                      std::to_string(here),
                  "choose anchors of a teacher with the layers and the width of the model");
  }
}

Owned<dllm_model> open_teacher(const Context& context, dllm_engine* engine) {
  const auto options = make<dllm_options>(
      [](dllm_options** made, dllm_error* err) { return dllm_options_new("model", made, err); });
  const std::string& dtype = context.text("teacher-dtype");
  call([&](dllm_error* err) {
    return dllm_options_set_str(options.get(), "dtype", dtype.c_str(), err);
  });
  try {
    return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
      return dllm_model_load(engine, context.text(kTeacher).c_str(), options.get(), context.task(),
                             out, err);
    });
  } catch (const Failure& failure) {
    const bool is_adapter = failure.hint().find("--model.adapter") != std::string::npos ||
                            failure.hint().find("option adapter") != std::string::npos;
    throw Failure(failure.status(), "--teacher: " + std::string(failure.what()),
                  is_adapter ? kMergeFirst : failure.hint());
  }
}

// Fails when the teacher has other tokens than the run, and so would read other texts.
void check_tokens(const Context& context, const dllm_tokenizer* tokenizer) {
  dllm_tokenizer* found = nullptr;
  if (dllm_tokenizer_load_task(context.text(kTeacher).c_str(), nullptr, context.task(), &found,
                               nullptr) != DLLM_OK)
    return; // a folder without a tokenizer
  const Owned<dllm_tokenizer> own(found);
  const std::optional<OtherToken> other = first_other_token(own.get(), tokenizer);
  if (!other) return;
  throw Failure(DLLM_FAILED_PRECONDITION,
                "--teacher " + context.text(kTeacher) + " has other tokens than the run: token " +
                    std::to_string(other->id) + " is \"" + other->before + "\" there and \"" +
                    other->now + "\" here",
                "choose a teacher with the tokenizer of the run, or --tokenizer " +
                    context.text(kTeacher) + " for a new model");
}

// Returns true when the model has the part already: the model of a checkpoint has it.
bool has_teacher(const dllm_model* model) {
  const Json described = Json::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(model, out, err); }));
  const Json parts = described.value("parts", Json::array());
  return std::ranges::find(parts, Json(kTeacher)) != parts.end();
}

} // namespace

std::string anchors_of(const Context& context) {
  const bool is_given = context.has(kTeacher) && is_anchors(context.text(kTeacher));
  return is_given ? full_path(context.text(kTeacher)) : "";
}

void set_teacher(Context& context) {
  refuse_typed(context, "objective", kTeacher, "the teacher is --teacher");
  if (context.typed("teacher-dtype") && !is_model(context))
    throw UsageFailure("--teacher-dtype is of the model that --teacher names");
  if (!context.has(kTeacher)) return;
  const std::string anchors = anchors_of(context);
  const std::string kind = is_model(context) ? "model"
                           : anchors.empty() ? context.text(kTeacher)
                                             : "rows";
  if (!anchors.empty()) {
    if (context.typed("loader", "arrays") &&
        context.option("loader", "arrays") != Json(anchors).dump())
      throw UsageFailure("--loader.arrays: --teacher sets the arrays");
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("loader"), "arrays", anchors.c_str(), err);
    });
  }
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("objective"), kTeacher, kind.c_str(), err);
  });
}

void check_teacher(const Context& context) {
  if (!is_model(context) || context.has("from") || context.has("tokenizer")) return;
  throw UsageFailure("--teacher: a new model needs the tokenizer of its teacher",
                     "add --tokenizer " + context.text(kTeacher) + ", or start --from a model");
}

void add_teacher(const Context& context, const Run& run) {
  if (!anchors_of(context).empty()) check_anchors(context, run.model.get());
  if (!is_model(context) || has_teacher(run.model.get())) return;
  check_tokens(context, run.tokenizer.get());
  const Owned<dllm_model> teacher = open_teacher(context, run.engine.get());
  try {
    call([&](dllm_error* err) {
      return dllm_model_add_network(run.model.get(), teacher.get(), kTeacher, err);
    });
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_FAILED_PRECONDITION) throw;
    throw Failure(failure.status(), "--teacher: " + context.text(kTeacher) + " has an adapter",
                  kMergeFirst);
  }
}

} // namespace dllm::cli
