#include "graph/mesh_options.h"

#include "base/error.h"

#include <fmt/format.h>

namespace dllm::graph {

Mesh mesh_of(const Options& options) {
  Mesh mesh = Mesh::parse(options.str("mesh"));
  const int64_t ranks = options.i64("ranks");
  if (ranks == 0 || ranks == mesh.ranks()) return mesh;
  if (mesh.ranks() > 1) {
    fail_with_hint("leave ranks out", Code::invalid_argument, "ranks = {}, but the mesh {} has {}",
                   ranks, options.str("mesh"), mesh.ranks());
  }
  return mesh.set(Axis::data, ranks);
}

void expect_devices(const Mesh& mesh, int64_t devices, const std::string& owner,
                    const std::string& more) {
  if (mesh.ranks() <= devices) return;
  const std::string smaller = devices == 1 ? std::string("leave mesh and ranks out")
                                           : fmt::format("use a mesh of at most {} ranks", devices);
  fail_with_hint(more.empty() ? smaller : fmt::format("{}, or {}", more, smaller),
                 Code::invalid_argument, "a mesh of {} needs {} devices, {} has {}", mesh.text(),
                 mesh.ranks(), owner, devices);
}

} // namespace dllm::graph
