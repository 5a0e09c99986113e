// Ranks of a mesh that are shared out between processes.

#include "graph/processes.h"

#include "base/error.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

namespace dllm::graph {
namespace {

using dllm::test::expect_error;

Tensor numbered(const Shape& shape) {
  Tensor made(DType::f32, shape);
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), 0.0f);
  return made;
}

bool are_equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}

std::vector<Layout> layouts() {
  return {Layout(),
          Layout().cut(Axis::fsdp, 0),
          Layout().cut(Axis::tensor, 1),
          Layout().cut(Axis::fsdp, 0).cut(Axis::tensor, 1),
          Layout().cut(Axis::fsdp, 1).cut(Axis::tensor, 1),
          Layout().cut(Axis::data, 0).cut(Axis::tensor, 1)};
}

// The part of a rank is its part of the part of its process, and both joins make the array again.
TEST(ProcessMesh, PartsOfProcessesAreCutAgainBetweenTheirRanks) {
  const Tensor whole = numbered({16, 32});
  int64_t meshes = 0;
  for (const char* text : {"fsdp=4", "tensor=8", "fsdp=2,tensor=8", "fsdp=8,tensor=2",
                           "data=2,fsdp=2,tensor=2", "data=2,tensor=4", "fsdp=4,expert=2"}) {
    const Mesh mesh = Mesh::parse(text);
    for (int64_t count = 1; count <= mesh.ranks(); count *= 2, ++meshes) {
      const ProcessMesh cut(mesh, count);
      ASSERT_EQ(cut.processes.ranks(), count) << text;
      ASSERT_EQ(cut.here.ranks() * count, mesh.ranks()) << text;
      for (const Layout& layout : layouts()) {
        std::vector<Tensor> parts;
        for (int64_t process = 0; process < count; ++process) {
          const Tensor part = layout.part(whole, {cut.processes, process});
          std::vector<Tensor> here;
          for (int64_t rank = 0; rank < cut.here.ranks(); ++rank) {
            here.push_back(layout.part(part, {cut.here, rank}));
            const int64_t of_all = process * cut.here.ranks() + rank;
            EXPECT_TRUE(are_equal(here.back(), layout.part(whole, {mesh, of_all})))
                << text << " " << layout.text() << " process " << process << " rank " << rank;
          }
          parts.push_back(layout.join(here, cut.here));
        }
        EXPECT_TRUE(are_equal(layout.join(parts, cut.processes), whole))
            << text << " " << layout.text() << " " << count << " processes";
      }
    }
  }
  EXPECT_EQ(meshes, 29);
}

TEST(ProcessMesh, RefusesRanksThatDoNotDivide) {
  for (const auto& [text, count] : {std::pair<const char*, int64_t>{"fsdp=4", 3},
                                    {"fsdp=4", 8},
                                    {"fsdp=2,tensor=3", 3},
                                    {"data=3,tensor=4", 2},
                                    {"fsdp=4", 0}}) {
    expect_error(Code::invalid_argument, "between " + std::to_string(count) + " processes",
                 [text = text, count = count] { ProcessMesh(Mesh::parse(text), count); });
  }
}

TEST(RunTogether, AFailureIsThrownByAll) {
  std::vector<std::string> words{"", ""};
  const auto first = [&](const std::string& own) {
    words[0] = own;
    return words;
  };
  expect_error(Code::not_found, "its own",
               [&] { run_together(first, true, [] { fail(Code::not_found, "its own"); }); });
  const auto second = [&](const std::string& own) { return std::vector{words[0], own}; };
  expect_error(Code::not_found, "rank 0 failed: its own",
               [&] { run_together(second, true, [] {}); });
  words = {"a word", ""};
  expect_error(Code::failed_precondition, "rank 0 makes another call",
               [&] { run_together(second, true, [] {}); });
  int calls = 0;
  words = {"", ""};
  run_together(first, false, [&] { ++calls; });
  EXPECT_EQ(calls, 0);
}

} // namespace
} // namespace dllm::graph
