#pragma once
// Divides the ranks of a mesh among processes, and runs work that fails on all processes if it
// fails on one.

#include "graph/mesh.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dllm::graph {

// A mesh of processes and a mesh of the ranks inside each process. Process p has the ranks from p *
// here.ranks() to (p + 1) * here.ranks() - 1. Along every axis the sizes of both meshes multiply to
// the size of the whole mesh, and the places of a process are consecutive. The process's part of an
// array is Layout::part on `processes`; the part of its rank r is Layout::part of that part on
// `here`.
struct ProcessMesh {
  // Fails with invalid_argument if the axes cannot be divided among `count` processes.
  ProcessMesh(const Mesh& whole, int64_t count);

  Mesh processes; // its ranks are the `count` processes
  Mesh here;      // the ranks of each process
};

// Sends `own` to all processes and returns the strings of all processes: Engine::exchange.
using WordExchange = std::function<std::vector<std::string>(const std::string& own)>;

// Calls work() if `here` is true, and returns when it has ended on all processes. Throws this
// process's error, else the error of the first process that failed.
void run_together(const WordExchange& exchange, bool here, const std::function<void()>& work);

} // namespace dllm::graph
