#include "dllm/error.h"

#include "guard.h"

using namespace dllm::abi;

namespace dllm::abi {

dllm_status put(dllm_error* err, Code code, const char* message, const char* hint) noexcept {
  const auto status = static_cast<dllm_status>(code);
  const Held held(err);
  if (!held) return status;
  err->code = status;
  try {
    err->message = message;
    err->hint = hint;
    // A message may quote a file or a template. Spaces replace control characters, so it is one
    // line.
    for (char& c : err->message) {
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
  } catch (...) { // without memory for the message the error keeps only the code
    err->message.clear();
    err->hint.clear();
  }
  return status;
}

} // namespace dllm::abi

const char* dllm_status_name(dllm_status code) {
  const char* name = dllm::code_name(static_cast<dllm::Code>(code));
  const bool known = code == DLLM_UNKNOWN || std::string_view(name) != "unknown";
  return known ? name : "unknown_status";
}

dllm_error* dllm_error_new(void) {
  return guard_value<dllm_error*>(nullptr, [] { return new dllm_error; });
}

void dllm_error_release(dllm_error* err) {
  release(err);
}

dllm_status dllm_error_code(const dllm_error* err) {
  const Held held(err);
  return held ? held->code : DLLM_OK;
}

const char* dllm_error_message(const dllm_error* err) {
  const Held held(err);
  return held ? held->message.c_str() : "";
}

const char* dllm_error_hint(const dllm_error* err) {
  const Held held(err);
  return held ? held->hint.c_str() : "";
}
