#pragma once
// --config FILE: options as JSON. A member is a kind with its keys ({"trainer": {"lr": 1e-3}}), or any option of the
// command by the name that it has on the command line ({"steps": 100, "model": "runs/first"}).

#include "option_list.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace dllm::cli {

class ConfigFile {
 public:
  // "": no file. Throws UsageFailure with line and column for what is no JSON.
  explicit ConfigFile(const std::string& path);

  const std::string& path() const { return path_; }
  // The text of key `key` of a kind, or of the top-level member of that name; "" without it.
  std::string text(const std::string& kind, const std::string& key) const;
  // In the order of the file. An argument of the command's own has an empty kind and its name as key.
  std::vector<Setting> settings(const OptionList& list, const std::map<std::string, std::string>& kinds) const;

 private:
  std::string path_;
  nlohmann::ordered_json root_;
};

}  // namespace dllm::cli
