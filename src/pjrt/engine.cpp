#include "pjrt/engine.h"

#include "base/error.h"

namespace dllm::pjrt {

std::shared_ptr<graph::Engine> make_engine(const Options&) {
  fail(Code::unimplemented, "engine kind pjrt is being built");
}

} // namespace dllm::pjrt
