#include "hub/settings.h"

#include "base/error.h"
#include "base/files.h"
#include "unit/hub/variables.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dllm::hub {
namespace {

using test::Variables;

TEST(HubSettings, TheCacheIsWhereHuggingfaceHubHasIt) {
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
      {{{"HOME", "/h"}}, "/h/.cache/huggingface/hub"},
      {{{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}, "/x/huggingface/hub"},
      {{{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "~/f"}}, "/h/f/hub"},
      {{{"HF_HOME", "/f"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}, "/old"},
      {{{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}}, "/new"},
      {{}, ""}};
  for (const auto& [values, expected] : cases) {
    const Variables variables(values);
    EXPECT_EQ(cache_folder(), expected);
  }
  const Variables none({});
  EXPECT_THROW(settings_of_environment(), Error);
}

TEST(HubSettings, TheTokenIsOfTheEnvironmentOrItsFile) {
  const test::TempFolder folder;
  write_file_atomic(folder.path("token"), "  hf_of_file\n");
  write_file_atomic(folder.path("other"), "hf_other");
  const std::string home = folder.path("");
  const auto token = [](const std::map<std::string, std::string>& values) {
    const Variables variables(values);
    return settings_of_environment().token;
  };
  EXPECT_EQ(token({{"HF_HOME", home}}), "hf_of_file");
  EXPECT_EQ(token({{"HF_HOME", home}, {"HF_TOKEN", " hf_own\n"}}), "hf_own");
  EXPECT_EQ(token({{"HF_HOME", home}, {"HF_TOKEN_PATH", folder.path("other")}}), "hf_other");
  EXPECT_EQ(token({{"HF_HOME", home}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}), "");
  EXPECT_EQ(token({{"HF_HOME", home}, {"HF_TOKEN", "a"}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}),
            "");
  EXPECT_EQ(token({{"HF_HOME", folder.path("empty")}}), "");
  EXPECT_THROW(token({{"HF_HOME", home}, {"HF_TOKEN", "a\r\nX-Evil: 1"}}), Error);
}

TEST(HubSettings, EndpointsAreUrls) {
  const auto endpoint = [](const std::string& text) {
    const Variables variables({{"HOME", "/h"}, {"HF_ENDPOINT", text}});
    return settings_of_environment().endpoint;
  };
  EXPECT_EQ(endpoint(""), "https://huggingface.co");
  EXPECT_EQ(endpoint("https://mirror.example.com//"), "https://mirror.example.com");
  EXPECT_EQ(endpoint("http://127.0.0.1:80/hub"), "http://127.0.0.1:80/hub");
  for (const char* text : {"mirror", "https://me:secret@mirror", "ftp://mirror", "https://m/?a"}) {
    try {
      endpoint(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.text().find("secret"), std::string::npos) << error.text();
    }
  }
}

TEST(HubSettings, OfflineIsAWord) {
  for (const auto& [text, is_offline] : std::map<std::string, bool>{
           {"1", true}, {"true", true}, {"YES", true}, {"0", false}, {"", false}}) {
    const Variables variables({{"HOME", "/h"}, {"HF_HUB_OFFLINE", text}});
    EXPECT_EQ(settings_of_environment().is_offline, is_offline) << text;
  }
}

} // namespace
} // namespace dllm::hub
