// The search for plugins, and the environment that they read while they are loaded.

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/named_table.h"
#include "pjrt/plugin/plugin.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

namespace {

// files: paths inside a folder of Python packages, the preferred one first. packages: names for
// errors.
struct Platform {
  std::string_view name;
  std::vector<std::string> files;
  const char* packages;
};

const std::vector<Platform>& platforms() {
  static const std::vector<Platform> known{
      {"cpu",
       {"lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "fastatomstruct_xla_cpu/libpjrt_cpu.so",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
       "lammps-jax-pjrt-cpu or xla-cpu-pjrt"},
      {"tpu", {"libtpu/libtpu.so"}, "libtpu"},
      {"cuda",
       {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
       "jax-cuda13-pjrt or jax-cuda12-pjrt"}};
  return known;
}

// Adds the folders of packages under a prefix such as /usr/local: lib/python3*/site-packages.
void add_package_folders(const std::string& prefix, std::vector<std::string>& folders) {
  const std::string lib = join_path(prefix, "lib");
  if (prefix.empty() || !is_directory(lib)) return;
  for (const std::string& python : list_directory(lib)) {
    if (!python.starts_with("python3")) continue;
    for (const char* kind : {"site-packages", "dist-packages"}) {
      const std::string folder = join_path(join_path(lib, python), kind);
      if (is_directory(folder)) folders.push_back(folder);
    }
  }
}

// Returns the folders that a variable such as PATH names.
std::vector<std::string> folders_of(const char* name) {
  std::vector<std::string> folders;
  const std::string list = variable(name);
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::vector<std::string> own_folders() {
  return folders_of("DLLM_PLUGINS");
}

// Returns the folders of packages of every Python that pip may belong to. These are the Pythons of
// the environment, the user, PATH, pyenv and the system.
std::vector<std::string> package_folders() {
  const std::string home = variable("HOME");
  std::vector<std::string> prefixes = {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"),
                                       home.empty() ? home : join_path(home, ".local")};
  for (const std::string& folder : folders_of("PATH")) {
    if (file_name(folder) == "bin" && file_exists(join_path(folder, "python3")))
      prefixes.push_back(parent_path(folder));
  }
  std::string pyenv = variable("PYENV_ROOT");
  if (pyenv.empty() && !home.empty()) pyenv = join_path(home, ".pyenv");
  const std::string versions = join_path(pyenv, "versions");
  if (!pyenv.empty() && is_directory(versions)) {
    for (const std::string& version : list_directory(versions))
      prefixes.push_back(join_path(versions, version));
  }
  for (const char* system : {"/usr/local", "/usr"}) prefixes.emplace_back(system);
  std::vector<std::string> folders, known;
  for (const std::string& prefix : prefixes) {
    if (std::find(known.begin(), known.end(), prefix) != known.end()) continue;
    known.push_back(prefix);
    add_package_folders(prefix, folders);
  }
  return folders;
}

std::vector<std::string> candidates(const Platform& platform) {
  std::vector<std::string> paths;
  for (const std::string& folder : own_folders()) {
    for (const std::string& file : platform.files) {
      paths.push_back(join_path(folder, file));
      // A plugin may have been unpacked without the folder of its package.
      paths.push_back(join_path(folder, file_name(file)));
    }
  }
  if (platform.name == "tpu" && !variable("TPU_LIBRARY_PATH").empty())
    paths.push_back(variable("TPU_LIBRARY_PATH"));
  for (const std::string& folder : package_folders()) {
    for (const std::string& file : platform.files) paths.push_back(join_path(folder, file));
  }
  return paths;
}

std::string looked_in() {
  std::vector<std::string> folders = own_folders();
  for (std::string& folder : package_folders()) folders.push_back(std::move(folder));
  return folders.empty() ? "any folder of packages" : fmt::format("{}", fmt::join(folders, ", "));
}

[[noreturn]] void fail_nothing_found(const Platform& platform) {
  fail_with_hint(fmt::format("run pip install {}, or set DLLM_PLUGINS to the folder of the plugin, "
                             "or plugin to its path",
                             platform.packages),
                 Code::not_found, "there is no plugin for {}: none of {} is in {}", platform.name,
                 fmt::join(platform.files, ", "), looked_in());
}

} // namespace

std::string find_plugin(const std::string& name) {
  if (name.empty()) {
    fail_with_hint("set plugin to a path, or to cpu, tpu or cuda", Code::invalid_argument,
                   "an engine of kind pjrt needs a plugin");
  }
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return name;
  const Lookup lookup{"platform", "", "use cpu, tpu, cuda or the path of a plugin",
                      Code::invalid_argument};
  const Platform& platform = need_named(platforms(), name, &Platform::name, lookup);
  for (const std::string& path : candidates(platform)) {
    if (file_exists(path)) return path;
  }
  fail_nothing_found(platform);
}

std::vector<PluginSearch> find_plugins() {
  std::vector<PluginSearch> all;
  for (const Platform& platform : platforms()) {
    PluginSearch& search = all.emplace_back();
    search.platform = platform.name;
    search.packages = platform.packages;
    search.looked_in = looked_in();
    for (std::string& path : candidates(platform)) {
      const bool new_one =
          std::find(search.paths.begin(), search.paths.end(), path) == search.paths.end();
      if (new_one && file_exists(path)) search.paths.push_back(std::move(path));
    }
  }
  return all;
}

namespace {

constexpr const char* kVendor = "0x1ae0";
// PCI ids of v2 and v3, v4, v5p, v5e, v6e, 7x.
constexpr std::array<std::string_view, 6> kChips{"0x0027", "0x005e", "0x0062",
                                                 "0x0063", "0x006f", "0x0076"};

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

void set_default(const char* name, const char* value) {
  ::setenv(name, value, 0);
}

} // namespace

bool has_tpu(const std::string& root) {
  if (!is_directory(root)) return false;
  for (const std::string& device : list_directory(root)) {
    const std::string folder = join_path(root, device);
    if (first_word(join_path(folder, "vendor")) != kVendor) continue;
    const std::string chip = first_word(join_path(folder, "device"));
    if (std::find(kChips.begin(), kChips.end(), chip) != kChips.end()) return true;
  }
  return false;
}

void prepare_environment(bool compile_only) {
  set_default("TF_CPP_MIN_LOG_LEVEL", "2");
  // Without a TPU the plugin would repeat requests for its metadata for most of a minute.
  if (compile_only || !has_tpu()) set_default("TPU_SKIP_MDS_QUERY", "1");
  if (compile_only) {
    // Without it a second process at the same time would fail.
    set_default("ALLOW_MULTIPLE_LIBTPU_LOAD", "1");
    set_default("TPU_WORKER_HOSTNAMES", "localhost");
    set_default("TPU_ACCELERATOR_TYPE", "v5e-8"); // any type avoids an error message
  }
}

} // namespace dllm::pjrt
