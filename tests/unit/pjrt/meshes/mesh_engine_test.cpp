// One engine on several devices of a plugin: arrays that are cut, collectives, state that is
// changed in place, what is refused and counted.

#include "graph/ops.h"
#include "pjrt/engine_state.h"
#include "unit/pjrt/meshes/mesh_plugins.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <numeric>
#include <thread>

namespace dllm::pjrt {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::BufferRef;
using graph::Layout;
using graph::Value;
using test::error_of;
using test::expect_error;

const AxisSet kData(Axis::data), kFsdp(Axis::fsdp), kTensor(Axis::tensor);

Tensor numbered(Shape shape, float first = 0) {
  Tensor made(DType::f32, std::move(shape));
  std::iota(made.mutable_as<float>().begin(), made.mutable_as<float>().end(), first);
  return made;
}

std::vector<float> floats_of(const Tensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

const DeviceBuffer& held(const BufferRef& buffer) {
  return dynamic_cast<const DeviceBuffer&>(*buffer);
}

// The sum over all ranks of what each holds, and the largest.
std::shared_ptr<graph::Graph> summing(const Shape& part, AxisSet axes) {
  auto made = std::make_shared<graph::Graph>("summing");
  const Value x = made->input("x", {part, DType::f32, axes});
  made->output("sum", all_reduce(x, axes));
  made->output("max", all_reduce_max(x, axes));
  made->output("own", x);
  return made;
}

// state + step in place, where the state is cut over fsdp, and the sum of the new state over all.
std::shared_ptr<graph::Graph> cut_counter(int64_t part) {
  auto made = std::make_shared<graph::Graph>("counter");
  const Value state = made->input("state", {Shape{part}, DType::f32, kFsdp});
  const Value step = made->input("step", DType::f32, {1});
  const Value next = add(state, vary(step, kFsdp));
  made->output("state", next, "state");
  made->output("total", all_reduce(sum(next, {0}), kFsdp));
  return made;
}

class PjrtMesh : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine(const std::string& mesh) {
    return mesh_engine(path(), mesh);
  }
};

TEST_P(PjrtMesh, CutArraysComeBackWhole) {
  const auto mine = engine("data=2,fsdp=2,tensor=2");
  EXPECT_EQ(mine->i64("ranks"), 8);
  EXPECT_EQ(mine->mesh().text(), "2 x 2 x 2 ranks (data, fsdp, tensor)");
  EXPECT_EQ(mine->describe()["mesh"], mine->mesh().text());
  struct Case {
    Layout layout;
    Shape part;
    int64_t copies;
  };
  const Case cases[] = {
      {Layout(), {8, 12}, 8},
      {Layout().cut(Axis::fsdp, 0), {4, 12}, 4},
      {Layout().cut(Axis::fsdp, 1).cut(Axis::tensor, 0), {4, 6}, 2},
      {Layout().cut(Axis::fsdp, 1).cut(Axis::tensor, 1), {8, 3}, 2},
      {Layout().cut(Axis::data, 0).cut(Axis::fsdp, 0).cut(Axis::tensor, 1), {2, 6}, 1}};
  for (const Case& one : cases) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
      const Tensor whole = numbered({8, 12}).to(dtype);
      for (const BufferRef& buffer :
           {mine->upload_cut(whole, false, one.layout), mine->upload_cut(whole, true, one.layout),
            mine->upload_weight_cut(whole, true, one.layout)}) {
        EXPECT_EQ(buffer->shape(), one.part) << one.layout.text();
        EXPECT_EQ(buffer->layout(), one.layout);
        EXPECT_EQ(buffer->memory_bytes(), one.copies * whole.byte_size()) << one.layout.text();
        const Tensor back = buffer->read();
        ASSERT_EQ(back.shape(), whole.shape()) << one.layout.text();
        EXPECT_EQ(std::memcmp(back.bytes(), whole.bytes(), static_cast<size_t>(whole.byte_size())),
                  0)
            << one.layout.text() << " " << dtype_name(dtype);
      }
    }
  }
  // Rank r lies on device r and holds its part.
  const BufferRef cut = mine->upload_cut(numbered({8, 12}), false, Layout().cut(Axis::tensor, 0));
  for (size_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(held(cut).array(rank).read().as<float>()[0], rank % 2 == 0 ? 0 : 48) << rank;
  EXPECT_EQ(mine->upload_cut(Tensor(DType::f32, {0, 4}), false, Layout().cut(Axis::tensor, 1))
                ->read()
                .shape(),
            Shape({0, 4}));
  expect_error(Code::invalid_argument, "dimension 0 of (7, 2) does not divide by 2 ranks", [&] {
    mine->upload_cut(numbered({7, 2}), false, Layout().cut(Axis::fsdp, 0));
  });
}

TEST_P(PjrtMesh, RanksExchangePiecesOfTheirOwn) {
  const auto mine = engine("data=2,tensor=2");
  std::vector<Tensor> pieces{numbered({3}, 1), numbered({3}, 10)};
  const BufferRef x = mine->upload_pieces(pieces, kData, false);
  pieces[0].mutable_as<float>()[0] = 99; // it was copied
  const auto program = mine->compile(summing({3}, kData));
  const auto out = program->run(std::vector<BufferRef>{x});
  EXPECT_EQ(floats_of(out[0]->read()), (std::vector<float>{11, 13, 15}));
  EXPECT_EQ(floats_of(out[1]->read()), (std::vector<float>{10, 11, 12}));
  for (const BufferRef& differs : {x, out[2]}) {
    expect_error(Code::failed_precondition, "differs from rank to rank cannot be read",
                 [&] { differs->read(); });
  }
  EXPECT_EQ(floats_of(mine->upload_pieces(std::span(pieces).first(1), AxisSet(), true)->read()),
            (std::vector<float>{99, 2, 3}));
  expect_error(Code::invalid_argument, "got 3 arrays, expected 2: one for each rank of {data}",
               [&] {
                 pieces.push_back(pieces[0]);
                 mine->upload_pieces(pieces, kData, false);
               });
  expect_error(Code::invalid_argument, "arrays of the ranks differ: f32(3) and f32(4)", [&] {
    mine->upload_pieces(std::vector<Tensor>{numbered({3}), numbered({4})}, kData, false);
  });
}

// A value is equal on all ranks to the last bit: a loop that it ends must end everywhere.
TEST_P(PjrtMesh, AllRanksHaveTheSameBitsOfASum) {
  const auto mine = engine("data=8");
  std::vector<Tensor> pieces;
  for (int rank = 0; rank < 8; ++rank) {
    Tensor piece(DType::f32, {1001});
    for (size_t i = 0; i < 1001; ++i)
      piece.mutable_as<float>()[i] =
          1.0f / static_cast<float>((i * 37 + static_cast<size_t>(rank) * 11) % 97 + 3);
    pieces.push_back(piece);
  }
  const auto program = mine->compile(summing({1001}, kData));
  const auto out = program->run(std::vector<BufferRef>{mine->upload_pieces(pieces, kData, true)});
  const std::vector<float> first = floats_of(held(out[0]).array(0).read());
  for (size_t rank = 1; rank < 8; ++rank)
    EXPECT_EQ(floats_of(held(out[0]).array(rank).read()), first) << rank;
}

TEST_P(PjrtMesh, CutStateIsChangedInPlace) {
  const auto mine = engine("fsdp=4");
  const auto program = mine->compile(cut_counter(64));
  EXPECT_GE(program->plan().compiled.alias_bytes, 64 * 4); // of one device
  const BufferRef step = mine->upload(Tensor::from<float>({1}, std::vector<float>{1}));
  const Layout rows = Layout().cut(Axis::fsdp, 0);
  std::vector<BufferRef> inputs{mine->upload_cut(numbered({256}), false, rows), step};
  std::vector<uintptr_t> places;
  for (size_t rank = 0; rank < 4; ++rank)
    places.push_back(held(inputs[0]).array(rank).unsafe_pointer());
  const int64_t used = mine->i64("memory_used");
  EXPECT_EQ(used, (256 + 4) * 4); // the step is on every rank
  for (int i = 1; i <= 5; ++i) {
    std::vector<BufferRef> out = program->run(inputs);
    EXPECT_TRUE(held(inputs[0]).is_donated());
    inputs[0] = out[0];
    EXPECT_EQ(out[1]->read().as<float>()[0], 255 * 128 + 256 * i);
  }
  EXPECT_EQ(mine->i64("memory_used"), used);
  EXPECT_EQ(inputs[0]->layout(), rows);
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(held(inputs[0]).array(rank).unsafe_pointer(), places[rank]) << rank;
  EXPECT_EQ(floats_of(inputs[0]->read()), floats_of(numbered({256}, 5)));

  const BufferRef kept = inputs[0]; // another holder: it stays as it is
  const auto out = program->run(inputs);
  EXPECT_EQ(floats_of(kept->read()), floats_of(numbered({256}, 5)));
  EXPECT_EQ(floats_of(out[0]->read()), floats_of(numbered({256}, 6)));
}

TEST_P(PjrtMesh, OneTripForTheResultsOfARun) {
  const auto mine = engine("fsdp=2");
  const auto program = mine->compile(cut_counter(4));
  const Layout rows = Layout().cut(Axis::fsdp, 0);
  const std::vector<BufferRef> inputs{mine->upload_cut(numbered({8}), false, rows),
                                      mine->upload(Tensor(DType::f32, {1}))};
  const auto out = program->run(inputs);
  EXPECT_EQ(mine->i64("round_trips"), 0);
  out[1]->read();
  out[0]->read(); // parts of two devices
  EXPECT_EQ(mine->i64("round_trips"), 1);
  inputs[1]->read();
  EXPECT_EQ(mine->i64("round_trips"), 2);
}

TEST_P(PjrtMesh, WrongInputsAreNamed) {
  const auto mine = engine("fsdp=2,tensor=2"), other = engine("fsdp=2,tensor=2");
  const auto program = mine->compile(cut_counter(4));
  const BufferRef step = mine->upload(Tensor(DType::f32, {1}));
  const auto run = [&](const BufferRef& state) {
    return program->run(std::vector<BufferRef>{state, step});
  };
  expect_error(Code::invalid_argument, "the given array has parts that differ over {tensor}",
               [&] { run(mine->upload_cut(numbered({8}), false, Layout().cut(Axis::tensor, 0))); });
  const std::vector<Tensor> pieces{numbered({4}), numbered({4}, 4)};
  expect_error(Code::invalid_argument, "the given array has parts that differ over {tensor}",
               [&] { run(mine->upload_pieces(pieces, kTensor, false)); });
  expect_error(Code::invalid_argument, "the given array is f32(8)",
               [&] { run(mine->upload(numbered({8}))); });
  expect_error(Code::invalid_argument, "belongs to another engine",
               [&] { run(other->upload_cut(numbered({8}), false, Layout().cut(Axis::fsdp, 0))); });
  run(mine->upload_cut(numbered({8}), false, Layout().cut(Axis::fsdp, 0)));
  const auto out = run(mine->upload_pieces(pieces, kFsdp, false));
  EXPECT_EQ(out[1]->read().as<float>()[0], 28);
  expect_error(Code::failed_precondition, "cannot be read", [&] { out[0]->read(); });
}

TEST_P(PjrtMesh, MeshesThatDoNotFitAreRefusedWithTheNumbers) {
  const Error few = error_of([&] { make_engine(mesh_options(path(), "fsdp=4,tensor=2", 4)); });
  EXPECT_EQ(few.code(), Code::invalid_argument);
  EXPECT_EQ(few.text(),
            "a mesh of 4 x 2 ranks (fsdp, tensor) needs 8 devices, plugin " + path() + " has 4");
  EXPECT_EQ(few.hint(), "set pjrt.client = cpu_device_count=8, or use a mesh of at most 4 ranks");
  Options options = mesh_options(path(), "data=2", 4);
  options.set_i64("pjrt.device", 3);
  EXPECT_NE(error_of([&] { make_engine(options); }).text().find("from pjrt.device 3 on has 1"),
            std::string::npos);
  options.set_i64("pjrt.device", 0);
  options.set_i64("ranks", 3);
  expect_error(Code::invalid_argument, "ranks = 3, but the mesh data=2 has 2",
               [&] { make_engine(options); });
  options.set_i64("ranks", 2);
  options.set_str("mesh", "");
  EXPECT_EQ(make_engine(options)->mesh().size(Axis::data), 2);
}

TEST_P(PjrtMesh, MayBeSomeOfTheDevices) {
  Options options = mesh_options(path(), "data=3", 8);
  options.set_i64("pjrt.device", 4);
  const auto mine = make_engine(options);
  EXPECT_EQ(mine->device_count(), 8);
  EXPECT_EQ(mine->describe()["device"], "cpu:4");
  const std::vector<Tensor> pieces{numbered({2}, 1), numbered({2}, 2), numbered({2}, 4)};
  const auto out = mine->compile(summing({2}, kData))
                       ->run(std::vector<BufferRef>{mine->upload_pieces(pieces, kData, true)});
  EXPECT_EQ(floats_of(out[0]->read()), (std::vector<float>{7, 10}));
  EXPECT_GT(mine->peak_flops(), 1e8); // of a program of one device
}

// Programs of the cache are those of their mesh and devices.
TEST_P(PjrtMesh, TheSecondStartCompilesNothing) {
  const test::TempFolder folder;
  const auto compiles = [&](const std::string& mesh, int64_t first) {
    Options options = mesh_options(path(), mesh, 8);
    options.set_str("pjrt.cache", folder.path());
    options.set_i64("pjrt.device", first);
    const auto mine = make_engine(options);
    const int64_t ranks = mine->mesh().ranks();
    const auto program = mine->compile(summing({2}, mine->mesh().axes()));
    std::vector<Tensor> pieces;
    for (int64_t i = 0; i < ranks; ++i) pieces.push_back(numbered({2}, 1));
    const auto out = program->run(
        std::vector<BufferRef>{mine->upload_pieces(pieces, mine->mesh().axes(), true)});
    EXPECT_EQ(out[0]->read().as<float>()[0], static_cast<float>(ranks)) << mesh;
    return mine->i64("compiles");
  };
  EXPECT_EQ(compiles("data=2", 0), 1);
  EXPECT_EQ(compiles("data=2", 0), 0);
  EXPECT_EQ(compiles("data=4", 0), 1);
  EXPECT_EQ(compiles("data=2", 2), 1);
  EXPECT_EQ(compiles("data=2", 2), 0);
}

// Runs of two programs from many threads: devices that met them in different orders would wait for
// each other forever.
TEST_P(PjrtMesh, RunsFromManyThreadsMeetInOneOrder) {
  const auto mine = engine("data=2,tensor=4");
  const std::shared_ptr<graph::Program> programs[] = {mine->compile(summing({64}, kData)),
                                                      mine->compile(summing({64}, kTensor))};
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const AxisSet axes = t % 2 == 0 ? kData : kTensor;
      const auto ranks = static_cast<float>(mine->mesh().size(axes));
      const std::vector<Tensor> pieces(static_cast<size_t>(ranks),
                                       numbered({64}, static_cast<float>(t)));
      const std::vector<BufferRef> inputs{mine->upload_pieces(pieces, axes, true)};
      for (int i = 0; i < 10; ++i) {
        const auto out = programs[t % 2]->run(inputs);
        right += out[0]->read().as<float>()[1] == ranks * static_cast<float>(t + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 60);
}

DLLM_ON_PLUGINS(PjrtMesh);

} // namespace
} // namespace dllm::pjrt
