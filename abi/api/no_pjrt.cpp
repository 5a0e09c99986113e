// Takes the place of src/pjrt in a build without it (DLLM_PJRT=OFF).

#include "base/error.h"
#include "pjrt/engine.h"

namespace dllm::pjrt {

std::shared_ptr<graph::Engine> make_engine(const Options&) {
  fail_with_hint("configure with -DDLLM_PJRT=ON, or use engine.kind cpu", Code::unimplemented,
                 "this build of dllm has no pjrt engine");
}

} // namespace dllm::pjrt
