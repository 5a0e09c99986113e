#pragma once
// The fake plugin (tests/fake_plugin) as tests use it.

#include "base/log.h"
#include "fake_plugin/control.h"
#include "pjrt/abi/table.h"
#include "unit/test_files.h"

#include <dlfcn.h>

#include <sstream>
#include <string>
#include <vector>

namespace dllm::pjrt {

// One plugin. own: a copy under a name of its own, so another plugin for its loader; needed
// where loading itself is looked at. Otherwise all tests of a program share one, whose state is
// reset.
class FakePlugin {
public:
  explicit FakePlugin(bool own = false) : path_(DLLM_FAKE_PLUGIN_PATH) {
    if (own) {
      const std::string copy = folder_.path("own.so");
      write_file_atomic(copy, read_text(path_));
      path_ = copy;
    }
    library_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto control = reinterpret_cast<const fake::Control* (*)()>(
        library_ == nullptr ? nullptr : ::dlsym(library_, "FakePluginControl"));
    if (control == nullptr) throw Error(Code::internal, "no fake plugin at " + path_);
    control_ = control();
    control_->reset();
  }
  ~FakePlugin() { control_->reset(); }

  const std::string& path() const { return path_; }
  const fake::Control* operator->() const { return control_; }
  const abi::Api* table() const {
    return reinterpret_cast<abi::GetPjrtApi>(::dlsym(library_, abi::kEntrySymbol))();
  }
  std::vector<std::string> calls() const {
    std::istringstream lines(control_->calls());
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) names.push_back(line);
    return names;
  }
  // Everything was destroyed, once, and no call was wrong.
  void expect_clean() const {
    EXPECT_STREQ(control_->live_list(), "");
    EXPECT_STREQ(control_->violations(), "");
    EXPECT_EQ(control_->bytes_in_use(), 0);
  }

private:
  test::TempFolder folder_;
  std::string path_;
  void* library_ = nullptr; // stays loaded, as plugins do
  const fake::Control* control_ = nullptr;
};

} // namespace dllm::pjrt
