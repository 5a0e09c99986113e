#include "base/error.h"
#include "base/named_table.h"
#include "model/families/family.h"

namespace dllm::model {

// One or several families per file of this folder.
extern const Family kBert, kDiffusionGemma, kDllmBert, kDllmMoe, kDream, kGemma2, kGemma3, kGpt2,
    kLlada, kLlada2, kLladaMoe, kLlama, kModernBert, kNanoDlm, kNemotronLabs, kQwen2, kQwen2Moe,
    kQwen3, kQwen35, kQwen3Moe, kQwen3Next, kTower, kWedlm;

namespace {

const Family* const kFamilies[] = {
    &kBert,       &kDiffusionGemma, &kDllmBert,     &kDllmMoe, &kDream,    &kGemma2,
    &kGemma3,     &kGpt2,           &kLlada,        &kLlada2,  &kLladaMoe, &kLlama,
    &kModernBert, &kNanoDlm,        &kNemotronLabs, &kQwen2,   &kQwen2Moe, &kQwen3,
    &kQwen35,     &kQwen3Moe,       &kQwen3Next,    &kTower,   &kWedlm};

} // namespace

std::span<const Family* const> all_families() {
  return kFamilies;
}

std::vector<std::string> family_names() {
  return names_of(kFamilies, &Family::name);
}

const Family& find_family(const std::string& name) {
  return *need_named(kFamilies, name, &Family::name, {.kind = "family", .code = Code::internal});
}

const Family& family_of_model_type(const std::string& type) {
  std::string known;
  for (const Family* family : kFamilies) {
    for (const char* name : family->model_types) {
      if (name == nullptr) break;
      if (type == name) return *family;
      known += known.empty() ? name : std::string(" ") + name;
    }
  }
  fail_with_hint("model_type may be one of: " + known, Code::unimplemented,
                 "family {} is not supported yet", type.substr(0, 60));
}

const char* transformers_class(const ModelConfig& config) {
  const Family& family = find_family(config.family);
  return config.model_type == family.model_types[0] ? family.transformers_class : nullptr;
}

} // namespace dllm::model
