#pragma once
// The folder a model is saved in: what a save writes there, and how a new one takes its place. Only what a save wrote
// is ever removed.

#include "base/output_file.h"

#include <memory>
#include <string>

namespace dllm::model {

inline constexpr const char* kConfigFile = "config.json";
// Files of a model folder that are not read here but written back.
inline constexpr const char* kSideFiles[] = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "generation_config.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "chat_template.jinja"};

// A folder that is filled next to its place. It is `folder`.partial until move_into_place(); what is not moved is
// removed. config.json is its last file: until then it holds the mark config.json.partial, by which the next save
// finds what a killed one left. Of two saves to one place, in any two processes, the second waits.
class FolderSave {
public:
  // already_exists when something is at `folder` and overwrite is off, or when it or `folder`.partial holds a file
  // that no save wrote; names the file.
  FolderSave(std::string folder, bool overwrite, const Task* task = nullptr);
  ~FolderSave();
  FolderSave(const FolderSave&) = delete;
  FolderSave& operator=(const FolderSave&) = delete;

  const std::string& partial() const { return partial_; }
  // Durable; what was there is removed only when the new folder stands.
  void move_into_place(const std::string& config_text);

private:
  void lock_partial(const Task* task);
  void lock_replaced(const Task* task);

  std::string folder_, partial_;
  std::unique_ptr<FolderLock> lock_;     // of `partial`; held until the folder is in its place
  std::unique_ptr<FolderLock> replaced_; // of the folder that was there before
  bool moved_ = false;
};

} // namespace dllm::model
