#include "decode/array/solver.h"

#include "base/named_table.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

const std::vector<SolverKind>& solver_kinds() {
  static const std::vector<SolverKind> all = [] {
    std::vector<SolverKind> made;
    for (const auto& kind : solver_files::kTable) made.push_back(kind());
    return made;
  }();
  return all;
}

} // namespace

std::vector<std::string> solver_names() {
  return names_of(solver_kinds(), &SolverKind::name);
}

std::unique_ptr<Solver> make_solver(const std::string& name) {
  return need_named(solver_kinds(), name, &SolverKind::name, {"solver"}).make();
}

graph::Value implied_noise(const NoisyArray& array, graph::Value clean) {
  const graph::Value signal = graph::multiply(array.level.signal, clean);
  return graph::divide(graph::subtract(array.numbers, signal), array.level.sigma);
}

graph::Value at_level(const ArrayLevel& level, graph::Value clean, graph::Value noise) {
  return graph::add(graph::multiply(level.signal, clean), graph::multiply(level.sigma, noise));
}

} // namespace dllm::decode
