// An adapter's folder out of any bytes: opened, and asked for modules, or an Error. The text before
// the first byte 0 is adapter_config.json, what follows is adapter_model.safetensors; without a
// byte 0 the config is read alone.

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "model/adapters/adapter_file.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using namespace dllm;

const std::string& folder() {
  static const std::string* const made = [] {
    std::string pattern =
        (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/dllm_fuzz_XXXXXX");
    auto* const path = new std::string(::mkdtemp(pattern.data()));
    std::atexit([] { remove_all(folder()); });
    return path;
  }();
  return *made;
}

void write(const char* name, const std::string& content) {
  std::ofstream(join_path(folder(), name), std::ios::binary) << content;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  try {
    if (end == std::string::npos) {
      const model::AdapterConfig config(parse_json(text, "adapter_config.json"),
                                        "adapter_config.json");
      for (const char* module :
           {"model.layers.0.self_attn.q_proj", "model.layers.11.mlp.down_proj", "lm_head", ""})
        config.targets().has(module);
      const auto forms = config.kind().forms(config.settings(), "adapter_config.json");
      const model::AdapterForm form = forms->form({"model.layers.0.self_attn.q_proj", "q"});
      if (form.rank < 0 || !(form.factor >= 0)) std::abort();
      return 0;
    }
    write("adapter_config.json", text.substr(0, end));
    write("adapter_model.safetensors", text.substr(end + 1));
    const model::AdapterFile file(folder());
    if (file.bytes() < 0) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
