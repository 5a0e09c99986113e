#pragma once
// Where plugins lie: a path, or a platform's name that is looked up.

#include <string>

namespace dllm::pjrt {

// The path of a plugin. `name` is a path (holds a slash or ends in .so), or cpu, tpu or cuda,
// looked for in the folders of DLLM_PLUGINS (separated by colons), in TPU_LIBRARY_PATH, and among
// the Python packages of VIRTUAL_ENV, CONDA_PREFIX, the user and the system. Fails with not_found
// naming what was tried and the package to get, with invalid_argument when `name` is none of these.
std::string find_plugin(const std::string& name);

} // namespace dllm::pjrt
