#include "fixtures.h"

#include "dllm/dllm.h"

#include <cstdlib>
#include <cstring>

namespace sweep {
namespace {

// Texts that make a call go as far as possible: function.parameter, or the parameter alone.
const char* text_for(const std::string& function, const std::string& param) {
  static const std::map<std::string, const char*> texts = {
      {"dllm_options_new.kind", "engine"},
      {"dllm_options_schema.kind", "engine"},
      {"dllm_options_set_i64.key", "threads"},
      {"dllm_options_set_f64.key", "threads"},
      {"dllm_options_set_str.key", "kind"},
      {"dllm_options_set_str.value", "cpu"},
      {"dllm_registry_name.kind", "policy"},
      {"dllm_has_feature.name", "lua"},
      {"dllm_engine_set_i64.key", "threads"},
      {"dllm_engine_i64.key", "threads"},
      {"dllm_model_i64.key", "vocab"},
      {"dllm_model_param.name", "model.norm.weight"},
      {"dllm_model_set_param.name", "model.norm.weight"},
      {"dllm_model_add_adapter.name", "new"},
      {"dllm_tokenizer_id.name", "a"},
      {"dllm_schedule_new.name", "linear"},
      {"dllm_objective_new.name", "mdlm"},
      {"dllm_trainer_metric.key", "step"},
      {"dllm_trainer_set_f64.key", "lr"},
      {"dllm_trainer_add_sink.kind", "jsonl"},
      {"dllm_trainer_model.role", "live"},
      {"dllm_decoder_metric.key", "steps"},
      {"dllm_lua_set_object.kind", "tensor"},
      {"dllm_checkpoint_tensor.name", "model.norm.weight"},
      {"dllm_source_add.name", "a.json"},
      {"function", "print"},
      {"path", "made"},
      {"root", "made"},
      {"dir", "made"},
      {"target", "made.jsonl"},
      {"name", "ids"},
      {"key", "step"}};
  const auto exact = texts.find(function + "." + param);
  if (exact != texts.end()) return exact->second;
  const auto plain = texts.find(param);
  return plain == texts.end() ? "text" : plain->second;
}

const char* content_for(const std::string& param) {
  if (param == "config_json") return kConfig;
  if (param == "args_json") return "[]";
  if (param == "code") return "return 1";
  return "{}";
}

// Arrays of four that fit together: a canvas, what is fixed, times, kept shares.
void* array_for(const Param& param) {
  static int32_t ids[4] = {1, 2, 3, 4};
  static uint8_t fixed[4] = {1, 1, 0, 0};
  static int64_t dims[1] = {4}, positions[4] = {0, 1, 2, 3};
  static double times[4] = {0, 0.25, 0.5, 1};
  static double kept[4] = {1, 0.75, 0.5, 0};
  if (param.elem == "i32") return ids;
  if (param.elem == "u8") return fixed;
  if (param.elem == "i64") return param.name == "dims" ? dims : positions;
  return param.name == "t" ? times : kept;
}

int32_t keep_going(const dllm_event*, void*) {
  return DLLM_CONTINUE;
}

void* allocate(int64_t size, int64_t alignment, void*) {
  return std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
}
void give_back(void* memory, int64_t, void*) {
  std::free(memory);
}
void in_order(int64_t count, dllm_chunk_fn chunk, void* job, void*) {
  for (int64_t i = 0; i < count; ++i) chunk(job, i);
}
void no_line(int32_t, const char*, void*) {}

void* hook_of(const std::string& name) {
  if (name == "allocate") return reinterpret_cast<void*>(&allocate);
  if (name == "free") return reinterpret_cast<void*>(&give_back);
  if (name == "parallel") return reinterpret_cast<void*>(&in_order);
  return reinterpret_cast<void*>(&no_line);
}

} // namespace

Value Fixtures::number(const Function& function, const Param& param) const {
  Value value{};
  if (param.kind == "f64") {
    value.f64 = 0.5;
  } else if (param.kind == "length") {
    value.i64 = 4;
    for (const Param& other : function.params) {
      if (other.length != param.name) continue;
      if (other.kind == "bytes")
        value.i64 = static_cast<int64_t>(std::strlen(content_for(other.name)));
      if (other.name == "dims") value.i64 = 1;
      if (other.elem == "byte") value.i64 = 32; // the tensor's 8 elements of 4 bytes
    }
  } else {
    value.i64 = !param.values.empty() ? param.values.front() : param.min.value_or(0);
  }
  return value;
}

Value Fixtures::argument(const Function& function, size_t index) {
  const Param& param = function.params[index];
  Value value{};
  if (param.kind == "handle") {
    std::string variant = param.options;
    if (function.name == "dllm_tokenizer_train" && param.handle == "dataset") variant = "raw";
    value.pointer = object(param.handle, variant);
  } else if (param.kind == "out_handle" || param.kind == "out_number") {
    value.pointer = &cells_[index];
  } else if (param.kind == "str") {
    value.pointer = const_cast<char*>(text_for(function.name, param.name));
  } else if (param.kind == "bytes") {
    value.pointer = const_cast<char*>(content_for(param.name));
  } else if (param.kind == "array") {
    value.pointer = array_for(param);
  } else if (param.kind == "shaped" || param.kind == "dst") {
    static char room[4096];
    std::memset(room, 0, sizeof room);
    value.pointer = room;
  } else if (param.kind == "callback") {
    value.pointer = reinterpret_cast<void*>(&keep_going);
  } else if (param.kind == "hook") {
    value.pointer = hook_of(param.elem);
  } else if (param.kind == "pointer") {
    value.pointer = object("tensor");
  } else if (param.kind != "user_data") {
    value = number(function, param);
  }
  return value;
}

std::vector<Value> Fixtures::arguments(const Function& function) {
  cells_.assign(function.params.size(), kUntouched);
  std::vector<Value> values;
  for (size_t i = 0; i < function.params.size(); ++i) values.push_back(argument(function, i));
  return values;
}

} // namespace sweep
