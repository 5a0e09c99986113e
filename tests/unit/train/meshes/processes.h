#pragma once
// Engines of one rank each that exchange messages, as processes do.

#include "base/error.h"
#include "comm/communicator.h"
#include "unit/comm/mailboxes.h"
#include "unit/train/tiny.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace dllm::train {

using EngineRef = std::shared_ptr<graph::Engine>;

// work(engine) on a thread for every rank of the mesh.
inline void in_processes(const std::string& mesh,
                         const std::function<void(const EngineRef&)>& work) {
  const auto ranks = comm::test::make_message_ranks(graph::Mesh::parse(mesh).ranks());
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&, rank] {
      try {
        Options options(graph::engine_schema());
        options.set_i64("threads", 1);
        options.set_str("mesh", mesh);
        work(cpu::make_process_engine(options, rank, {}));
      } catch (const Error& error) {
        rank->abort(error);
        ADD_FAILURE() << "rank " << rank->rank() << ": " << error.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

} // namespace dllm::train
