// Kept blocks: what is reused, the bound, and that no allocation is refused because of them.

#include "cpu/memory.h"

#include "base/error.h"
#include "graph/ops.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/run_graph.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Counts what the system gives, and refuses beyond a number of bytes.
class CountedHost final : public HostMemory {
public:
  void* allocate(int64_t bytes, int64_t alignment) override {
    const std::lock_guard lock(mutex_);
    if (held + bytes > most) return nullptr;
    void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(bytes));
    living_[memory] = bytes;
    held += bytes;
    ++calls;
    return memory;
  }
  void free(void* memory, int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(living_.at(memory), bytes);
    living_.erase(memory);
    held -= bytes;
    std::free(memory);
    if (on_free) on_free();
  }
  int64_t held = 0, calls = 0, most = INT64_MAX;
  std::function<void()> on_free;

private:
  std::mutex mutex_;
  std::map<void*, int64_t> living_;
};

struct Memory {
  std::shared_ptr<CountedHost> host = std::make_shared<CountedHost>();
  std::shared_ptr<MemoryLedger> ledger = std::make_shared<MemoryLedger>(host);

  std::unique_ptr<Block> block(int64_t bytes, BlockUse use = BlockUse::run) const {
    return std::make_unique<Block>(ledger, bytes, "a test", use);
  }
};

TEST(Memory, ALargeBlockOfARunIsGivenToTheNext) {
  const Memory memory;
  const std::byte* first = memory.block(32 * kMiB)->data();
  EXPECT_EQ(memory.ledger->used(), 0);
  EXPECT_EQ(memory.ledger->kept(), 32 * kMiB);
  const auto next = memory.block(30 * kMiB); // about that size
  EXPECT_EQ(next->data(), first);
  EXPECT_EQ(next->bytes(), 30 * kMiB);
  EXPECT_EQ(memory.ledger->used(), 32 * kMiB); // what it holds
  EXPECT_EQ(memory.ledger->kept(), 0);
  EXPECT_EQ(memory.host->calls, 1);
}

// To unmap takes long: others may count blocks meanwhile. With the lock held this does not return.
TEST(Memory, IsFreedOutsideOfTheLock) {
  const Memory memory;
  int64_t seen = 0;
  memory.host->on_free = [&] {
    memory.ledger->remove(0);
    ++seen;
  };
  memory.block(32 * kMiB);
  EXPECT_TRUE(memory.ledger->drop_kept());
  memory.block(32 * kMiB);
  memory.block(64 * kMiB); // drops the other one
  memory.ledger->close();
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(memory.host->held, 0);
  memory.host->on_free = nullptr;
}

TEST(Memory, OtherBlocksGoBackAtOnce) {
  const Memory memory;
  memory.block(32 * kMiB, BlockUse::lasting); // a weight
  memory.block(kMiB);                         // small
  EXPECT_EQ(memory.host->held, 0);
  memory.block(32 * kMiB);
  const auto weight = memory.block(32 * kMiB, BlockUse::lasting); // takes no kept one
  EXPECT_EQ(memory.host->calls, 4);
  EXPECT_EQ(memory.ledger->kept(), 0); // both would be more than was ever in use
  EXPECT_NE(memory.block(16 * kMiB), nullptr);
}

TEST(Memory, KeptBlocksStayBelowThePeak) {
  const Memory memory;
  for (int i = 0; i < 30; ++i) {
    const auto a = memory.block((5 + i * 7 % 40) * kMiB),
               b = memory.block((5 + i * 11 % 30) * kMiB);
    EXPECT_LE(memory.ledger->used() + memory.ledger->kept(), memory.ledger->peak());
    EXPECT_LE(memory.host->held, memory.ledger->peak() + 1024);
  }
  EXPECT_GT(memory.ledger->kept(), 0);
  memory.ledger->add(memory.ledger->peak()); // a mapped file
  EXPECT_EQ(memory.ledger->kept(), 0);
  memory.ledger->remove(memory.ledger->peak());
}

TEST(Memory, ALimitIsNeverReachedBecauseOfKeptBlocks) {
  const Memory memory;
  memory.ledger->set_limit(64 * kMiB);
  memory.block(60 * kMiB);
  EXPECT_EQ(memory.ledger->kept(), 60 * kMiB);
  const auto other = memory.block(40 * kMiB);
  EXPECT_EQ(memory.ledger->kept(), 0);
  EXPECT_EQ(thrown_by([&] { memory.block(30 * kMiB); }).code(), Code::resource_exhausted);
  memory.block(20 * kMiB);
  EXPECT_EQ(memory.ledger->kept(), 20 * kMiB);
  memory.ledger->set_limit(50 * kMiB);
  EXPECT_EQ(memory.ledger->kept(), 0);
}

TEST(Memory, ARefusalOfTheSystemDropsThem) {
  const Memory memory;
  { const auto a = memory.block(20 * kMiB), b = memory.block(40 * kMiB); }
  EXPECT_EQ(memory.ledger->kept(), 60 * kMiB);
  memory.host->most = 25 * kMiB;
  EXPECT_NE(memory.block(10 * kMiB)->data(), nullptr);
  EXPECT_LE(memory.host->held, 25 * kMiB);
  memory.host->most = 0;
  EXPECT_EQ(thrown_by([&] { memory.block(70 * kMiB); }).code(), Code::resource_exhausted);
  EXPECT_EQ(memory.ledger->used(), 0);
}

TEST(Memory, AReleaseFreesAll) {
  Memory memory;
  memory.block(8 * kMiB);
  auto held = memory.block(9 * kMiB);
  EXPECT_TRUE(memory.ledger->drop_kept() || memory.ledger->kept() == 0);
  memory.ledger->close();
  held.reset();
  EXPECT_EQ(memory.host->held, 0);
}

// Two million numbers: the second run writes where the first one did, when its result is no longer
// held.
TEST(Memory, RunsReuseTheirResults) {
  const auto engine = test_engine();
  auto graph = std::make_shared<graph::Graph>("double");
  const graph::Value x = graph->input("x", DType::f32, {2048, 1024});
  graph->output("y", add(x, x));
  const auto program = engine->compile(graph);
  const std::vector<graph::BufferRef> inputs =
      upload_all(*engine, {random_tensor({2048, 1024}, 1)});
  const int64_t used = engine->i64("memory_used");
  const Tensor first = program->run(inputs)[0]->read();
  const std::byte* second = program->run(inputs)[0]->read().bytes();
  const Tensor third = program->run(inputs)[0]->read();
  EXPECT_NE(first.bytes(), second);
  EXPECT_EQ(second, third.bytes());
  EXPECT_EQ(engine->describe()["memory"]["kept"], 0);
  EXPECT_EQ(engine->i64("memory_used"), used + 2 * 8 * kMiB);
  program->run(inputs);
  EXPECT_EQ(engine->describe()["memory"]["kept"], 8 * kMiB);
  engine->trim();
  EXPECT_EQ(engine->describe()["memory"]["kept"], 0);
}

} // namespace
} // namespace dllm::cpu
