#pragma once
// Graphs through emit() and a plugin's compiler, without an engine around them.

#include "graph/op.h"
#include "graph/passes.h"
#include "pjrt/emit/emit.h"
#include "pjrt/plugin/client.h"
#include "unit/pjrt/plugins.h"

#include <string>
#include <vector>

namespace dllm::pjrt {

// One rank a device: inputs[rank], results [rank], ranks as many as the mesh has.
inline std::vector<std::vector<Tensor>>
run_ranks(const std::shared_ptr<const Client>& client, const graph::Graph& graph,
          const std::vector<std::vector<Tensor>>& inputs, const EmitOptions& options,
          const std::vector<std::pair<std::string, FlagValue>>& flags = {}) {
  CompileOptions compile;
  compile.replicas = options.mesh.ranks();
  compile.flags = needed_flags(client->platform_name());
  compile.flags.insert(compile.flags.end(), flags.begin(), flags.end());
  const auto program = client->compile(emit(graph, options), compile);
  std::vector<std::vector<Array>> given(inputs.size());
  std::vector<std::vector<const Array*>> arguments(inputs.size());
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    const Device& device = client->devices().at(rank);
    for (const Tensor& input : inputs[rank]) given[rank].push_back(client->upload(input, device));
    for (const Array& array : given[rank]) arguments[rank].push_back(&array);
  }
  const auto made = program->run(arguments);
  std::vector<std::vector<Tensor>> results(made.size());
  for (size_t rank = 0; rank < made.size(); ++rank) {
    for (const Array& array : made[rank]) results[rank].push_back(array.read());
  }
  return results;
}

inline std::vector<Tensor>
run_emitted(const std::shared_ptr<const Client>& client, const graph::Graph& graph,
            const std::vector<Tensor>& inputs, const EmitOptions& options = {},
            const std::vector<std::pair<std::string, FlagValue>>& flags = {}) {
  return run_ranks(client, graph, {inputs}, options, flags).at(0);
}

// Fused operations by their definitions, those that are written as they are left alone.
inline std::shared_ptr<graph::Graph> plain(const graph::Graph& graph) {
  std::vector<std::string> written;
  for (const graph::OpDef* op : graph::all_ops()) {
    if (hlo::find_emitter(op->name)) written.emplace_back(op->name);
  }
  return graph::decompose(graph, written);
}

} // namespace dllm::pjrt
