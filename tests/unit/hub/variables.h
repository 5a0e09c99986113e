#pragma once
// The variables of the hub, for tests.

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace dllm::test {

// Sets the variables of the hub, and restores them all.
class Variables {
public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const char* name :
         {"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME",
          "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_HUB_OFFLINE",
          "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HOME"}) {
      const char* before = std::getenv(name);
      if (before != nullptr) before_[name] = before;
      ::unsetenv(name);
      names_.emplace_back(name);
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> before_;
};

} // namespace dllm::test
