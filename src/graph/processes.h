#pragma once
// Processes that make the same calls: which ranks of a mesh each of them has, and work that fails on all when it fails on one.

#include "graph/mesh.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dllm::graph {

// The ranks of a mesh shared out between processes: process p has the ranks p * here.ranks() up to the next one's. Along
// every axis both meshes together make the whole one, and a process has neighbouring places: the part of an array that it
// has is Layout::part on `processes`, and the part of its rank r is Layout::part of that on `here`.
struct ProcessMesh {
  // Fails with invalid_argument where the ranks of an axis do not divide so.
  ProcessMesh(const Mesh& whole, int64_t count);

  Mesh processes; // of `count` ranks
  Mesh here;      // the ranks of each process
};

// What each process gives, by process: Engine::exchange.
using WordExchange = std::function<std::vector<std::string>(const std::string& own)>;

// Calls work() if `here`; returns when it has ended on all processes, or throws: its own error, else that of the first
// process that failed.
void run_together(const WordExchange& exchange, bool here, const std::function<void()>& work);

} // namespace dllm::graph
