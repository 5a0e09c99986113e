#include "process.h"

#include "../command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

extern char** environ;

namespace dllm::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A file descriptor that closes itself.
class Descriptor {
public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

private:
  int value_;
};

[[noreturn]] void cannot(const char* what, int number) {
  throw Failure(DLLM_UNAVAILABLE, std::string("a child process cannot be started: ") + what + ": " +
                                      std::strerror(number));
}

struct Pipe {
  Descriptor read, write;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) cannot("pipe", errno);
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
};

// Returns a file in memory for standard input. It needs no thread that writes, and a child that
// does not read it causes no broken pipe.
Descriptor input_of(const std::string& text) {
  Descriptor file(memfd_create("dllm_input", MFD_CLOEXEC));
  if (file.get() < 0) cannot("memfd_create", errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0) cannot("input", errno);
    done += static_cast<size_t>(written);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_of(const ChildRequest& request) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  for (const std::string& entry : request.environment) {
    const std::string name = entry.substr(0, entry.find('='));
    if (std::getenv(name.c_str()) == nullptr) all.push_back(entry);
  }
  return all;
}

// Starts the child in its own process group, so that processes that it starts (assemblers, linkers)
// end with it.
pid_t start(const ChildRequest& request, int input, int output, int errors) {
  std::vector<std::string> arguments = request.arguments;
  arguments.insert(arguments.begin(), "dllm");
  std::vector<std::string> environment = environment_of(request);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, request.program.c_str(), &actions, &attributes,
                                 pointers(arguments).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) cannot(request.program.c_str(), failed);
  return pid;
}

// Reads the available bytes; returns false at the end of the stream.
bool take(int from, std::string& into) {
  std::array<char, 65536> block;
  const ssize_t count = read(from, block.data(), block.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  into.append(block.data(), static_cast<size_t>(count));
  return count > 0;
}

// The two streams of a running child.
class Streams {
public:
  Streams(const ChildRequest& request, ChildResult& result, Descriptor output, Descriptor errors)
      : request_(request), result_(result), output_(std::move(output)), errors_(std::move(errors)) {
  }

  // Waits for output, at most `milliseconds`; returns false when no output came.
  bool read_some(int milliseconds) {
    pollfd files[] = {{output_.get(), POLLIN, 0},
                      {errors_.get(), POLLIN, 0}}; // a closed stream is -1, which poll ignores
    if (poll(files, 2, milliseconds) <= 0) return false;
    if (files[0].revents != 0 && !take(output_.get(), result_.output)) output_.close();
    if (files[1].revents != 0 && !take(errors_.get(), result_.errors)) errors_.close();
    const size_t size = result_.errors.size();
    if (size > request_.errors_kept) result_.errors.erase(0, size - request_.errors_kept);
    return true;
  }
  bool open() const { return output_.get() >= 0 || errors_.get() >= 0; }

private:
  const ChildRequest& request_;
  ChildResult& result_;
  Descriptor output_, errors_;
};

} // namespace

ChildResult run_child(const ChildRequest& request) {
  ChildResult result;
  Pipe output, errors;
  const pid_t pid =
      start(request, input_of(request.input).get(), output.write.get(), errors.write.get());
  output.write.close();
  errors.write.close();
  Streams streams(request, result, std::move(output.read), std::move(errors.read));

  using How = ChildResult::How;
  const auto started = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - started).count(); };
  int status = 0;
  double polled_at = 0; // when `waiting` was called last
  rusage use{};
  while (wait4(pid, &status, WNOHANG, &use) == 0) {
    if (streams.open())
      streams.read_some(100);
    else
      usleep(10000);
    const double now = passed();
    bool go_on = true;
    if (request.waiting && now - polled_at >= 0.1) {
      polled_at = now;
      go_on = request.waiting(now);
    }
    if (!go_on)
      result.how = How::stopped;
    else if (request.time_limit > 0 && now > request.time_limit)
      result.how = How::timed_out;
    else if (result.output.size() > request.most_output)
      result.how = How::flooded;
    if (result.how == How::exited) continue;
    kill(-pid, SIGKILL);
    wait4(pid, &status, 0, &use);
    break;
  }
  result.seconds = passed();
  for (const timeval& part : {use.ru_utime, use.ru_stime}) {
    result.cpu_seconds +=
        static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) * 1e-6;
  }
  kill(-pid, SIGKILL); // ends processes that the child started
  while (result.how == How::exited && streams.open() && streams.read_some(1000)) {
  }
  if (result.how == How::exited && WIFSIGNALED(status)) result.how = How::crashed;
  result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string ChildResult::story() const {
  char text[160];
  switch (how) {
  case How::exited:
    if (code == 0) return "";
    std::snprintf(text, sizeof text, "ended with exit status %d after %.1f s", code, seconds);
    break;
  case How::crashed:
    std::snprintf(text, sizeof text, "was ended by signal %d (%s) after %.1f s", code,
                  strsignal(code), seconds);
    break;
  case How::timed_out:
    std::snprintf(text, sizeof text, "did not end within %.1f s", seconds);
    break;
  case How::flooded:
    std::snprintf(text, sizeof text, "wrote %zu bytes and was ended", output.size());
    break;
  case How::stopped: std::snprintf(text, sizeof text, "was stopped after %.1f s", seconds); break;
  }
  return text;
}

std::vector<std::string> ChildResult::last_lines(size_t count) const {
  std::vector<std::string> lines;
  for (size_t end = errors.size(); end > 0 && lines.size() < count;) {
    const size_t before = errors.rfind('\n', end - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    if (begin < end) lines.insert(lines.begin(), errors.substr(begin, end - begin));
    end = before == std::string::npos ? 0 : before;
  }
  return lines;
}

void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

} // namespace dllm::cli
