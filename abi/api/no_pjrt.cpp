// Replaces src/pjrt in a build without it (DLLM_PJRT=OFF).

#include "base/error.h"
#include "pjrt/engine.h"

#include <nlohmann/json.hpp>

namespace dllm::pjrt {
namespace {

[[noreturn]] void fail_not_built() {
  fail_with_hint("configure with -DDLLM_PJRT=ON, or use engine.kind cpu", Code::unimplemented,
                 "this build of dllm has no pjrt engine");
}

} // namespace

std::shared_ptr<graph::Engine> make_engine(const Options&) {
  fail_not_built();
}
Json list_plugins() {
  fail_not_built();
}
Json describe_plugin(const std::string&) {
  fail_not_built();
}

} // namespace dllm::pjrt
