#pragma once
// Engines of several devices of a plugin, for tests.

#include "graph/engine.h"
#include "pjrt/engine.h"
#include "unit/pjrt/plugins.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::pjrt {

// mesh "": one rank. As many devices as ranks, unless `devices` is set.
inline Options mesh_options(const std::string& plugin, const std::string& mesh,
                            int64_t devices = 0) {
  Options options(graph::engine_schema());
  options.set_str("kind", "pjrt");
  options.set_str("plugin", plugin);
  options.set_str("pjrt.cache", "off");
  options.set_str("mesh", mesh);
  const int64_t count = devices > 0 ? devices : graph::Mesh::parse(mesh).ranks();
  options.set_text("pjrt.client", "cpu_device_count=" + std::to_string(count));
  return options;
}

inline std::shared_ptr<graph::Engine> mesh_engine(const std::string& plugin,
                                                  const std::string& mesh) {
  return make_engine(mesh_options(plugin, mesh));
}

} // namespace dllm::pjrt
