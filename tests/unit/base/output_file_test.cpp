#include "base/files.h"

#include "unit/test_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace dllm {
namespace {

using test::expect_error;
using test::TempFolder;

// Runs `body` in a child of its own; returns its wait status.
template <class F> int in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

void limit_file_size(rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

bool is_pending(int number) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, number) == 1;
}

TEST(OutputFile, AFileAboveTheSizeLimitIsAnErrorNotASignal) {
  const TempFolder folder;
  const std::string path = folder.path("a");
  write_file_atomic(path, "old");
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_DFL);
    limit_file_size(4096);
    try {
      write_file_atomic(path, std::string(1 << 16, 'x'));
    } catch (const Error& e) {
      const bool named = e.code() == Code::resource_exhausted &&
                         e.text().find("cannot write " + path) != std::string::npos;
      return named && !is_pending(SIGXFSZ) ? 0 : 2;
    }
    return 3;
  });
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(list_directory(folder.path()), std::vector<std::string>{"a"}) << "half a file stays";
  EXPECT_EQ(read_text(path), "old");
}

TEST(OutputFile, AClosedPipeIsAnErrorAndTheHostsSignalsStay) {
  const int status = in_child([&] {
    std::signal(SIGPIPE, SIG_DFL);
    int ends[2];
    if (::pipe(ends) != 0) return 9;
    ::close(ends[0]);
    if (write_without_signal(ends[1], "x", 1) != -1 || errno != EPIPE) return 2;
    sigset_t mask, own;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    if (sigismember(&mask, SIGPIPE) != 0 || is_pending(SIGPIPE)) return 3;
    // One that the host waits for is not taken.
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &own, nullptr);
    ::raise(SIGPIPE);
    write_without_signal(ends[1], "x", 1);
    return is_pending(SIGPIPE) ? 0 : 4;
  });
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(OutputFile, NothingIsWrittenThroughALink) {
  const TempFolder folder;
  write_file_atomic(folder.path("foreign"), "foreign");
  ASSERT_EQ(::symlink(folder.path("foreign").c_str(), folder.path("a.partial").c_str()), 0);
  expect_error(Code::invalid_argument, "cannot create " + folder.path("a.partial"),
               [&] { write_file_atomic(folder.path("a"), "x"); });
  ASSERT_EQ(::symlink(folder.path("foreign").c_str(), folder.path("b").c_str()), 0);
  write_file_atomic(folder.path("b"), "x"); // the link is replaced
  EXPECT_FALSE(is_link(folder.path("b")));
  EXPECT_EQ(read_text(folder.path("foreign")), "foreign");
}

TEST(AppendFile, GrowsAndRefusesPipes) {
  const TempFolder folder;
  const std::string path = folder.path("log");
  EXPECT_EQ(AppendFile(path, true).write("one\n"), 4u);
  EXPECT_EQ(AppendFile(path, true).write("two\n"), 4u);
  EXPECT_EQ(read_text(path), "one\ntwo\n");
  EXPECT_EQ(AppendFile(path, false).write("three\n"), 6u);
  EXPECT_EQ(read_text(path), "three\n");
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(Code::invalid_argument, pipe, [&] { AppendFile file(pipe, true); });
  expect_error(Code::invalid_argument, folder.path(),
               [&] { AppendFile file(folder.path(), true); });
  EXPECT_EQ(AppendFile("/dev/full", true).write("x"), 0u);
}

} // namespace
} // namespace dllm
