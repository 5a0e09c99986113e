// In the child this file gives up rights one after the other and then becomes the interpreter.
// Sources: Documentation/userspace-api/landlock.rst of Linux, seccomp(2).

#include "limited.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dllm::cli {
namespace {

constexpr int kCannotLimit = 125; // as timeout(1) and env(1) end when they fail themselves

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "limits: %s: %s\n", what, std::strerror(errno));
  _exit(kCannotLimit);
}

void limit(__rlimit_resource_t what, int64_t most, const char* name) {
  const auto value = static_cast<rlim_t>(most);
  const rlimit both{value, value};
  if (setrlimit(what, &both) != 0) give_up(name);
}

// ---- files: Landlock, with numbers, because older headers lack it ----

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr uint64_t kExecute = 1, kReadFile = 1 << 2, kReadFolder = 1 << 3;
constexpr uint64_t kWriteFile = 1 << 1, kTruncate = 1 << 14;

struct Ruleset {
  uint64_t files, network, scopes;
};
struct __attribute__((packed)) FolderRule {
  uint64_t allowed;
  int32_t folder;
};

void allow(int ruleset, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return; // the path does not exist
  const FolderRule rule{rights, fd};
  const long failed = syscall(kAddRule, ruleset, 1, &rule, 0);
  if (failed != 0) give_up(path.c_str());
  close(fd);
}

void limit_files(const std::string& own, const std::vector<std::string>& readable) {
  const long version = syscall(kCreateRuleset, nullptr, 0, 1);
  if (version < 1)
    give_up("this system has no Landlock (Linux 5.13, enabled in its configuration)");
  // Rights by version: 13, then refer, truncate, (network), ioctl of devices.
  const int rights = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
  const Ruleset wanted{(uint64_t{1} << rights) - 1, version >= 4 ? uint64_t{3} : 0,
                       version >= 6 ? uint64_t{3} : 0};
  const size_t size = version >= 6 ? sizeof wanted : version >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(syscall(kCreateRuleset, &wanted, size, 0));
  if (ruleset < 0) give_up("Landlock");
  for (const std::string& folder : readable)
    allow(ruleset, folder, kExecute | kReadFile | kReadFolder);
  for (const char* file : {"/etc/ld.so.cache", "/dev/urandom", "/dev/zero"})
    allow(ruleset, file, kReadFile);
  allow(ruleset, "/dev/null", kReadFile | kWriteFile | (version >= 3 ? kTruncate : 0));
  allow(ruleset, own, wanted.files);
  if (syscall(kRestrictSelf, ruleset, 0) != 0) give_up("Landlock");
  close(ruleset);
}

// ---- network, processes and rights that Landlock does not cover: seccomp ----

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0; // refused below
#endif

constexpr long kRefused[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    // other processes
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_setpgid,
    SYS_setsid,
    SYS_setpriority,
    SYS_sched_setaffinity,
    SYS_sched_setscheduler,
    SYS_ioprio_set,
    // attributes of files
    SYS_fchmod,
    SYS_fchmodat,
    452 /* fchmodat2 */,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    // the system
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_open_by_handle_at,
    SYS_init_module,
    SYS_finit_module,
    SYS_reboot,
    425 /* io_uring_setup */,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};

class Filter {
public:
  static constexpr uint32_t kNumber = offsetof(seccomp_data, nr);
  static constexpr uint32_t kArch = offsetof(seccomp_data, arch);
  static constexpr uint32_t kFirst = offsetof(seccomp_data, args); // the low half

  void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
  void answer(uint32_t what) { add(BPF_RET | BPF_K, what, 0, 0); }
  void refuse(int number) { answer(SECCOMP_RET_ERRNO | static_cast<uint32_t>(number)); }
  // Makes the next `count` instructions run only when the loaded number has this relation.
  void when_equal(uint32_t value, uint8_t count) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
  }
  void when_different(uint32_t value, uint8_t count) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0);
  }
  void when_no_bit(uint32_t bits, uint8_t count) {
    add(BPF_JMP | BPF_JSET | BPF_K, bits, count, 0);
  }
  void when_above(uint32_t value, uint8_t count) {
    add(BPF_JMP | BPF_JGT | BPF_K, value, 0, count);
  }
  void install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) give_up("seccomp");
  }

private:
  void add(int code, uint32_t value, uint8_t if_true, uint8_t if_false) {
    code_.push_back({static_cast<uint16_t>(code), if_true, if_false, value});
  }
  std::vector<sock_filter> code_;
};

void limit_calls() {
  if (kMachine == 0) {
    errno = ENOSYS;
    give_up("seccomp on this machine");
  }
  constexpr uint32_t kThread = 0x10000; // CLONE_THREAD
  Filter filter;
  filter.load(Filter::kArch);
  filter.when_different(kMachine, 1);
  filter.answer(SECCOMP_RET_KILL_PROCESS);
  filter.load(Filter::kNumber);
  filter.when_above(0x3FFFFFFF, 1); // the x32 calls
  filter.answer(SECCOMP_RET_KILL_PROCESS);
  for (long number : kRefused) {
    filter.when_equal(static_cast<uint32_t>(number), 1);
    filter.refuse(EPERM);
  }
  filter.when_equal(435, 1); // clone3, whose flags are in memory: the C library then uses clone
  filter.refuse(ENOSYS);
  filter.when_equal(SYS_clone, 4);
  filter.load(Filter::kFirst);
  filter.when_no_bit(kThread, 1);
  filter.refuse(EPERM);
  filter.load(Filter::kNumber);
  filter.when_equal(SYS_tgkill, 4); // abort() is a signal to oneself
  filter.load(Filter::kFirst);
  filter.when_different(static_cast<uint32_t>(getpid()), 1);
  filter.refuse(EPERM);
  filter.load(Filter::kNumber);
  filter.when_equal(SYS_prlimit64, 3);
  filter.load(Filter::kFirst);
  filter.when_different(0, 1);
  filter.refuse(EPERM);
  filter.answer(SECCOMP_RET_ALLOW);
  filter.install();
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

} // namespace

// Arguments: FOLDER SECONDS MEMORY_MIB FILES_MIB READABLE (one folder per line) INTERPRETER
// PROGRAM.
int become_limited(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "limits: this word is for dllm eval itself\n");
    return kCannotLimit;
  }
  end_with_parent();
  const std::string own = argv[0];
  const int64_t seconds = std::atoll(argv[1]);
  constexpr int64_t kMib = int64_t{1} << 20;
  if (syscall(436 /* close_range */, 3, ~0u, 0) != 0) give_up("close_range");
  if (chdir(own.c_str()) != 0) give_up(own.c_str());
  // Where the system allows it, the program gets a network without devices and loses the rights of
  // root.
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) unshare(CLONE_NEWNET);
  limit(RLIMIT_CPU, seconds, "processor time");
  limit(RLIMIT_AS, std::atoll(argv[2]) * kMib, "memory");
  limit(RLIMIT_FSIZE, std::atoll(argv[3]) * kMib, "size of files");
  limit(RLIMIT_NOFILE, 64, "open files");
  limit(RLIMIT_CORE, 0, "core files");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) give_up("no_new_privs");
  limit_files(own, parts_of(argv[4]));
  limit_calls();
  std::string home = "HOME=" + own, path = "PATH=/usr/bin:/bin", language = "LANG=C.UTF-8";
  std::string name = "python", isolated = "-I", no_cache = "-B";
  char* words[] = {name.data(), isolated.data(), no_cache.data(), argv[6], nullptr};
  char* around[] = {home.data(), path.data(), language.data(), nullptr};
  execve(argv[5], words, around);
  give_up(argv[5]);
}

} // namespace dllm::cli
