// Calls through a table made here: sizes written, slots tested, errors taken over.

#include "pjrt/plugin/plugin.h"

#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dllm::pjrt {
namespace {

struct Seen {
  size_t struct_size = 0;
  int destroyed = 0;
  int code = 0;
  const char* text = "";
};
Seen seen;
int the_error;

abi::Error* raise(abi::EventIsReadyArgs* args) {
  seen.struct_size = args->head.struct_size;
  return seen.code < 0 ? nullptr : reinterpret_cast<abi::Error*>(&the_error);
}

abi::Api table() {
  abi::Api api{};
  api.struct_size = sizeof(abi::Api);
  api.version.minor = 90;
  api.error_destroy = [](abi::ErrorDestroyArgs*) { ++seen.destroyed; };
  api.error_message = [](abi::ErrorMessageArgs* args) {
    args->message = seen.text;
    args->message_size = std::strlen(seen.text);
  };
  api.error_get_code = [](abi::ErrorGetCodeArgs* args) -> abi::Error* {
    args->code = seen.code;
    return nullptr;
  };
  api.plugin_initialize = [](abi::PluginInitializeArgs*) -> abi::Error* { return nullptr; };
  api.event_is_ready = raise;
  return api;
}

Error error_of_call(const abi::Api& api) {
  return test::error_of([&] {
    abi::EventIsReadyArgs args{};
    call(api, &abi::Api::event_is_ready, args);
  });
}

TEST(Call, WritesTheSizeWithoutPadding) {
  seen = {};
  seen.code = -1;
  abi::EventIsReadyArgs args{};
  const abi::Api api = table();
  call(api, &abi::Api::event_is_ready, args);
  EXPECT_EQ(seen.struct_size, 25u);
}

TEST(Call, TakesErrorsOverAndDestroysThem) {
  const abi::Api api = table();
  for (int code = 1; code <= 16; ++code) {
    seen = {};
    seen.code = code;
    seen.text = "Ran out of memory:\n  48.00G\texceeds 15.75G.\n";
    const Error error = error_of_call(api);
    EXPECT_EQ(static_cast<int>(error.code()), code);
    EXPECT_EQ(error.text(), "PJRT_Event_IsReady: Ran out of memory: 48.00G exceeds 15.75G");
    EXPECT_EQ(seen.destroyed, 1);
  }
  seen.code = 0; // an error that says ok
  EXPECT_EQ(error_of_call(api).code(), Code::unknown);
  seen.code = 1234;
  EXPECT_EQ(error_of_call(api).code(), Code::unknown);
}

TEST(Call, NamesMissingSlots) {
  abi::Api api = table();
  api.event_is_ready = nullptr;
  EXPECT_EQ(error_of_call(api).text(),
            "PJRT_Event_IsReady is not in this plugin (API 0.90, table of 1144 bytes)");
  api.event_is_ready = raise;
  api.struct_size = offsetof(abi::Api, event_is_ready); // the table ends right before it
  EXPECT_EQ(error_of_call(api).code(), Code::unimplemented);
  EXPECT_FALSE(has_slot(api, &abi::Api::event_is_ready));
  EXPECT_TRUE(has_slot(api, &abi::Api::event_destroy) == false &&
              has_slot(api, &abi::Api::error_destroy));
}

TEST(Plugin, RefusesOldAndBrokenVersions) {
  abi::Api api = table();
  const auto check = [&](int major, int minor) {
    api.version.major = major;
    api.version.minor = minor;
    return test::error_of([&] { Plugin("p.so", &api); });
  };
  EXPECT_EQ(check(0, 53).text(), "plugin p.so is too old: its API is 0.53, 0.54 is needed");
  EXPECT_EQ(check(0, 53).code(), Code::failed_precondition);
  EXPECT_EQ(check(0, 56).text(), "plugin p.so has API 0.56, which this library cannot drive");
  EXPECT_EQ(check(1, 90).code(), Code::failed_precondition);
  for (int minor : {54, 55, 57, 200}) {
    api.version = {{}, 0, minor};
    EXPECT_EQ(Plugin("p.so", &api).minor(), minor);
  }
}

} // namespace
} // namespace dllm::pjrt
