#include "model/adapters/adapter_save.h"

#include "base/files.h"
#include "ckpt/safetensors_writer.h"
#include "model/adapters/adapter_config.h"

#include <nlohmann/json.hpp>

#include <cctype>
#include <set>
#include <string>

namespace dllm::model {
namespace {

// Returns the end of a module's name after the number of its layer, by which PEFT finds the module
// in every layer: "model.layers.3.self_attn.q_proj.lora_A.weight" -> "self_attn.q_proj".
std::string module_end(const std::string& tensor) {
  std::string module = tensor.substr(0, tensor.rfind(".lora_"));
  for (size_t at = module.find('.'); at != std::string::npos; at = module.find('.', at + 1)) {
    size_t end = at + 1;
    while (end < module.size() && std::isdigit(static_cast<unsigned char>(module[end])) != 0) ++end;
    if (end > at + 1 && end < module.size() && module[end] == '.') return module.substr(end + 1);
  }
  return module;
}

Json config_of(const ModelSnapshot& snapshot, const std::string& base) {
  std::set<std::string> modules;
  for (const std::string& name : snapshot.names()) modules.insert(module_end(name));
  const AdapterSettings& settings = snapshot.part().settings;
  return {{"peft_type", "LORA"},
          {"task_type", nullptr},
          {"base_model_name_or_path", base.empty() ? Json(nullptr) : Json(base)},
          {"inference_mode", true},
          {"r", settings.rank},
          {"lora_alpha", settings.alpha},
          {"lora_dropout", 0.0},
          {"use_rslora", false},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"target_modules", modules}};
}

} // namespace

std::vector<std::string> write_adapter_files(ModelSnapshot& snapshot, const std::string& folder,
                                             const std::string& base, Task* task) {
  std::vector<ckpt::TensorSpec> specs;
  for (const std::string& name : snapshot.names())
    specs.push_back({std::string(kAdapterPrefix) + name, DType::f32, snapshot.shape(name),
                     snapshot.writer(name)});
  ckpt::WeightWriter writer(folder, "adapter_model", specs, 0, {{"format", "pt"}},
                            snapshot.process());
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(task);
    const std::string name = spec.name.substr(kAdapterPrefix.size());
    writer.write(spec.name, snapshot.take(name, task).to(DType::f32, task), task);
  }
  writer.close();
  std::vector<std::string> names = writer.files();
  if (snapshot.process() > 0) return names;
  write_file_atomic(join_path(folder, "adapter_config.json"),
                    config_of(snapshot, base).dump(2) + "\n");
  names.emplace_back("adapter_config.json");
  return names;
}

} // namespace dllm::model
