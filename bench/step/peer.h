#pragma once
// A Python program that does the same work as we, kept alive next to us: it prints "ready", then
// for every line it reads it does one repetition and prints "wall cpu" in seconds. So the two
// sides take turns in one run, and what else the machine does hits both alike.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

struct Seconds {
  double wall = 0, cpu = 0; // cpu: of all threads of the process
};

inline double clock_seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline Seconds timed(const std::function<void()>& work) {
  const double wall = clock_seconds(CLOCK_MONOTONIC), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {clock_seconds(CLOCK_MONOTONIC) - wall, clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

// One thread uses it. The interpreter is $DLLM_PYTHON, else python3.
class Peer {
public:
  Peer(const std::string& script, const std::vector<std::string>& arguments) {
    std::signal(SIGPIPE, SIG_IGN); // a peer that died is seen by its missing answer
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) return;
    child_ = fork();
    if (child_ == 0) become(script, arguments, down, up);
    close(down[0]);
    close(up[1]);
    requests_ = fdopen(down[1], "w");
    answers_ = fdopen(up[0], "r");
    char word[16] = "";
    ready_ = child_ > 0 && std::fscanf(answers_, "%15s", word) == 1 && std::string(word) == "ready";
  }
  ~Peer() {
    if (requests_ != nullptr) std::fclose(requests_); // end of input ends the peer
    if (answers_ != nullptr) std::fclose(answers_);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool ready() const { return ready_; }
  // `what`: one line, for peers that do several things. Zeros when it died.
  Seconds repeat(const char* what = "go") {
    Seconds taken;
    std::fprintf(requests_, "%s\n", what);
    std::fflush(requests_);
    if (std::fscanf(answers_, "%lf %lf", &taken.wall, &taken.cpu) != 2) ready_ = false;
    return taken;
  }

private:
  [[noreturn]] static void become(const std::string& script,
                                  const std::vector<std::string>& arguments, const int* down,
                                  const int* up) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    for (const int fd : {down[0], down[1], up[0], up[1]}) close(fd);
    // Threads of OpenMP that spin while others need the processor would be timed as work.
    setenv("OMP_WAIT_POLICY", "passive", 0);
    const char* python = std::getenv("DLLM_PYTHON");
    if (python == nullptr) python = "python3";
    std::vector<const char*> words = {python, script.c_str()};
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    words.push_back(nullptr);
    execvp(python, const_cast<char* const*>(words.data()));
    std::_Exit(127);
  }

  pid_t child_ = -1;
  std::FILE* requests_ = nullptr;
  std::FILE* answers_ = nullptr;
  bool ready_ = false;
};

// Times of both sides, turn by turn.
class Turns {
public:
  void add(Seconds own, Seconds other) {
    own_.push_back(own);
    other_.push_back(other);
  }
  void add(Seconds own) { own_.push_back(own); }

  // Rates, then how many times as fast as the peer we are: median and the middle half of the turns.
  void print(const char* name, double tokens) const {
    const auto wall = [](const Seconds& s) { return s.wall; };
    const auto cpu = [](const Seconds& s) { return s.cpu; };
    std::printf("%s dllm    %.0f tokens/s, %.3f s processor time\n", name,
                tokens / quantile(values(own_, wall), 0.5), quantile(values(own_, cpu), 0.5));
    if (other_.empty()) {
      std::printf("%s PyTorch: absent (set DLLM_PYTHON to a python3 that has torch)\n", name);
      return;
    }
    std::printf("%s PyTorch %.0f tokens/s, %.3f s processor time\n", name,
                tokens / quantile(values(other_, wall), 0.5), quantile(values(other_, cpu), 0.5));
    std::vector<double> walls, cpus;
    for (size_t i = 0; i < other_.size(); ++i) {
      walls.push_back(other_[i].wall / own_[i].wall);
      cpus.push_back(other_[i].cpu / own_[i].cpu);
    }
    std::printf("%s ratio over %zu turns: wall %.2f (%.2f to %.2f), processor time %.2f (%.2f to "
                "%.2f); above 1: dllm is faster\n",
                name, walls.size(), quantile(walls, 0.5), quantile(walls, 0.25),
                quantile(walls, 0.75), quantile(cpus, 0.5), quantile(cpus, 0.25),
                quantile(cpus, 0.75));
  }

private:
  template <class Field>
  static std::vector<double> values(const std::vector<Seconds>& times, Field field) {
    std::vector<double> result;
    for (const Seconds& seconds : times) result.push_back(field(seconds));
    return result;
  }
  static double quantile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  }

  std::vector<Seconds> own_, other_;
};

// What else runs: figures of a busy machine say so themselves.
inline void print_machine(int threads) {
  double load[3] = {0, 0, 0};
  if (getloadavg(load, 3) < 1) load[0] = 0;
  std::printf("%d threads of %ld processors, load average %.1f\n", threads,
              sysconf(_SC_NPROCESSORS_ONLN), load[0]);
}
