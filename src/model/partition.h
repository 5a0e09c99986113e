#pragma once
// How the ranks of a mesh share the parameters of a model: which dimension of each one is cut, over which axis. One table
// maps what a parameter is for to its cut; families and layer kinds do not know it.

#include "graph/graph.h"
#include "graph/mesh.h"
#include "model/config.h"
#include "model/param_map.h"

#include <vector>

namespace dllm::model {

// Sets ParamSpec::partition of all parameters of a model. What does not divide by the ranks stays whole: attention is cut
// between heads only, together with its output product; so are the matrices of a network. Stacks of experts are cut
// between experts.
void set_partitions(std::vector<ParamSpec>& specs, const ModelConfig& config,
                    const graph::Mesh& mesh);
// Of an adapter's half next to a base: `down` (rank, in) or up (out, rank).
Partition adapter_partition(const Partition& base, bool down);
// The parameters of a model's family, cut for the mesh of an engine.
std::vector<ParamSpec> partitioned_params(const ModelConfig& config, const graph::Mesh& mesh);

} // namespace dllm::model
