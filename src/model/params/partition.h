#pragma once
// Decides how the ranks of a mesh share the parameters of a model: the dimension that is cut, and
// the axis. One table maps the purpose of a parameter to its cut. Families and layer kinds do not
// depend on it.

#include "graph/graph.h"
#include "graph/mesh.h"
#include "model/config.h"
#include "model/params/param_map.h"

#include <vector>

namespace dllm::model {

// Sets ParamSpec::partition of all parameters of a model. Attention is cut between heads, together
// with its output product; the matrices of a network are cut together too. Stacks of experts are
// cut between experts. A parameter that does not divide by the ranks stays whole.
void set_partitions(std::vector<ParamSpec>& specs, const ModelConfig& config,
                    const graph::Mesh& mesh);
// Returns the partition of an adapter's half from the partition of its base matrix. With `down` the
// half is (rank, in), else (out, rank).
Partition adapter_partition(const Partition& base, bool down);
// Returns the parameters of a model's family, cut for the mesh of an engine, and then those of the
// networks in ModelConfig::parts.
std::vector<ParamSpec> partitioned_params(const ModelConfig& config, const graph::Mesh& mesh);

} // namespace dllm::model
