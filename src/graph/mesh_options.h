#pragma once
// The mesh that the options of an engine ask for, and whether there are devices for it.

#include "base/options.h"
#include "graph/mesh.h"

#include <cstdint>
#include <string>

namespace dllm::graph {

// Options mesh and ranks of kind "engine": ranks alone is an axis data. Fails with invalid_argument where mesh cannot be
// read or ranks is another number.
Mesh mesh_of(const Options& options);

// Where each rank needs a device of its own. owner: what has the devices, as "plugin libtpu.so". more: how to get more of
// them, for the hint; may be empty. Fails with invalid_argument, naming both numbers, where there are fewer than ranks.
void expect_devices(const Mesh& mesh, int64_t devices, const std::string& owner,
                    const std::string& more);

} // namespace dllm::graph
