#include "decode/adapters/adapter_table.h"

#include "base/error.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"

#include <algorithm>

namespace dllm::decode {

AdapterTable::AdapterTable(std::shared_ptr<model::Model> model, const Options& options)
    : model_(std::move(model)), budget_(options.i64("adapter_bytes")), own_(model_->reading()) {
  for (const std::string& word : options.list("adapter_folders")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      fail_with_hint("write NAME=FOLDER, as math=adapters/math", Code::invalid_argument,
                     "adapter_folders: '{}' is not NAME=FOLDER", word.substr(0, 200));
    }
    const std::string name = word.substr(0, equals);
    model::check_adapter_name(name);
    if (own_.has(model::adapter_part(name)) || entries_.contains(name)) {
      fail_with_hint("choose another name for the folder", Code::already_exists,
                     "adapter_folders: there are two adapters named {}", name);
    }
    entries_[name].folder = word.substr(equals + 1);
  }
}

bool AdapterTable::needs_load(const std::vector<model::AdapterUse>& choices) const {
  return std::ranges::any_of(choices, [&](const model::AdapterUse& choice) {
    const auto found = entries_.find(choice.name);
    return found != entries_.end() && found->second.bytes == 0;
  });
}

void AdapterTable::load(const std::vector<model::AdapterUse>& choices,
                        const std::set<std::string>& in_use) {
  std::set<std::string> needed = in_use;
  for (const model::AdapterUse& choice : choices) needed.insert(choice.name);
  for (const model::AdapterUse& choice : choices) {
    const auto found = entries_.find(choice.name);
    if (found == entries_.end()) continue; // an adapter of the model
    if (found->second.bytes == 0) load_one(choice.name, found->second, needed);
    found->second.last_use = ++clock_;
  }
}

void AdapterTable::load_one(const std::string& name, Entry& entry,
                            const std::set<std::string>& needed) {
  if (!entry.was_loaded) model::warn_of_other_use(*model_, entry.folder);
  entry.was_loaded = true;
  const model::AdapterFile file(entry.folder);
  make_room(name, file.loaded_bytes(), needed);
  file.add_to(*model_, name, nullptr, {});
  entry.bytes = std::max<int64_t>(1, file.loaded_bytes());
}

void AdapterTable::make_room(const std::string& name, int64_t bytes,
                             const std::set<std::string>& needed) {
  while (budget_ > 0 && loaded_bytes() + bytes > budget_) {
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->second.bytes == 0 || needed.contains(at->first)) continue;
      if (oldest == entries_.end() || at->second.last_use < oldest->second.last_use) oldest = at;
    }
    if (oldest == entries_.end()) {
      fail_with_hint("remove finished requests, or raise adapter_bytes", Code::resource_exhausted,
                     "adapter {} needs {} bytes, adapter_bytes is {}, and requests use {} of them",
                     name, bytes, budget_, loaded_bytes());
    }
    model::remove_adapter(*model_, oldest->first);
    oldest->second.bytes = 0;
  }
}

int64_t AdapterTable::loaded_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.bytes;
  return bytes;
}

} // namespace dllm::decode
