#pragma once
// The adapters that a decoder loads when a request names them. It holds at most a number of bytes:
// the adapter that was not used for the longest time goes first.

#include "base/options.h"
#include "base/task.h"
#include "model/adapters/adapter_list.h"
#include "model/model.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dllm::decode {

// One call at a time. No other owner changes the model.
class AdapterTable {
public:
  // options: of kind "decoder". Option adapter_folders lists NAME=FOLDER, adapter_bytes is the
  // budget. Fails with invalid_argument for another word, and with already_exists for a name that
  // the model has.
  AdapterTable(std::shared_ptr<model::Model> model, const Options& options);

  bool is_empty() const { return entries_.empty(); }
  // Returns the base and the adapters that the model had before.
  const model::PartList& own() const { return own_; }
  // Returns whether load() would change the model.
  bool needs_load(const std::vector<model::AdapterUse>& choices) const;
  // Loads the adapters among `choices` that the table lists. Removes others for them, but none of
  // `in_use`. Fails as model::load_adapter, and with resource_exhausted when the budget is too
  // small for these and those in use.
  void load(const std::vector<model::AdapterUse>& choices, const std::set<std::string>& in_use);

private:
  struct Entry {
    std::string folder;
    int64_t bytes = 0; // 0: it is not loaded
    bool was_loaded = false;
    uint64_t last_use = 0;
  };
  void load_one(const std::string& name, Entry& entry, const std::set<std::string>& needed);
  void make_room(const std::string& name, int64_t bytes, const std::set<std::string>& needed);
  int64_t loaded_bytes() const;

  std::shared_ptr<model::Model> model_;
  int64_t budget_; // 0: none
  model::PartList own_;
  std::map<std::string, Entry> entries_; // by name
  uint64_t clock_ = 0;
};

} // namespace dllm::decode
