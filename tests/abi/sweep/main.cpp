// NULL and garbage sweep: every function of the manifest, in a process of its own, with what a host
// may get wrong.   abi_sweep LIBRARY MANIFEST [--stamps] [--no-lua] [function...]
#include "cases.h"

#include "dllm/dllm.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sweep {
namespace {

constexpr size_t kProgressSize = 256;

struct Shared {
  char progress[kProgressSize];
  int cases;
};

struct Inside {
  const Function* function;
  Fixtures* fixtures;
  const Settings* settings;
  Shared* shared;
  Report report;
};

void run_here(Inside& inside) {
  inside.report = run_cases(*inside.function, *inside.fixtures, *inside.settings,
                            inside.shared->progress, kProgressSize);
}

int32_t on_event(const dllm_event* event, void* user_data) {
  auto& inside = *static_cast<Inside*>(user_data);
  inside.fixtures->event = const_cast<dllm_event*>(event);
  run_here(inside);
  return DLLM_STOP;
}

// Events live in callbacks only, so their functions are tried inside one.
void run_in_callback(Inside& inside) {
  Fixtures& fixtures = *inside.fixtures;
  const auto run =
      reinterpret_cast<decltype(&dllm_trainer_run)>(fixtures.symbol("dllm_trainer_run"));
  auto* trainer = static_cast<dllm_trainer*>(fixtures.object("trainer"));
  auto* loader = static_cast<dllm_loader*>(fixtures.object("loader"));
  const int32_t status = run(trainer, loader, 1, on_event, &inside, nullptr, nullptr);
  if (status != DLLM_OK || inside.report.cases == 0) {
    inside.report.failures.push_back("no event came, status " + std::to_string(status));
  }
}

// The child's whole life; the exit status says whether anything failed.
[[noreturn]] void child(const Function& function, void* library, const Settings& settings,
                        Shared* shared) {
  // A folder of its own, so that no call finds what another one wrote.
  if (mkdir(function.name.c_str(), 0700) != 0 || chdir(function.name.c_str()) != 0) _exit(4);
  Fixtures fixtures(library);
  Inside inside{&function, &fixtures, &settings, shared, {}};
  const bool on_events = !function.params.empty() && function.params.front().handle == "event";
  std::snprintf(shared->progress, kProgressSize, "making objects to test with");
  if (on_events) {
    run_in_callback(inside);
  } else {
    run_here(inside);
  }
  for (const std::string& text : inside.report.failures) std::printf("     %s\n", text.c_str());
  std::fflush(stdout);
  shared->cases = inside.report.cases;
  _exit(inside.report.failures.empty() ? 0 : 1);
}

bool sweep_function(const Function& function, void* library, const Settings& settings,
                    Shared* shared) {
  std::memset(shared, 0, sizeof *shared);
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(120); // a call that never comes back is a failure too
    child(function, library, settings, shared);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf("%s %s  %d cases\n", ok ? "ok  " : "FAIL", function.name.c_str(), shared->cases);
  if (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) > 3)) {
    std::printf("     died (%s) at: %s\n",
                WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "sanitizer", shared->progress);
  }
  return ok;
}

// Files that calls make land in a folder that is removed.
void enter_scratch_folder() {
  char folder[] = "/tmp/dllm_sweep_XXXXXX";
  if (mkdtemp(folder) == nullptr || chdir(folder) != 0) {
    std::perror("abi_sweep: no scratch folder");
    std::exit(2);
  }
}

void leave_scratch_folder() {
  char folder[4096];
  if (getcwd(folder, sizeof folder) == nullptr || chdir("/") != 0) return;
  const std::string command = std::string("rm -rf '") + folder + "'";
  if (std::system(command.c_str()) != 0) std::perror("abi_sweep");
}

int run(int argc, char** argv) {
  Settings settings;
  std::set<std::string> only;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.empty()) continue; // a flag that this build leaves out
    if (word == "--stamps")
      settings.stamps = true;
    else if (word == "--no-lua")
      settings.lua = false;
    else
      only.insert(word);
  }
  void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "abi_sweep: %s\n", dlerror());
    return 2;
  }
  const auto functions = read_manifest(argv[2]);
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  enter_scratch_folder();
  int passed = 0, failed = 0, cases = 0;
  for (const Function& function : functions) {
    if (!only.empty() && !only.contains(function.name)) continue;
    const bool ok = sweep_function(function, library, settings, shared);
    ++(ok ? passed : failed);
    cases += shared->cases;
  }
  leave_scratch_folder();
  std::printf("%d functions passed, %d failed, %d cases\n", passed, failed, cases);
  return failed == 0 && passed > 0 ? 0 : 1;
}

} // namespace
} // namespace sweep

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: abi_sweep LIBRARY MANIFEST [--stamps] [--no-lua] [function...]\n");
    return 2;
  }
  return sweep::run(argc, argv);
}
