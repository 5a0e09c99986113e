#include "base/error.h"
#include "model/families/family.h"

#include <algorithm>

namespace dllm::model {
namespace {

const Family* const kFamilies[] = {
    &kBert,       &kDiffusionGemma, &kDllmBert,     &kDllmMoe, &kDream,    &kGemma2,
    &kGemma3,     &kGpt2,           &kLlada,        &kLlada2,  &kLladaMoe, &kLlama,
    &kModernBert, &kNanoDlm,        &kNemotronLabs, &kQwen2,   &kQwen2Moe, &kQwen3,
    &kQwen35,     &kQwen3Moe,       &kQwen3Next,    &kWedlm};

} // namespace

std::span<const Family* const> all_families() {
  return kFamilies;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : kFamilies) names.emplace_back(family->name);
  return names;
}

const Family& find_family(const std::string& name) {
  for (const Family* family : kFamilies) {
    if (name == family->name) return *family;
  }
  fail(Code::internal, "there is no family named {}", name);
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

} // namespace dllm::model
