// Objects over HTTP, with a server in this process that fails on demand.
#include "base/log.h"
#include "base/store/objects.h"
#include "unit/object_server.h"
#include "unit/test_files.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace dllm::store {
namespace {

using test::error_of;
using test::expect_error;
using test::ObjectRequest;
using test::ObjectResponse;
using test::ObjectServer;
using test::TempFolder;

constexpr size_t kMiB = size_t{1} << 20;

// False where the system has no libcurl: the tests below skip.
bool has_curl() {
  try {
    ObjectServer server;
    has_object("s3://bucket/x");
    return true;
  } catch (const Error& error) {
    return error.text().find("libcurl") == std::string::npos;
  }
}

class StoreObjects : public ::testing::Test {
protected:
  static void SetUpTestSuite() { has_curl_ = has_curl(); }
  void SetUp() override {
    if (!has_curl_) GTEST_SKIP() << "this system has no libcurl";
    log_hook(LogLevel::debug, [this](LogLevel, const std::string& line) { log_ += line + "\n"; });
  }
  void TearDown() override {
    log_hook(LogLevel::error, nullptr);
    for (const char* key : {ObjectServer::kAccess, ObjectServer::kSecret, ObjectServer::kToken})
      EXPECT_EQ(log_.find(key), std::string::npos) << log_;
  }

  // Bytes that differ between parts.
  static std::string content_of(size_t size) {
    std::string made(size, '\0');
    for (size_t i = 0; i < size; ++i) made[i] = static_cast<char>(i * 2654435761U >> 13);
    return made;
  }
  std::string file_of(const std::string& content) {
    const std::string path = folder_.path("file");
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  static inline bool has_curl_ = false;
  TempFolder folder_;
  std::string log_;
};

// Fails the first request that `picks`, with `response`.
ObjectServer::Hook once(std::function<bool(const ObjectRequest&)> picks, ObjectResponse response) {
  response.is_forced = true;
  const auto done = std::make_shared<std::atomic<bool>>(false);
  return [=](const ObjectRequest& request) {
    return picks(request) && !done->exchange(true) ? response : ObjectResponse{};
  };
}

TEST_F(StoreObjects, WrittenListedReadRemoved) {
  ObjectServer server;
  server.set_page(2);
  put_text("s3://bucket/run/b", "bb");
  put_text("s3://bucket/run/a/x", "x");
  put_text("s3://bucket/run/a/y", "yy");
  put_text("s3://bucket/run/empty", "");
  put_text("s3://bucket/runner", "other");
  EXPECT_EQ(list_directory("s3://bucket/run"), (std::vector<std::string>{"a", "b", "empty"}));
  const std::vector<Object> all = list_objects("s3://bucket/run");
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1].path, "a/y");
  EXPECT_EQ(all[1].size, 2);
  EXPECT_TRUE(file_exists("s3://bucket/run/b"));
  EXPECT_TRUE(is_directory("s3://bucket/run/a"));
  EXPECT_FALSE(is_directory("s3://bucket/ru"));
  EXPECT_FALSE(file_exists("s3://bucket/ru"));
  EXPECT_EQ(file_size("s3://bucket/run/a/y"), 2);
  EXPECT_EQ(read_text("s3://bucket/run/b"), "bb");
  EXPECT_EQ(read_text("s3://bucket/run/empty"), "");
  expect_error(Code::not_found, "there is no object s3://bucket/run/none",
               [] { read_text("s3://bucket/run/none"); });
  expect_error(Code::resource_exhausted, "more than the limit of 1",
               [] { read_text("s3://bucket/run/b", 1); });
  remove_objects({"s3://bucket/run/b", "s3://bucket/run/a/x", "s3://bucket/run/not_there"});
  EXPECT_EQ(list_objects("s3://bucket/run").size(), 2U);
}

TEST_F(StoreObjects, WritingThroughFilesIsRefused) {
  expect_error(Code::unimplemented, "it is in an object store",
               [] { FileWriter writer("s3://bucket/x"); });
  expect_error(Code::unimplemented, "it is in an object store",
               [] { make_directories("s3://bucket/x"); });
  expect_error(Code::unimplemented, "it is in an object store",
               [] { InputFile file("s3://bucket/x"); });
  expect_error(Code::unimplemented, "do not grow", [] { AppendFile file("s3://bucket/x", true); });
}

TEST_F(StoreObjects, LargeFilesGoInParts) {
  ObjectServer server;
  const std::string content = content_of(40 * kMiB + 5);
  put_file("s3://bucket/large", file_of(content));
  EXPECT_EQ(server.objects().at("large"), content);
  EXPECT_EQ(server.open_uploads(), 0U);
  size_t parts = 0;
  for (const ObjectRequest& request : server.requests())
    parts += request.asks("partNumber=") ? 1 : 0;
  EXPECT_EQ(parts, 3U);
}

// Bytes of the ranges that were asked for.
int64_t fetched(ObjectServer& server) {
  int64_t bytes = 0;
  for (const ObjectRequest& request : server.requests()) bytes += request.range_bytes();
  return bytes;
}

TEST_F(StoreObjects, RangesAreWhatIsRead) {
  ObjectServer server;
  const std::string content = content_of(40 * kMiB + 5);
  server.put("large", content);
  const ContentRef file = open_content("s3://bucket/large");
  EXPECT_EQ(file->size(), static_cast<int64_t>(content.size()));
  server.forget_requests();
  const auto expect_range = [&](int64_t at, int64_t size) {
    EXPECT_TRUE(file->read(at, size).text() ==
                content.substr(static_cast<size_t>(at), static_cast<size_t>(size)))
        << at << " " << size;
  };
  expect_range(0, 8); // with what lies around it
  expect_range(8, 100'000);
  EXPECT_EQ(server.requests().size(), 1U);
  expect_range(20'000'000, 10);
  EXPECT_EQ(server.requests().size(), 2U);
  expect_range(5, 40 * static_cast<int64_t>(kMiB));
  expect_range(0, static_cast<int64_t>(content.size()));
  for (int64_t at = 0; at < static_cast<int64_t>(content.size()); at += 3'000'000)
    expect_range(at, std::min<int64_t>(3'000'000, static_cast<int64_t>(content.size()) - at));
  const ContentRef head = open_content("s3://bucket/large");
  server.forget_requests();
  head->read(0, 8);
  EXPECT_EQ(fetched(server), static_cast<int64_t>(kMiB));
}

// Rows of 1 MiB, of which a rank has a part: nothing else is fetched, but for one window around the
// first small read.
TEST_F(StoreObjects, PartsOfRowsAreFetchedWithoutTheRest) {
  ObjectServer server;
  const std::string content = content_of(16 * kMiB);
  server.put("rows", content);
  for (const size_t part : {kMiB / 2, kMiB / 8, kMiB / 32}) {
    const ContentRef file = open_content("s3://bucket/rows");
    server.forget_requests();
    for (size_t row = 0; row < 16; ++row) {
      const size_t at = row * kMiB + part;
      EXPECT_TRUE(file->read(static_cast<int64_t>(at), static_cast<int64_t>(part)).text() ==
                  content.substr(at, part));
    }
    const size_t wanted = 16 * part;
    EXPECT_LE(fetched(server), static_cast<int64_t>(wanted + kMiB)) << part;
    EXPECT_EQ(server.requests().size(), 16U) << part;
  }
}

// Half of the columns of a matrix of narrow rows: whole rows come, in windows of 1 MiB.
TEST_F(StoreObjects, NarrowColumnsAreFetchedWithTheirRows) {
  ObjectServer server;
  const std::string content = content_of(16 * kMiB);
  server.put("matrix", content);
  const ContentRef file = open_content("s3://bucket/matrix");
  server.forget_requests();
  constexpr size_t kRow = 8192;
  for (size_t at = 0; at < content.size(); at += kRow) {
    ASSERT_TRUE(file->read(static_cast<int64_t>(at), kRow / 2).text() ==
                content.substr(at, kRow / 2));
  }
  EXPECT_EQ(server.requests().size(), 16U);
  EXPECT_LE(fetched(server), static_cast<int64_t>(content.size()));
}

// A text that is read in small pieces: windows of 1, 2, 4 and 8 MiB.
TEST_F(StoreObjects, WindowsGrowWhileReadsGoOn) {
  ObjectServer server;
  const std::string content = content_of(23 * kMiB);
  server.put("text", content);
  const ContentRef file = open_content("s3://bucket/text");
  server.forget_requests();
  constexpr size_t kPiece = 1000;
  for (size_t at = 0; at < content.size(); at += kPiece) {
    const size_t size = std::min(kPiece, content.size() - at);
    ASSERT_TRUE(file->read(static_cast<int64_t>(at), static_cast<int64_t>(size)).text() ==
                content.substr(at, size))
        << at;
  }
  EXPECT_EQ(server.requests().size(), 5U);
  EXPECT_EQ(fetched(server), static_cast<int64_t>(content.size()));
}

TEST_F(StoreObjects, PassingFailuresAreTriedAgain) {
  const std::string content = content_of(40 * kMiB);
  const std::string file = file_of(content);
  ObjectResponse drop, cut;
  drop.drop = true;
  cut.body = content.substr(0, 1000);
  cut.status = 206;
  cut.cut = 10;
  const auto is_part = [](const ObjectRequest& request) { return request.asks("partNumber=2"); };
  const auto is_join = [](const ObjectRequest& request) {
    return request.method == "POST" && request.asks("uploadId=");
  };
  const auto is_get = [](const ObjectRequest& request) {
    return request.method == "GET" && !request.key.empty();
  };
  const std::vector<std::pair<const char*, ObjectServer::Hook>> hooks = {
      {"a slow-down", once(is_part, ObjectServer::error(503, "SlowDown"))},
      {"a dropped part", once(is_part, drop)},
      {"a forgotten upload", once(is_part, ObjectServer::error(404, "NoSuchUpload"))},
      {"a dropped join", once(is_join, drop)},
      {"an error inside of a success", once(is_join, ObjectServer::error(200, "InternalError"))},
      {"a dropped read", once(is_get, drop)},
      {"a cut read", once(is_get, cut)},
      {"an error of the server", once(is_get, ObjectServer::error(500, "InternalError"))}};
  for (const auto& [what, hook] : hooks) {
    ObjectServer server;
    server.set_hook(hook);
    put_file("s3://bucket/large", file);
    EXPECT_TRUE(server.objects().at("large") == content) << what;
    EXPECT_EQ(server.open_uploads(), 0U) << what;
    EXPECT_TRUE(read_bytes("s3://bucket/large").text() == content) << what;
  }
  EXPECT_NE(log_.find("again in"), std::string::npos);
}

// The response to the first join is lost: the object is there and the upload is not known any more.
TEST_F(StoreObjects, AJoinWhoseResponseIsLostIsMadeAgain) {
  ObjectServer server;
  const std::string content = content_of(20 * kMiB);
  server.put("large", std::string(20 * kMiB, 'o')); // an older one of the same size
  ObjectResponse lost = ObjectServer::error(404, "NoSuchUpload");
  server.set_hook(once(
      [](const ObjectRequest& request) {
        return request.method == "POST" && request.asks("uploadId=");
      },
      lost));
  put_file("s3://bucket/large", file_of(content));
  EXPECT_TRUE(server.objects().at("large") == content);
}

TEST_F(StoreObjects, LastingFailuresAreErrorsWithoutKeys) {
  ObjectServer server;
  ::setenv("AWS_MAX_ATTEMPTS", "2", 1);
  const auto always = [&](ObjectResponse response) {
    response.is_forced = true;
    server.set_hook([response](const ObjectRequest&) { return response; });
  };
  const auto error = [] { return error_of([] { put_text("s3://bucket/x", "x"); }); };
  const std::string keys =
      std::string(ObjectServer::kAccess) + " " + ObjectServer::kSecret + " " + ObjectServer::kToken;

  always(ObjectServer::error(503, "SlowDown", keys));
  const Error busy = error();
  EXPECT_EQ(busy.code(), Code::unavailable);
  EXPECT_NE(busy.text().find("s3://bucket/x: the server did not answer PUT in 2 attempts, the "
                             "last: status 503 SlowDown"),
            std::string::npos)
      << busy.text();
  always(ObjectServer::error(403, "InvalidAccessKeyId", "The key " + keys + " does not exist."));
  const Error unknown = error();
  EXPECT_EQ(unknown.code(), Code::unauthenticated);
  EXPECT_NE(unknown.hint().find("AWS_ACCESS_KEY_ID"), std::string::npos);
  for (const Error& one : {busy, unknown}) {
    for (const char* key : {ObjectServer::kAccess, ObjectServer::kSecret, ObjectServer::kToken})
      EXPECT_EQ(one.text().find(key), std::string::npos) << one.text();
  }
  always(ObjectServer::error(403, "AccessDenied"));
  EXPECT_EQ(error().code(), Code::permission_denied);
  always(ObjectServer::error(404, "NoSuchBucket"));
  EXPECT_EQ(error().code(), Code::failed_precondition);
  ObjectResponse moved = ObjectServer::error(301, "PermanentRedirect");
  moved.headers["x-amz-bucket-region"] = "eu-north-1";
  always(moved);
  EXPECT_NE(error().hint().find("AWS_REGION=eu-north-1"), std::string::npos);
  always(ObjectServer::error(507, "XMinioStorageFull"));
  EXPECT_EQ(error().code(), Code::resource_exhausted);
  ObjectResponse drop;
  drop.drop = true;
  always(drop);
  EXPECT_EQ(error().code(), Code::unavailable);
  always(ObjectServer::error(403, "AccessDenied"));
  expect_error(Code::permission_denied,
               "cannot list s3://bucket/x:", [] { is_directory("s3://bucket/x"); });
}

TEST_F(StoreObjects, NoServerIsUnavailable) {
  { const ObjectServer gone; }
  ::setenv("AWS_MAX_ATTEMPTS", "2", 1);
  expect_error(Code::unavailable, "in 2 attempts", [] { read_text("s3://bucket/x"); });
}

TEST_F(StoreObjects, PartsOfAFailedUploadAreRemoved) {
  ObjectServer server;
  server.set_hook([](const ObjectRequest& request) {
    return request.asks("partNumber=2") ? ObjectServer::error(403, "AccessDenied")
                                        : ObjectResponse{};
  });
  const std::string file = file_of(content_of(40 * kMiB));
  expect_error(Code::permission_denied, "cannot write s3://bucket/large",
               [&] { put_file("s3://bucket/large", file); });
  EXPECT_EQ(server.open_uploads(), 0U);
  EXPECT_FALSE(server.objects().contains("large"));
}

TEST_F(StoreObjects, AReplacedObjectIsDataLoss) {
  ObjectServer server;
  server.put("x", std::string(3 * kMiB, 'a'));
  const ContentRef file = open_content("s3://bucket/x");
  EXPECT_EQ(file->read(0, 4).text(), "aaaa");
  server.put("x", std::string(3 * kMiB, 'b'));
  expect_error(Code::data_loss, "s3://bucket/x", [&] { file->read(2 * kMiB, 4); });
}

// A server without ranges sends the front of the object.
TEST_F(StoreObjects, AnIgnoredRangeIsDataLoss) {
  ObjectServer server;
  server.put("x", content_of(3 * kMiB));
  const ContentRef file = open_content("s3://bucket/x");
  server.set_hook([&](const ObjectRequest& request) {
    ObjectResponse whole;
    whole.is_forced = request.method == "GET";
    whole.body = content_of(kMiB);
    return whole;
  });
  expect_error(Code::data_loss, "s3://bucket/x", [&] { file->read(2 * kMiB, 4); });
}

// Whatever a server sends in place of the range that was wanted, a read ends with an error or the
// right bytes.
TEST_F(StoreObjects, OnlyTheWantedRangeIsTaken) {
  struct Reply {
    const char* what;
    bool is_right;
    int status;
    int64_t shift, more;
    const char* range; // of the header: "" as the body is, "-" none, else as it stands
    const char* tag;
  };
  const Reply replies[] = {
      {"the range", true, 206, 0, 0, "", ""},
      {"a range without the size", true, 206, 0, 0, "bytes 3000000-3999999/*", ""},
      {"the range before", false, 206, -1'000'000, 0, "", ""},
      {"a range four bytes off", false, 206, -4, 0, "", ""},
      {"a range off by one, said to be right", false, 206, 0, 0, "bytes 3000001-4000000/6000000",
       ""},
      {"no range", false, 206, 0, 0, "-", ""},
      {"a range of another size", false, 206, 0, 0, "bytes 3000000-3999999/7000000", ""},
      {"another unit", false, 206, 0, 0, "items 3000000-3999999/6000000", ""},
      {"no numbers", false, 206, 0, 0, "bytes a-b/c", ""},
      {"a shorter body", false, 206, 0, -1, "", ""},
      {"a longer body", false, 206, 0, 1, "", ""},
      {"the status of a whole object", false, 200, 0, 0, "", ""},
      {"another object", false, 206, 0, 0, "", "\"other\""}};
  const std::string content = content_of(6'000'000);
  for (const Reply& reply : replies) {
    SCOPED_TRACE(reply.what);
    ObjectServer server;
    server.put("x", content);
    const ContentRef file = open_content("s3://bucket/x");
    server.set_hook([&](const ObjectRequest&) {
      const int64_t at = 3'000'000 + reply.shift, size = 1'000'000 + reply.more;
      ObjectResponse made;
      made.is_forced = true;
      made.status = reply.status;
      made.body = content.substr(static_cast<size_t>(at), static_cast<size_t>(size));
      const std::string own = "bytes " + std::to_string(at) + "-" + std::to_string(at + size - 1) +
                              "/" + std::to_string(content.size());
      if (reply.range[0] != '-') made.headers["Content-Range"] = *reply.range ? reply.range : own;
      if (*reply.tag) made.headers["ETag"] = reply.tag;
      return made;
    });
    std::string read(1'000'000, ' ');
    const auto call = [&] { file->read_to(3'000'000, 1'000'000, read.data()); };
    if (reply.is_right) {
      call();
      EXPECT_TRUE(read == content.substr(3'000'000, 1'000'000));
    } else {
      EXPECT_EQ(error_of(call).code(), Code::data_loss) << error_of(call).text();
    }
  }
}

TEST_F(StoreObjects, AListThatNeverEndsIsAnError) {
  const auto list = [](const std::string& entries, const std::string& token) {
    ObjectResponse made;
    made.is_forced = true;
    made.body = "<ListBucketResult>" + entries + "<IsTruncated>true</IsTruncated>" +
                "<NextContinuationToken>" + token + "</NextContinuationToken></ListBucketResult>";
    return made;
  };
  const auto entry = [](int64_t number) {
    return "<Contents><Key>run/" + std::to_string(number) + "</Key><Size>1</Size></Contents>";
  };
  const std::pair<const char*, ObjectServer::Hook> hooks[] = {
      {"a continuation token twice", [&](const ObjectRequest&) { return list(entry(1), "same"); }},
      {"a continuation token twice",
       [&](const ObjectRequest& r) { return list(entry(r.number), r.number % 2 ? "a" : "b"); }},
      {"the list goes on",
       [&](const ObjectRequest& r) { return list(entry(r.number), std::to_string(r.number)); }},
      {"the list goes on",
       [&](const ObjectRequest& r) { return list("", std::to_string(r.number)); }}};
  for (const auto& [text, hook] : hooks) {
    ObjectServer server;
    server.set_hook(hook);
    expect_error(Code::data_loss, text, [] { list_directory("s3://bucket/run"); });
    expect_error(Code::data_loss, text, [] { list_objects("s3://bucket/run"); });
    EXPECT_LT(server.requests().size(), 500U);
  }
}

TEST_F(StoreObjects, ASilentServerCanBeLeft) {
  ObjectServer server;
  ObjectResponse silent;
  silent.silent = silent.is_forced = true;
  server.set_hook([&](const ObjectRequest&) { return silent; });
  Task task;
  std::thread canceller([&] {
    while (server.requests().empty()) std::this_thread::yield();
    task.cancel();
  });
  expect_error(Code::cancelled, "", [&] { put_text("s3://bucket/x", "x", &task); });
  canceller.join();
  const TransferTask transfers(&task);
  expect_error(Code::cancelled, "", [&] { read_text("s3://bucket/x"); });
}

TEST_F(StoreObjects, PausesCanBeLeft) {
  ObjectServer server;
  ::setenv("AWS_MAX_ATTEMPTS", "100", 1);
  server.set_hook([](const ObjectRequest&) { return ObjectServer::error(503, "SlowDown"); });
  Task task;
  std::thread canceller([&] {
    while (server.requests().empty()) std::this_thread::yield();
    task.cancel();
  });
  expect_error(Code::cancelled, "", [&] { put_text("s3://bucket/x", "x", &task); });
  canceller.join();
}

TEST_F(StoreObjects, CloudStorageHasKeysOfItsOwn) {
  ObjectServer server;
  const std::string endpoint = std::getenv("AWS_ENDPOINT_URL");
  ::setenv("GS_ENDPOINT_URL", endpoint.c_str(), 1);
  ::setenv("GS_ACCESS_KEY_ID", "GOOG1", 1);
  ::setenv("GS_SECRET_ACCESS_KEY", "secret", 1);
  put_text("gs://bucket/x", "x");
  EXPECT_EQ(read_text("gs://bucket/x"), "x");
  for (const ObjectRequest& request : server.requests()) {
    EXPECT_NE(request.headers.at("authorization").find("Credential=GOOG1/"), std::string::npos);
    EXPECT_FALSE(request.headers.contains("x-amz-security-token"));
  }
  for (const char* name : {"GS_ENDPOINT_URL", "GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY"})
    ::unsetenv(name);
}

} // namespace
} // namespace dllm::store
