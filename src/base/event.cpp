#include "base/event.h"

#include <nlohmann/json.hpp>

namespace dllm {
namespace {

const char* kind_name(EventKind kind) {
  switch (kind) {
    case EventKind::progress: return "progress";
    case EventKind::train_step: return "train_step";
    case EventKind::eval: return "eval";
    case EventKind::decode_step: return "decode_step";
    case EventKind::block: return "block";
    case EventKind::checkpoint: return "checkpoint";
  }
  return "unknown";
}

}  // namespace

const Event::Value* Event::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string> Event::keys() const {
  std::vector<std::string> list;
  for (const auto& entry : values_) list.push_back(entry.first);
  return list;
}

Json Event::to_json() const {
  Json json = {{"event", kind_name(kind_)}};
  for (const auto& [key, value] : values_) {
    std::visit([&, &name = key](const auto& v) { json[name] = v; }, value);
  }
  return json;
}

}  // namespace dllm
