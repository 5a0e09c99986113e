// What needs no server: addresses, signatures, responses, the cut of an upload, pauses.
#include "base/http/retry.h"
#include "base/http/url.h"
#include "base/sha256.h"
#include "base/store/address.h"
#include "base/store/client.h"
#include "base/store/protocol.h"
#include "unit/test_files.h"

#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace dllm::store {
namespace {

using test::expect_error;

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
const Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
constexpr std::time_t kExampleTime = 1369353600; // 2013-05-24 00:00:00 UTC

std::string signature_of(const Unsigned& request, const Credentials& credentials = kExample) {
  const std::string text = sign(request, credentials, "us-east-1").at("authorization");
  return text.substr(text.find("Signature=") + 10);
}

Unsigned example(const std::string& method, const std::string& path, const std::string& body = "") {
  Unsigned made;
  made.method = method;
  made.host = "examplebucket.s3.amazonaws.com";
  made.path = path;
  made.payload_hash = hex(sha256(body));
  made.time = kExampleTime;
  return made;
}

TEST(StoreSignature, PublishedExamples) {
  Unsigned range = example("GET", "/test.txt");
  range.headers["range"] = "bytes=0-9";
  EXPECT_EQ(signature_of(range),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  Unsigned put =
      example("PUT", "/" + http::uri_encoded("test$file.text", true), "Welcome to Amazon S3.");
  put.headers["date"] = "Fri, 24 May 2013 00:00:00 GMT";
  put.headers["x-amz-storage-class"] = "REDUCED_REDUNDANCY";
  EXPECT_EQ(signature_of(put), "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  Unsigned lifecycle = example("GET", "/");
  lifecycle.query = {{"lifecycle", ""}};
  EXPECT_EQ(signature_of(lifecycle),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  Unsigned list = example("GET", "/");
  list.query = {{"prefix", "J"}, {"max-keys", "2"}}; // sorted by the signer
  EXPECT_EQ(signature_of(list), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(StoreSignature, TokenIsSigned) {
  Credentials with = kExample;
  with.session_token = "token";
  const auto headers = sign(example("GET", "/a"), with, "us-east-1");
  EXPECT_EQ(headers.at("x-amz-security-token"), "token");
  EXPECT_NE(headers.at("authorization").find("x-amz-security-token"), std::string::npos);
  EXPECT_NE(signature_of(example("GET", "/a"), with), signature_of(example("GET", "/a")));
}

TEST(StoreAddress, Parts) {
  const Address address = parse_address("s3://bucket-1/runs/first/");
  EXPECT_EQ(address.scheme, "s3");
  EXPECT_EQ(address.bucket, "bucket-1");
  EXPECT_EQ(address.key, "runs/first");
  EXPECT_EQ(parse_address("gs://bucket").key, "");
  EXPECT_FALSE(is_store_path("runs/s3://x"));
  for (const char* bad :
       {"s3://", "s3:///x", "s3://Bucket/x", "s3://bucket/../x", "s3://bucket/a//b",
        "s3://bucket/a/./b", "s3://bu cket/x", "s3://bucket@host/x", "s3://bucket/a\nb"})
    expect_error(Code::invalid_argument, "is not a path in an object store",
                 [&] { parse_address(bad); });
  expect_error(Code::invalid_argument, "a bucket's name has 3 to 63",
               [] { parse_address("s3://a"); });
}

TEST(StoreAddress, Targets) {
  Settings settings;
  settings.endpoint = "https://s3.eu-west-1.amazonaws.com";
  settings.bucket_in_path = false;
  const Target host = target_of(settings, parse_address("s3://bucket/a b/c+d"));
  EXPECT_EQ(host.host, "bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(host.path, "/a%20b/c%2Bd");
  settings.endpoint = "http://127.0.0.1:9000";
  settings.bucket_in_path = true;
  EXPECT_EQ(target_of(settings, parse_address("s3://bucket/a")).path, "/bucket/a");
  EXPECT_EQ(target_of(settings, parse_address("s3://bucket")).path, "/bucket");
}

// The variables of a test, which has its own process or runs before and after others.
class Variables {
public:
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  Variables(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const char* name : kAll) ::unsetenv(name);
    for (const auto& [name, value] : values) ::setenv(name, value, 1);
  }
  ~Variables() {
    for (const char* name : kAll) ::unsetenv(name);
  }

private:
  static constexpr const char* kAll[] = {
      "AWS_ENDPOINT_URL",   "AWS_ENDPOINT_URL_S3", "AWS_REGION",
      "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID",   "AWS_SECRET_ACCESS_KEY",
      "AWS_SESSION_TOKEN",  "AWS_MAX_ATTEMPTS",    "GS_ENDPOINT_URL",
      "GS_REGION",          "GS_ACCESS_KEY_ID",    "GS_SECRET_ACCESS_KEY"};
};

TEST(StoreAddress, Environment) {
  const Address s3 = parse_address("s3://bucket/x"), gs = parse_address("gs://bucket/x");
  {
    const Variables none{};
    expect_error(Code::unauthenticated, "AWS_ACCESS_KEY_ID is not set", [&] { settings_of(s3); });
    expect_error(Code::unauthenticated, "GS_ACCESS_KEY_ID is not set", [&] { settings_of(gs); });
  }
  {
    const Variables keys{{"AWS_ACCESS_KEY_ID", "a"},
                         {"AWS_SECRET_ACCESS_KEY", "s"},
                         {"AWS_DEFAULT_REGION", "eu-west-1"}};
    EXPECT_EQ(settings_of(s3).endpoint, "https://s3.eu-west-1.amazonaws.com");
    EXPECT_FALSE(settings_of(s3).bucket_in_path);
    EXPECT_TRUE(settings_of(parse_address("s3://bucket.with.dots/x")).bucket_in_path);
    EXPECT_EQ(settings_of(s3).attempts, 8);
  }
  {
    const Variables keys{
        {"GS_ACCESS_KEY_ID", "a"}, {"GS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t"}};
    EXPECT_EQ(settings_of(gs).endpoint, "https://storage.googleapis.com");
    EXPECT_EQ(settings_of(gs).region, "auto");
    EXPECT_EQ(settings_of(gs).credentials.session_token, ""); // not sent to another firm's server
  }
  {
    const Variables bad{{"AWS_ACCESS_KEY_ID", "a"},
                        {"AWS_SECRET_ACCESS_KEY", "s"},
                        {"AWS_ENDPOINT_URL", "https://user:password@host"}};
    const Error error = test::error_of([&] { settings_of(s3); });
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_EQ(error.text().find("password"), std::string::npos);
  }
  const Variables attempts{{"AWS_MAX_ATTEMPTS", "0"}};
  expect_error(Code::invalid_argument, "AWS_MAX_ATTEMPTS is \"0\"", [&] { settings_of(s3); });
}

TEST(StoreAddress, KeysAreLeftOut) {
  const Credentials keys{"ACCESS", "SECRET", "TOKEN"};
  EXPECT_EQ(without_keys("a SECRET b TOKEN c ACCESSACCESS", keys), "a *** b *** c ******");
}

TEST(StoreResponse, Lists) {
  const ListPage page = parse_list(
      "<ListBucketResult "
      "xmlns=\"x\"><Prefix>a/</Prefix><Contents><Key>a/b&amp;c&#39;</Key><Size>12</Size></Contents>"
      "<CommonPrefixes><Prefix>a/d/</Prefix></CommonPrefixes><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>more</NextContinuationToken></ListBucketResult>");
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].key, "a/b&c'");
  EXPECT_EQ(page.objects[0].size, 12);
  EXPECT_EQ(page.folders, std::vector<std::string>{"a/d/"});
  EXPECT_EQ(page.next, "more");
  for (const char* bad :
       {"", "<html>", "<ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"})
    expect_error(Code::data_loss, "list", [&] { parse_list(bad); });
  EXPECT_EQ(element_text("<a>&amp;&bad;&#0;&#x41;&", "a"), "");
  EXPECT_EQ(element_text("<a>&amp;&bad;&#0;&#x41;&</a>", "a"), "&&bad;&#0;A&");
}

TEST(StoreParts, PlanKeepsTheLimits) {
  constexpr int64_t kMiB = int64_t{1} << 20, kTiB = int64_t{1} << 40;
  EXPECT_EQ(plan_parts(0).count, 1);
  EXPECT_EQ(plan_parts(16 * kMiB).count, 1);
  EXPECT_EQ(plan_parts(16 * kMiB + 1).count, 2);
  for (const int64_t size : {17 * kMiB, 200'000 * kMiB, 5 * kTiB - 1, 5 * kTiB}) {
    const PartPlan plan = plan_parts(size);
    EXPECT_LE(plan.count, 10'000);
    EXPECT_GE(plan.part, 16 * kMiB);
    EXPECT_LE(plan.part, 5 * 1024 * kMiB);
    EXPECT_LT(plan.begin(plan.count - 1), size);
    EXPECT_GE(plan.begin(plan.count), size);
  }
  expect_error(Code::out_of_range, "an object has at most", [&] { plan_parts(5 * kTiB + 1); });
}

TEST(StoreParts, TheFirstFailureEndsTheOthers) {
  std::atomic<int> done{0};
  expect_error(Code::data_loss, "number 3", [&] {
    run_transfers(1000, nullptr, [&](int64_t index, const Task* task) {
      if (index == 3) fail(Code::data_loss, "number 3");
      check_task(task);
      ++done;
    });
  });
  EXPECT_LT(done.load(), 1000);
  Task cancelled;
  cancelled.cancel();
  expect_error(Code::cancelled, "", [&] {
    run_transfers(8, &cancelled, [&](int64_t, const Task* task) { check_task(task); });
  });
}

TEST(StorePauses, GrowAndDiffer) {
  for (int attempt = 0; attempt < 40; ++attempt) {
    const double usual = std::min(20.0, 0.25 * static_cast<double>(int64_t{1} << attempt));
    const double pause = http::pause_seconds(attempt, "PUT a", 1);
    EXPECT_GE(pause, usual / 2);
    EXPECT_LE(pause, usual);
    EXPECT_EQ(pause, http::pause_seconds(attempt, "PUT a", 1));
    EXPECT_NE(pause, http::pause_seconds(attempt, "PUT a", 2));
    EXPECT_NE(pause, http::pause_seconds(attempt, "PUT b", 1));
  }
}

} // namespace
} // namespace dllm::store
