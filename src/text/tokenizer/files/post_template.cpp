#include "text/tokenizer/files/post_template.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

TreeJson template_around(const std::string& bos, const std::string& eos) {
  const auto special = [](const std::string& token) {
    return TreeJson{{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  };
  std::vector<TreeJson> single;
  if (!bos.empty()) single.push_back(special(bos));
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (!eos.empty()) single.push_back(special(eos));
  if (single.size() == 1) return TreeJson();
  return {{"type", "TemplateProcessing"}, {"single", single}};
}

namespace {

// Returns true when a post-processor decides which tokens are added, which may be none.
bool places_tokens(const TreeJson& post_processor) {
  const TreeJson* type = find_member(post_processor, "type");
  if (type == nullptr || !type->is_string()) return false;
  const std::string_view name = type->get_ref<const std::string&>();
  if (name != "Sequence") return name != "ByteLevel"; // that one moves offsets alone
  const TreeJson* parts = find_member(post_processor, "processors");
  return parts != nullptr && parts->is_array() &&
         std::any_of(parts->begin(), parts->end(), places_tokens);
}

} // namespace

std::string config_token(const TreeJson* value) {
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  const TreeJson* content = find_member(*value, "content");
  return content != nullptr && content->is_string() ? content->get<std::string>() : "";
}

void read_template_flags(const TreeJson& config, const std::string& where, TokenizerParts& parts) {
  if (places_tokens(parts.post_processor)) return;
  const auto token = [&](const char* flag, const char* key) -> std::string {
    if (!bool_member(config, flag, where, false)) return "";
    std::string text = config_token(find_member(config, key));
    const bool is_added =
        std::any_of(parts.added.begin(), parts.added.end(),
                    [&](const AddedToken& added) { return added.content == text; });
    return is_added || parts.vocabulary->find(text) >= 0 ? text : "";
  };
  const TreeJson made =
      template_around(token("add_bos_token", "bos_token"), token("add_eos_token", "eos_token"));
  if (!made.is_null()) parts.post_processor = made;
}

} // namespace dllm::text
