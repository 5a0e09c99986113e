#include "generate/request_options.h"

#include "base/error.h"
#include "decode/request/policy.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <set>

namespace dllm::generate {
namespace {

std::set<std::string> keys_of(const Schema& schema) {
  std::set<std::string> keys;
  for (const OptionSpec& spec : schema.specs()) {
    EXPECT_TRUE(keys.insert(spec.key).second) << schema.kind() << " has " << spec.key << " twice";
  }
  return keys;
}

// A request has every option of every policy, except those that hold for all requests.
TEST(RequestOptions, HaveThoseOfEveryPolicy) {
  const std::set<std::string> of_decoder = {"slots",     "trace",           "trace_bytes",
                                            "on_change", "adapter_folders", "adapter_bytes",
                                            "gen_length"};
  for (const std::string& policy : decode::policy_names()) {
    const std::set<std::string> own = keys_of(request_schema(policy));
    for (const std::string& key : keys_of(decode::decoder_schema(policy)))
      EXPECT_EQ(own.contains(key), !of_decoder.contains(key)) << policy << " " << key;
    EXPECT_EQ(Options(request_schema(policy)).str("policy"), policy);
  }
  EXPECT_EQ(Options(request_schema()).str("policy"), kAutomatic);
  EXPECT_THROW(request_schema("no_policy"), Error);
}

TEST(RequestOptions, OverrideDefaults) {
  Options defaults(decode::decoder_schema("random"));
  defaults.set_json({{"temperature", 0.5}, {"steps", 7}, {"gen_length", 9}});
  const Options asked =
      decoding_options(request({{"policy", "random"}, {"temperature", 0.25}}), defaults);
  EXPECT_EQ(asked.f64("temperature"), 0.25);
  EXPECT_EQ(asked.i64("steps"), 7);
  EXPECT_EQ(asked.i64("gen_length"), 9);
  EXPECT_EQ(decoding_options(request({{"length", 3}}), defaults).i64("gen_length"), 3);
}

TEST(RequestOptions, AListOfMessagesIsTaken) {
  const Json messages = {{{"role", "user"}, {"content", "hi"}}};
  EXPECT_EQ(request({{"messages", messages}}).str("messages"), messages.dump());
  EXPECT_EQ(request({{"messages", messages.dump()}}).str("messages"), messages.dump());
  EXPECT_EQ(request({{"variables", {{"a", 1}}}}).str("variables"), "{\"a\":1}");
  EXPECT_THROW(request({{"prompt", messages}}), Error) << "a list is not a text";
}

} // namespace
} // namespace dllm::generate
