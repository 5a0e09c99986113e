#pragma once
// Reads the mesh from the options of an engine and checks that there are enough devices.

#include "base/options.h"
#include "graph/mesh.h"

#include <cstdint>
#include <string>

namespace dllm::graph {

// Returns the mesh of the engine options `mesh` and `ranks`. Without `mesh`, `ranks` is the size of
// the axis data. Fails with invalid_argument if `mesh` cannot be parsed or has another number of
// ranks.
Mesh mesh_of(const Options& options);

// Fails with invalid_argument, naming both numbers, if there are fewer devices than ranks. owner:
// the owner of the devices, such as "plugin libtpu.so". more: how to get more devices, for the
// hint; may be empty.
void expect_devices(const Mesh& mesh, int64_t devices, const std::string& owner,
                    const std::string& more);

} // namespace dllm::graph
