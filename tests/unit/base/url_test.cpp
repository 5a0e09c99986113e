#include "base/http/url.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dllm::http {
namespace {

TEST(Url, PartsOfAUrl) {
  const auto url = parse_url("HTTPS://Hub.Example.com:8443/a/b?c=d");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "hub.example.com:8443");
  EXPECT_EQ(url->path, "/a/b?c=d");
  EXPECT_EQ(url->origin(), "https://hub.example.com:8443");
  EXPECT_EQ(parse_url("http://host")->path, "/");
  EXPECT_EQ(parse_url("http://host?a")->path, "/?a");
}

TEST(Url, OtherTextsAreRefused) {
  for (const char* text :
       {"", "host", "/path", "ftp://host/", "file:///etc/passwd", "https://", "https:///path",
        "https://user@host/", "https://user:word@host/", "https://host\\@other/", "https://a b/",
        "https://host/a b", "https://host/a\nb", "https://host/a\x7f", "https://host/#part",
        "https://:80/", "javascript://host/", "https:/host/"})
    EXPECT_FALSE(parse_url(text)) << text;
}

TEST(Url, RedirectsAreRelativeToTheirPage) {
  const Url from = *parse_url("https://hub/a/b/c?d=e");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"https://other/x", "https://other/x"},
      {"http://other/x", "http://other/x"},
      {"//other/x", "https://other/x"},
      {"/x/y?z", "https://hub/x/y?z"},
      {"x", "https://hub/a/b/x"},
      {"x?u=http://v", "https://hub/a/b/x?u=http://v"},
      {"/x#part", "https://hub/x"}};
  for (const auto& [location, expected] : cases) {
    const auto url = redirected(from, location);
    ASSERT_TRUE(url) << location;
    EXPECT_EQ(url->text(), expected) << location;
  }
  for (const char* location : {"", "#part", "ftp://x/", "//me@other/", "/a b", "/a\rb"})
    EXPECT_FALSE(redirected(from, location)) << location;
}

TEST(Url, LoopbackIsThisMachine) {
  for (const char* text : {"http://localhost/", "http://LOCALHOST:80/", "http://127.0.0.1/",
                           "http://127.1.2.3:9000/", "http://[::1]:80/"})
    EXPECT_TRUE(parse_url(text)->is_loopback()) << text;
  for (const char* text : {"http://localhost.example.com/", "http://127.0.0.1.example.com/",
                           "http://10.0.0.1/", "http://[::2]/", "http://1127.0.0.1/"})
    EXPECT_FALSE(parse_url(text)->is_loopback()) << text;
}

} // namespace
} // namespace dllm::http
