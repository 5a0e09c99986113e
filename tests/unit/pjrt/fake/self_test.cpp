// The fake plugin itself: a test that uses it must not pass because the fake sees nothing.

#include "pjrt/plugin/plugin.h"
#include "unit/pjrt/fake/fake_plugin.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::pjrt {
namespace {

// Calls `slot` and forgets the error.
template <class Args>
bool fails(const FakePlugin& plugin, abi::Call<Args> abi::Api::*slot, Args& args) {
  abi::Error* error = (plugin.table()->*slot)(&args);
  if (error == nullptr) return false;
  auto destroy = sized<abi::ErrorDestroyArgs>();
  destroy.error = error;
  plugin.table()->error_destroy(&destroy);
  return true;
}

abi::Client* make_client(const FakePlugin& plugin) {
  auto args = sized<abi::ClientCreateArgs>();
  EXPECT_FALSE(fails(plugin, &abi::Api::client_create, args));
  return args.client;
}

void destroy_client(const FakePlugin& plugin, abi::Client* client) {
  auto args = sized<abi::ClientDestroyArgs>();
  args.client = client;
  fails(plugin, &abi::Api::client_destroy, args);
}

bool noted(const FakePlugin& plugin, const std::string& part) {
  return std::string(plugin->violations()).find(part) != std::string::npos;
}

TEST(FakePluginSelf, SeesWrongSizesAndHeads) {
  const FakePlugin plugin;
  auto args = sized<abi::PluginAttributesArgs>();
  args.head.struct_size = 40;
  fails(plugin, &abi::Api::plugin_attributes, args);
  EXPECT_TRUE(noted(plugin, "PJRT_Plugin_Attributes: struct_size is 40, expected 32"));
  args = sized<abi::PluginAttributesArgs>();
  abi::ExtensionBase extension{};
  args.head.extension_start = &extension;
  fails(plugin, &abi::Api::plugin_attributes, args);
  EXPECT_TRUE(noted(plugin, "PJRT_Plugin_Attributes: extension_start is not null"));
}

TEST(FakePluginSelf, SeesWhatLivesAndWhatDiesTwice) {
  const FakePlugin plugin;
  abi::Client* client = make_client(plugin);
  EXPECT_STREQ(plugin->live_list(), "1 client");
  destroy_client(plugin, client);
  EXPECT_STREQ(plugin->live_list(), "");
  EXPECT_STREQ(plugin->violations(), "");
  destroy_client(plugin, client);
  EXPECT_TRUE(noted(plugin, "PJRT_Client_Destroy: there is no such client"));
}

TEST(FakePluginSelf, FailsTheNthCallOnce) {
  const FakePlugin plugin;
  plugin->fail_at("PJRT_Plugin_Attributes", 2, 7, "not today");
  for (const bool expected : {false, true, false}) {
    auto args = sized<abi::PluginAttributesArgs>();
    EXPECT_EQ(fails(plugin, &abi::Api::plugin_attributes, args), expected);
  }
  EXPECT_EQ(plugin->count("PJRT_Plugin_Attributes"), 3);
  plugin->fail_at("*", 0, 7, "never again");
  auto args = sized<abi::ClientCreateArgs>();
  EXPECT_TRUE(fails(plugin, &abi::Api::client_create, args));
  EXPECT_STREQ(plugin->live_list(), "");
}

// A client that ends before what was made of it.
TEST(FakePluginSelf, SeesBuffersThatOutliveTheirClient) {
  const FakePlugin plugin(true);
  abi::Client* client = make_client(plugin);
  auto devices = sized<abi::ClientDevicesArgs>();
  devices.client = client;
  fails(plugin, &abi::Api::client_devices, devices);
  auto args = sized<abi::ClientBufferFromHostBufferArgs>();
  const float number = 1;
  args.client = client;
  args.data = &number;
  args.type = abi::BufferType::f32;
  args.device = devices.devices[0];
  EXPECT_FALSE(fails(plugin, &abi::Api::client_buffer_from_host_buffer, args));
  EXPECT_STREQ(plugin->live_list(), "1 buffer, 1 client, 1 event");
  EXPECT_EQ(plugin->bytes_in_use(), 4);
  destroy_client(plugin, client);
  EXPECT_TRUE(noted(plugin, "1 buffer outlive the client"));
}

TEST(FakePluginSelf, IsAnyVersion) {
  const FakePlugin plugin;
  EXPECT_EQ(plugin.table()->struct_size, 1144u);
  for (const auto& [minor, size] : {std::pair{54, 840u}, {63, 920u}, {81, 984u}, {116, 1144u}}) {
    plugin->set("minor", minor);
    EXPECT_EQ(plugin.table()->struct_size, size) << minor;
    EXPECT_EQ(plugin.table()->version.minor, minor);
  }
  plugin->remove_slot("PJRT_Client_Load");
  EXPECT_EQ(plugin.table()->client_load, nullptr);
}

} // namespace
} // namespace dllm::pjrt
