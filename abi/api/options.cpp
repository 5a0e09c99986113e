#include "handles.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

Options dllm::abi::options_of(const dllm_options* opts, std::string_view kind) {
  const dllm_options* given = optional(opts, "opts");
  if (given == nullptr) return Options(schema_of(kind));
  const std::string& own = given->object.schema().kind();
  const std::string_view own_base = std::string_view(own).substr(0, own.find(':'));
  const std::string_view wanted_base = kind.substr(0, kind.find(':'));
  const bool fits =
      own == kind || (own_base == wanted_base && (own == own_base || kind == wanted_base));
  if (!fits) {
    fail_with_hint(fmt::format("make them with dllm_options_new(\"{}\")", kind),
                   Code::invalid_argument, "opts are of kind {}, this call takes {}", own, kind);
  }
  return given->object;
}

dllm_status dllm_options_new(const char* kind, dllm_options** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_options(schema_of(need_text(kind, "kind")));
  });
}

void dllm_options_release(dllm_options* opts) {
  release(opts);
}

dllm_status dllm_options_set_i64(dllm_options* opts, const char* key, int64_t value,
                                 dllm_error* err) {
  return guard(err, [&] { need(opts, "opts").object.set_i64(need_text(key, "key"), value); });
}

dllm_status dllm_options_set_f64(dllm_options* opts, const char* key, double value,
                                 dllm_error* err) {
  return guard(err, [&] { need(opts, "opts").object.set_f64(need_text(key, "key"), value); });
}

dllm_status dllm_options_set_str(dllm_options* opts, const char* key, const char* value,
                                 dllm_error* err) {
  return guard(err, [&] {
    need(opts, "opts").object.set_str(need_text(key, "key"), need_text(value, "value"));
  });
}

dllm_status dllm_options_set_json(dllm_options* opts, const char* json, int64_t size,
                                  dllm_error* err) {
  return guard(err, [&] {
    Options& object = need(opts, "opts").object;
    try {
      object.set_json(parse_json(need_content(json, size, "json"), "json"));
    } catch (const Error& e) {
      if (e.code() != Code::data_loss) throw;
      fail(Code::invalid_argument, "{}", e.text());
    }
  });
}

dllm_status dllm_options_to_json(const dllm_options* opts, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(opts, "opts").object.to_json()); });
}

dllm_status dllm_options_schema(const char* kind, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, schema_of(need_text(kind, "kind")).to_json()); });
}
