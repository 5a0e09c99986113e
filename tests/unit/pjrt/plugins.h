#pragma once
// The plugins that tests run on when they are there: the oldest and the newest for CPUs.

#include "pjrt/plugin/client.h"
#include "unit/test_files.h"

#include <memory>
#include <string>

namespace dllm::pjrt {

inline const char* const kPlugins[] = {"xla_cpu_pjrt.so", "pjrt_c_api_cpu_plugin.so"};

inline std::string plugin_path(const std::string& file) {
  return test::asset_path("plugins/" + file);
}

// One test for every plugin.
class OnPlugins : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (!file_exists(path())) GTEST_SKIP() << path() << " is not there";
  }
  static std::string path() { return plugin_path(GetParam()); }
  static std::shared_ptr<const Client> client(int64_t devices = 1) {
    return Client::create(Plugin::load(path()), {{"cpu_device_count", devices}});
  }
};

inline std::string plugin_test_name(const ::testing::TestParamInfo<const char*>& info) {
  return std::string(info.param).starts_with("xla") ? "oldest" : "newest";
}

#define DLLM_ON_PLUGINS(suite)                                                                     \
  INSTANTIATE_TEST_SUITE_P(Cpu, suite, ::testing::ValuesIn(kPlugins), plugin_test_name)

} // namespace dllm::pjrt
