#include "runtime/programs.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace dllm::runtime {
namespace {

TEST(ProgramCache, KeepsTheLastUsed) {
  ProgramCache<std::string, int> cache(2);
  int made = 0;
  const auto get = [&](const std::string& key) { return cache.get(key, [&] { return ++made; }); };
  EXPECT_EQ(get("a"), 1);
  EXPECT_EQ(get("b"), 2);
  EXPECT_EQ(get("a"), 1); // a is now the last used
  EXPECT_EQ(get("c"), 3); // b leaves
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(get("a"), 1);
  EXPECT_EQ(get("b"), 4);
  cache.clear();
  EXPECT_EQ(get("a"), 5);
}

TEST(ProgramCache, AnotherVersionRemovesAll) {
  ProgramCache<int, int> cache(2);
  int made = 0;
  const auto get = [&](int64_t version) {
    cache.set_version(version);
    return cache.get(1, [&] { return ++made; });
  };
  EXPECT_EQ(get(3), 1);
  EXPECT_EQ(get(3), 1);
  EXPECT_EQ(get(4), 2);
  EXPECT_EQ(get(3), 3);
}

TEST(ProgramCache, AFailedCompilationLeavesNoEntry) {
  ProgramCache<int, int> cache(2);
  EXPECT_THROW(cache.get(1, []() -> int { throw std::runtime_error("no memory"); }),
               std::runtime_error);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.get(1, [] { return 7; }), 7);
}

} // namespace
} // namespace dllm::runtime
