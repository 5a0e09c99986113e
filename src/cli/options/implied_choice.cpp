#include "implied_choice.h"

#include "../command.h"
#include "../objective_facts.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_in(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

} // namespace

std::string policy_for_model(const std::string& model) {
  std::error_code ignored;
  if (!std::filesystem::exists(model, ignored)) return "";
  dllm_checkpoint* made = nullptr;
  if (dllm_checkpoint_open(model.c_str(), &made, nullptr) != DLLM_OK) return "";
  const Owned<dllm_checkpoint> files(made);
  const Json about = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                       return dllm_checkpoint_describe(made, out, err);
                     })).value("model", Json());
  constexpr const char* kOrdered = "autoregressive";
  const std::string objective = text_in(about, "objective"), policy = facts_of(objective).policy;
  if (!policy.empty() && policy != kOrdered) return policy;
  const bool is_ordered = objective.empty() || policy == kOrdered;
  return is_ordered && text_in(about, "attention") == "causal" ? kOrdered : "";
}

std::string objective_of_run(const std::string& out) {
  std::ifstream file(out + "/run.json", std::ios::binary);
  return text_in(Json::parse(file, nullptr, false), "objective");
}

} // namespace dllm::cli
