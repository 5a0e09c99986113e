// This file gives a run its teacher: the model without its adapters, or the model of --teacher.

#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTeacher = "teacher"; // the part, and the option of objectives

bool is_model(const Context& context) {
  return context.has(kTeacher) && context.text(kTeacher) != "base" &&
         context.text(kTeacher) != "rows";
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
    throw Failure(failure.status(), "--teacher: " + std::string(failure.what()), failure.hint());
  }
}

// Returns true when the model has the part already, as that of a checkpoint has.
bool has_teacher(const dllm_model* model) {
  const Json described = Json::parse(text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_model_describe(model, out, err); }));
  const Json parts = described.value("parts", Json::array());
  return std::ranges::find(parts, Json(kTeacher)) != parts.end();
}

} // namespace

void set_teacher(Context& context) {
  refuse_typed(context, "objective", kTeacher, "the teacher is --teacher");
  if (context.typed("teacher-dtype") && !is_model(context))
    throw UsageFailure("--teacher-dtype is of the model that --teacher names");
  if (!context.has(kTeacher)) return;
  const std::string kind = is_model(context) ? "model" : context.text(kTeacher);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("objective"), kTeacher, kind.c_str(), err);
  });
}

void add_teacher(const Context& context, const Run& run) {
  if (!is_model(context) || has_teacher(run.model.get())) return;
  const Owned<dllm_model> teacher = open_teacher(context, run.engine.get());
  call([&](dllm_error* err) {
    return dllm_model_add_network(run.model.get(), teacher.get(), kTeacher, err);
  });
}

} // namespace dllm::cli
