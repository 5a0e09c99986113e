#include "graph/engine.h"

#include "base/error.h"

namespace dllm::graph {

std::string Program::text(std::string_view form) const {
  fail_with_hint("use an engine of kind pjrt", Code::unimplemented, "this engine has no program text of form {}", form);
}

void Engine::expect_runs(const Placement& place) const {
  if (place.rank < 0 || place.rank >= place.mesh.ranks())
    fail(Code::out_of_range, "rank {} is not in a mesh of {}", place.rank, place.mesh.text());
  if (runs(place)) return;
  fail_with_hint("use a mesh of one rank, or an engine that was made as this rank of the mesh", Code::unimplemented,
                 "this {} engine is rank {} of {} and cannot be rank {} of a mesh of {}", kind(), i64("rank"),
                 i64("ranks"), place.rank, place.mesh.text());
}

std::shared_ptr<Program> Engine::compile(std::shared_ptr<const Graph> graph, const Placement& place) {
  expect_runs(place);
  return compile(std::move(graph));
}

BufferRef Engine::upload(const Tensor& part, bool share, const Placement& place, const Layout& layout) {
  expect_runs(place);
  layout.whole_shape(part.shape(), place.mesh);  // its checks
  BufferRef made = upload(part, share);
  made->set_layout(layout);
  return made;
}

BufferRef Engine::upload_weight(const Tensor& part, bool keep_plain, const Placement& place, const Layout& layout,
                                const Task* task) {
  expect_runs(place);
  layout.whole_shape(part.shape(), place.mesh);
  BufferRef made = upload_weight(part, keep_plain, task);
  made->set_layout(layout);
  return made;
}

std::string Program::find_non_finite(std::span<const BufferRef>, const Task*) { return {}; }

}  // namespace dllm::graph
