#include "cli/processes/process.h"

#include "cli/command.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>
#include <unistd.h>

namespace dllm::cli {
namespace {

using How = ChildResult::How;

// A fake child: a shell that behaves as the script says.
ChildRequest shell(const std::string& script) {
  ChildRequest request;
  request.program = "/bin/sh";
  request.arguments = {"-c", script};
  return request;
}

TEST(Child, OutputErrorsAndStatusComeBack) {
  const ChildResult result = run_child(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.how, How::exited);
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_NE(result.story().find("exit status 3"), std::string::npos);
  EXPECT_TRUE(run_child(shell("true")).ok());
  EXPECT_EQ(run_child(shell("true")).story(), "");
}

TEST(Child, ReadsItsInputAndEnvironment) {
  ChildRequest request = shell("cat; cat /dev/stdin | wc -c; echo $DLLM_CHILD_TEST $HOME");
  request.input = std::string(200000, 'x'); // more than a pipe holds
  request.environment = {"DLLM_CHILD_TEST=new", "HOME=changed"};
  const char* home = getenv("HOME");
  const ChildResult result = run_child(request);
  EXPECT_EQ(result.output.substr(0, 200000), request.input);
  EXPECT_NE(result.output.find("new"), std::string::npos);
  if (home != nullptr) {
    EXPECT_EQ(result.output.find("changed"), std::string::npos)
        << "a name that is set keeps its value";
  }
}

TEST(Child, CountsItsProcessorTime) {
  const ChildResult busy = run_child(shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"));
  EXPECT_GT(busy.cpu_seconds, 0.05);
  EXPECT_LT(run_child(shell("sleep 0.5")).cpu_seconds, 0.3);
}

TEST(Child, IgnoredInputCostsNothing) {
  ChildRequest request = shell("exit 0");
  request.input = std::string(1 << 20, 'x');
  EXPECT_TRUE(run_child(request).ok());
}

TEST(Child, ACrashIsReported) {
  const ChildResult result =
      run_child(shell("echo first >&2; echo ' Check failed: id < 8' >&2; kill -SEGV $$"));
  EXPECT_EQ(result.how, How::crashed);
  EXPECT_EQ(result.code, SIGSEGV);
  EXPECT_NE(result.story().find("signal 11"), std::string::npos);
  EXPECT_EQ(result.last_lines(1), std::vector<std::string>{" Check failed: id < 8"});
  EXPECT_EQ(result.last_lines(9).size(), 2u);
}

TEST(Child, AHangIsEndedWithAllItStarted) {
  const std::string mark = ::testing::TempDir() + "child_" + std::to_string(getpid());
  ChildRequest request = shell("(sleep 1.5; echo late > " + mark + ") & echo begun; sleep 60");
  request.time_limit = 0.4;
  const ChildResult result = run_child(request);
  EXPECT_EQ(result.how, How::timed_out);
  EXPECT_EQ(result.output, "begun\n");
  EXPECT_LT(result.seconds, 10);
  sleep(2);
  EXPECT_FALSE(std::ifstream(mark).good()) << "a grandchild lived on";
}

TEST(Child, AGrandchildThatKeepsThePipesDoesNotHoldUs) {
  const ChildResult result = run_child(shell("sleep 60 & echo done"));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output, "done\n");
  EXPECT_LT(result.seconds, 10);
}

TEST(Child, AFloodOfOutputIsEnded) {
  ChildRequest request = shell("yes");
  request.most_output = 1 << 20;
  const ChildResult result = run_child(request);
  EXPECT_EQ(result.how, How::flooded);
  EXPECT_LT(result.output.size(), size_t{2} << 20);
}

TEST(Child, OfAFloodOfErrorsTheEndIsKept) {
  ChildRequest request = shell(
      "i=0; while [ $i -lt 20000 ]; do echo noise line $i >&2; i=$((i+1)); done; echo last >&2");
  const ChildResult result = run_child(request);
  EXPECT_TRUE(result.ok());
  EXPECT_LE(result.errors.size(), request.errors_kept);
  EXPECT_EQ(result.last_lines(2), (std::vector<std::string>{"noise line 19999", "last"}));
}

TEST(Child, StopsWhenAskedTo) {
  ChildRequest request = shell("sleep 60");
  int calls = 0;
  request.waiting = [&](double) { return ++calls < 3; };
  const ChildResult result = run_child(request);
  EXPECT_EQ(result.how, How::stopped);
  EXPECT_EQ(calls, 3);
}

TEST(Child, AProgramThatIsNotThereIsAFailure) {
  ChildRequest request;
  request.program = "/nonexistent/program";
  EXPECT_THROW(run_child(request), Failure);
}

} // namespace
} // namespace dllm::cli
