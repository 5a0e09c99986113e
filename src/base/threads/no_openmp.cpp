// Replaces openmp.cpp in a build without OpenMP.
#include "base/error.h"
#include "base/threads/parallel.h"

namespace dllm {

bool has_openmp() {
  return false;
}

std::shared_ptr<TaskRunner> openmp_runner(int) {
  fail_with_hint(
      "choose thread_pool = own, or build with -DDLLM_OPENMP=ON and a compiler that has OpenMP",
      Code::unimplemented, "this build has no threads of OpenMP");
}

int openmp_threads() {
  return 0;
}

} // namespace dllm
