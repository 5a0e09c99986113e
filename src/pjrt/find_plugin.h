#pragma once
// Where plugins lie: a path, or a platform's name that is looked up.

#include <string>
#include <vector>

namespace dllm::pjrt {

// The path of a plugin. `name` is a path (holds a slash or ends in .so), or cpu, tpu or cuda,
// looked for in the folders of DLLM_PLUGINS (separated by colons), in TPU_LIBRARY_PATH, and among
// the Python packages of VIRTUAL_ENV, CONDA_PREFIX, the user and the system. Fails with not_found
// naming what was tried and the package to get, with invalid_argument when `name` is none of these.
std::string find_plugin(const std::string& name);

// Every platform that has a name, with all its plugins that are found; nothing is loaded.
struct PluginSearch {
  std::string platform;           // "cpu" "tpu" "cuda"
  std::vector<std::string> paths; // the first is what find_plugin answers
  std::string packages;           // that hold one: "lammps-jax-pjrt-cpu or xla-cpu-pjrt"
  std::string looked_in;          // folders
};
std::vector<PluginSearch> find_plugins();

} // namespace dllm::pjrt
