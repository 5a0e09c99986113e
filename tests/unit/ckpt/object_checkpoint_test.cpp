// Checkpoints in an object store: what readers see whenever the server dies.
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/checkpoint/object_checkpoint.h"
#include "ckpt/weights_on_disk.h"
#include "unit/object_server.h"
#include "unit/test_files.h"

#include "base/store/objects.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace dllm::ckpt {
namespace {

using test::expect_error;
using test::ObjectRequest;
using test::ObjectResponse;
using test::ObjectServer;
using test::TempFolder;

const std::string kRoot = "s3://bucket/runs/first";

class ObjectCheckpoints : public ::testing::Test {
protected:
  void SetUp() override {
    ::setenv("DLLM_STAGING", staging_.path().c_str(), 1);
    try {
      file_exists("s3://bucket/x");
    } catch (const Error& error) {
      if (error.text().find("libcurl") != std::string::npos) GTEST_SKIP() << error.text();
    }
  }
  void TearDown() override { ::unsetenv("DLLM_STAGING"); }

  static std::string save(int64_t step, int64_t keep_last = 0, const Task* task = nullptr) {
    CheckpointWriter writer(kRoot, step, task);
    write_file_atomic(writer.path("trainer.json"), "{\"step\": " + std::to_string(step) + "}");
    write_file_atomic(writer.path("state/rank_000.safetensors"),
                      std::string(1000, static_cast<char>('a' + step % 26)));
    write_file_atomic(writer.path("state/rank_001.safetensors"),
                      std::string(1000, static_cast<char>('b' + step % 26)));
    return writer.commit(keep_last, task);
  }
  static std::vector<int64_t> steps() {
    std::vector<int64_t> found;
    for (const CheckpointEntry& entry : list_checkpoints(kRoot)) {
      verify_checkpoint(entry.folder, nullptr);
      EXPECT_EQ(read_text(entry.folder + "/trainer.json"),
                "{\"step\": " + std::to_string(entry.step) + "}");
      found.push_back(entry.step);
    }
    return found;
  }

  ObjectServer server_;
  TempFolder staging_;
};

TEST_F(ObjectCheckpoints, CommitIsTheLastOfTheFiles) {
  EXPECT_EQ(save(5), kRoot + "/step_000005");
  const auto latest = latest_checkpoint(kRoot);
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->folder, kRoot + "/step_000005");
  std::vector<std::string> written;
  for (const ObjectRequest& request : server_.requests()) {
    if (request.method == "PUT")
      written.push_back(request.key.substr(request.key.find("step_000005") + 12));
  }
  EXPECT_EQ(written,
            (std::vector<std::string>{"COMMIT.partial", "state/rank_000.safetensors",
                                      "state/rank_001.safetensors", "trainer.json", "COMMIT"}));
  EXPECT_FALSE(server_.objects().contains("runs/first/step_000005/COMMIT.partial"));
  EXPECT_TRUE(list_directory(staging_folder(kRoot)).empty());
}

TEST_F(ObjectCheckpoints, TheNewestAreKept) {
  for (const int64_t step : {1, 2, 3, 4}) save(step, 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{3, 4}));
  save(2, 2); // a run that was set back keeps what it has just written
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 4}));
  for (const auto& [key, content] : server_.objects()) {
    EXPECT_TRUE(key.find("step_000002") != std::string::npos ||
                key.find("step_000004") != std::string::npos)
        << key;
  }
}

// The server dies at each request of a save in turn and comes back after it.
TEST_F(ObjectCheckpoints, NothingTornWhereverTheServerDies) {
  ::setenv("AWS_MAX_ATTEMPTS", "1", 1);
  bool is_whole = false;
  std::set<std::vector<int64_t>> seen;
  for (int64_t dies_at = 0; !is_whole; ++dies_at) {
    ASSERT_LT(dies_at, 200);
    server_.set_hook(nullptr);
    server_.clear();
    save(1);
    save(2);
    server_.forget_requests();
    server_.set_hook([dies_at](const ObjectRequest& request) {
      ObjectResponse drop;
      drop.drop = drop.is_forced = request.number >= dies_at;
      return drop;
    });
    bool is_saved = true;
    try {
      save(3, 2);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unavailable) << error.text();
      is_saved = false;
    }
    is_whole = static_cast<int64_t>(server_.requests().size()) <= dies_at;
    server_.set_hook(nullptr);
    const std::vector<int64_t> found = steps();
    seen.insert(found);
    EXPECT_TRUE(std::find(found.begin(), found.end(), 2) != found.end()) << dies_at;
    if (is_saved) {
      EXPECT_EQ(found.back(), 3) << dies_at;
    }
    save(4, 1); // removes what was left
    EXPECT_EQ(steps(), std::vector<int64_t>{4});
    for (const auto& [key, content] : server_.objects())
      EXPECT_TRUE(key.starts_with("runs/first/step_000004/")) << dies_at << " " << key;
  }
  EXPECT_TRUE(seen.contains({1, 2}));
  EXPECT_TRUE(seen.contains({2, 3}));
}

// A former checkpoint of the same step is deleted first, its COMMIT before all else.
TEST_F(ObjectCheckpoints, AReplacedStepIsNeverAMixture) {
  ::setenv("AWS_MAX_ATTEMPTS", "1", 1);
  bool is_whole = false;
  for (int64_t dies_at = 0; !is_whole; ++dies_at) {
    ASSERT_LT(dies_at, 200);
    server_.set_hook(nullptr);
    server_.clear();
    save(1);
    save(2);
    server_.forget_requests();
    server_.set_hook([dies_at](const ObjectRequest& request) {
      ObjectResponse drop;
      drop.drop = drop.is_forced = request.number >= dies_at;
      return drop;
    });
    try {
      CheckpointWriter writer(kRoot, 2);
      write_file_atomic(writer.path("trainer.json"), "{\"step\": 2}");
      writer.commit(0);
    } catch (const Error&) {
    }
    is_whole = static_cast<int64_t>(server_.requests().size()) <= dies_at;
    server_.set_hook(nullptr);
    const std::vector<int64_t> found = steps(); // reads every byte
    EXPECT_EQ(found.front(), 1);
  }
  EXPECT_EQ(open_checkpoint(kRoot + "/step_000002").files.size(), 1U);
}

TEST_F(ObjectCheckpoints, OtherObjectsStay) {
  save(1);
  server_.put("runs/first/step_000001/notes.txt", "mine");
  server_.put("runs/first/step_000007/notes.txt", "mine");
  server_.put("runs/first/readme", "mine");
  expect_error(Code::already_exists, "no save wrote notes.txt", [] { save(1); });
  expect_error(Code::already_exists, "no save wrote notes.txt", [] { save(7); });
  save(2, 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(server_.objects().contains("runs/first/step_000007/notes.txt"));
  EXPECT_TRUE(server_.objects().contains("runs/first/readme"));
}

TEST_F(ObjectCheckpoints, DamagedOnesArePassedOver) {
  save(1);
  save(2);
  save(3);
  server_.erase("runs/first/step_000003/trainer.json");
  server_.put("runs/first/step_000002/trainer.json", "short");
  expect_error(Code::data_loss, "trainer.json is missing",
               [] { open_checkpoint(kRoot + "/step_000003"); });
  expect_error(Code::data_loss, "trainer.json has 5 bytes",
               [] { open_checkpoint(kRoot + "/step_000002"); });
  EXPECT_EQ(latest_checkpoint(kRoot)->step, 1);
  server_.put("runs/first/step_000001/trainer.json", "{\"step\": 9}"); // of the right size
  expect_error(Code::data_loss, "checksum",
               [] { verify_checkpoint(kRoot + "/step_000001", nullptr); });
}

TEST_F(ObjectCheckpoints, AStoreThatDoesNotAnswerIsNoEmptyOne) {
  save(1);
  ::setenv("AWS_MAX_ATTEMPTS", "1", 1);
  for (const int64_t dies_at : {0, 1, 2, 3}) {
    server_.forget_requests();
    server_.set_hook([dies_at](const ObjectRequest& request) {
      return request.number == dies_at ? ObjectServer::error(503, "SlowDown") : ObjectResponse{};
    });
    expect_error(Code::unavailable, "status 503", [] { latest_checkpoint(kRoot); });
  }
}

TEST_F(ObjectCheckpoints, ACancelledSaveLeavesTheFormerOnes) {
  save(1);
  Task task;
  server_.set_hook([&](const ObjectRequest& request) {
    if (request.method == "PUT" && request.key.ends_with("rank_001.safetensors")) task.cancel();
    return ObjectResponse{};
  });
  expect_error(Code::cancelled, "", [&] { save(2, 1, &task); });
  server_.set_hook(nullptr);
  EXPECT_EQ(steps(), std::vector<int64_t>{1});
  EXPECT_TRUE(list_directory(staging_folder(kRoot)).empty());
}

TEST_F(ObjectCheckpoints, ARunNeedsAFolder) {
  expect_error(Code::invalid_argument, "is a whole bucket",
               [] { CheckpointWriter("s3://bucket", 1); });
  EXPECT_TRUE(list_checkpoints("s3://bucket/runs/none").empty());
}

} // namespace
} // namespace dllm::ckpt
