#pragma once
// Ranks of one process, each with a CPU engine and a thread of its own.

#include "base/error.h"
#include "comm/communicator.h"
#include "comm/thread_ranks.h"
#include "cpu/engine.h"
#include "graph/engine.h"

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace dllm::test {

// Several ranks of one process, each with an engine; run() starts a thread per rank.
class RankThreads {
public:
  explicit RankThreads(int64_t size, const char* check = "none")
      : communicators_(comm::make_thread_ranks(size)) {
    for (const auto& communicator : communicators_) {
      Options options(graph::engine_schema());
      options.set_i64("threads", 1);
      options.set_str("check", check);
      engines_.push_back(cpu::make_rank_engine(options, communicator));
    }
  }
  graph::Engine& engine(int64_t rank) { return *engines_[static_cast<size_t>(rank)]; }
  comm::Communicator& communicator(int64_t rank) {
    return *communicators_[static_cast<size_t>(rank)];
  }

  // fn(rank) on a thread each. The errors by rank; Code::ok where there was none.
  std::vector<Error> run(const std::function<void(int64_t rank)>& fn) {
    std::vector<Error> errors(engines_.size(), Error(Code::ok, ""));
    std::vector<std::thread> threads;
    for (size_t r = 0; r < engines_.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          fn(static_cast<int64_t>(r));
        } catch (const Error& error) {
          errors[r] = error;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

private:
  std::vector<std::shared_ptr<comm::Communicator>> communicators_;
  std::vector<std::shared_ptr<graph::Engine>> engines_;
};

} // namespace dllm::test
