// One mesh over the devices of several processes, on the fake plugin. A process is a thread here;
// the plugin makes a client for each, and they find each other through the key-value store.

#include "unit/pjrt/fake/fake_engine.h"

#include "pjrt/engine_state.h"
#include "pjrt/processes.h"
#include "unit/comm/process_links.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace dllm::pjrt {
namespace {

using graph::Axis;
using graph::AxisSet;
using graph::Layout;
using test::error_of;
using test::expect_error;
using Clock = std::chrono::steady_clock;

constexpr int64_t kProcesses = 2, kDevices = 2; // of each process

Options options_of(const FakePlugin& fake, const std::string& mesh) {
  fake->set("devices", kDevices);
  Options options = fake_options(fake);
  options.set_str("mesh", mesh);
  return options;
}

struct Process {
  comm::ProcessLink link;
  int64_t index = 0;
};
using Work = std::function<void(const Process&)>;

// Calls work on a thread for each process; what each threw, Code::ok for nothing.
std::vector<Error> each_process(const Work& work,
                                const std::function<std::string()>& find_ended = {}) {
  auto links = comm::test::make_process_links(kProcesses, find_ended);
  std::vector<Error> errors(kProcesses, Error(Code::ok, ""));
  std::vector<std::thread> threads;
  for (int64_t index = 0; index < kProcesses; ++index) {
    const auto i = static_cast<size_t>(index);
    threads.emplace_back([&, index, i, link = std::move(links[i])]() mutable {
      try {
        work({std::move(link), index});
      } catch (const Error& error) {
        errors[i] = error;
      }
    });
  }
  links.clear();
  for (std::thread& thread : threads) thread.join();
  return errors;
}

void expect_all_ok(const std::vector<Error>& errors) {
  for (const Error& error : errors) EXPECT_EQ(error.code(), Code::ok) << error.text();
}

TEST(FakeProcesses, StateIsCutBetweenTheDevicesOfAll) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=4");
  fake->set("store_bytes", 5000);
  expect_all_ok(each_process([&](const Process& process) {
    const auto engine = make_engine(options, process.link);
    EXPECT_EQ(engine->processes(), kProcesses);
    EXPECT_EQ(engine->process(), process.index);
    EXPECT_EQ(engine->place(), (graph::Placement{graph::Mesh::parse("fsdp=2"), process.index}));
    EXPECT_EQ(engine->i64("ranks"), 4);
    EXPECT_EQ(engine->i64("rank"), process.index * kDevices);
    EXPECT_EQ(engine->device_count(), kDevices);
    EXPECT_EQ(engine->device_name(0), process.index == 0 ? "fake:0" : "fake:2");
    EXPECT_EQ(engine->describe()["processes"], kProcesses);
    const auto program = engine->compile(cut_counter());
    std::vector<BufferRef> inputs{
        engine->upload_cut(counting({256}), false, Layout().cut(Axis::fsdp, 0)),
        engine->upload(counting({1}, 7))};
    for (int step = 0; step < 5; ++step) {
      auto results = program->run(inputs);
      inputs[0] = results[0];
      EXPECT_EQ(results[1]->read().as<float>()[0], 7);
    }
    EXPECT_EQ(engine->i64("memory_used"), 512 + 4 * kDevices) << "its own half alone";
    EXPECT_TRUE(same_bytes(inputs[0]->read(), counting({256})));
    EXPECT_TRUE(same_bytes(inputs[0]->read_part(),
                           counting({128}, static_cast<float>(128 * process.index))));
  }));
  fake.expect_clean();
}

// Rows of (4, 8), the second dimension cut over fsdp and tensor: of fsdp=2,tensor=2 a process has
// both places of tensor.
TEST(FakeProcesses, PartsGoUpAndRowsComeBackWhereTheyBelong) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=2,tensor=2");
  const Layout layout = Layout().cut(Axis::fsdp, 1).cut(Axis::tensor, 1);
  expect_all_ok(each_process([&](const Process& process) {
    const auto engine = make_engine(options, process.link);
    const Tensor whole = counting({4, 8});
    const BufferRef cut = engine->upload_part(layout.part(whole, engine->place()), false, layout);
    EXPECT_EQ(cut->shape(), (Shape{4, 2}));
    EXPECT_TRUE(same_bytes(cut->read(), whole));
    const std::vector<int64_t> owners{1, 0, 1, 0};
    const std::vector<Tensor> rows = cut->read_dealt(owners);
    ASSERT_EQ(rows.size(), 4u);
    for (int64_t row = 0; row < 4; ++row) {
      const Tensor& dealt = rows[static_cast<size_t>(row)];
      ASSERT_EQ(dealt.defined(), owners[static_cast<size_t>(row)] == process.index) << row;
      if (!dealt.defined()) continue;
      EXPECT_TRUE(same_bytes(dealt, whole.rows(row, row + 1)));
    }
    const std::vector<int64_t> one{1};
    const Tensor all = cut->read_dealt(one)[0];
    ASSERT_EQ(all.defined(), process.index == 1);
    EXPECT_TRUE(!all.defined() || same_bytes(all, whole));
    const BufferRef copies = engine->upload(whole);
    EXPECT_TRUE(same_bytes(copies->read(), whole));
    EXPECT_EQ(copies->read_dealt(owners)[0].defined(), process.index == 1);
  }));
  fake.expect_clean();
}

TEST(FakeProcesses, PiecesGoToTheRanksThatHaveTheirPlace) {
  const FakePlugin fake;
  const Options options = options_of(fake, "data=2,tensor=2");
  expect_all_ok(each_process([&](const Process& process) {
    const auto engine = make_engine(options, process.link);
    const std::vector<Tensor> rows{counting({8}), counting({8}, 100)};
    const BufferRef pieces = engine->upload_pieces(rows, AxisSet(Axis::data), false);
    EXPECT_EQ(pieces->memory_bytes(), 32 * kDevices);
    const auto& parts = dynamic_cast<const DeviceBuffer&>(*pieces);
    for (size_t here = 0; here < kDevices; ++here)
      EXPECT_TRUE(same_bytes(parts.array(here).read(), rows[static_cast<size_t>(process.index)]));
  }));
  fake.expect_clean();
}

TEST(FakeProcesses, APluginThatFailsInOneFailsInAll) {
  for (const char* call : {"PJRT_Client_Create", "PJRT_Client_AddressableDevices"}) {
    const FakePlugin fake;
    const Options options = options_of(fake, "fsdp=4");
    fake->fail_at(call, 1, 13, "broken");
    const auto begin = Clock::now();
    const std::vector<Error> errors =
        each_process([&](const Process& process) { make_engine(options, process.link); });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30)) << call;
    int echoes = 0;
    for (const Error& error : errors) {
      EXPECT_EQ(error.code(), Code::internal) << error.text();
      EXPECT_TRUE(contains(error.text(), "broken")) << error.text();
      echoes += contains(error.text(), " failed: ") ? 1 : 0;
    }
    EXPECT_EQ(echoes, 1) << call << ": the other one names the rank that failed";
    fake.expect_clean();
  }
}

TEST(FakeProcesses, AMissingProcessEndsTheWait) {
  const FakePlugin fake;
  Options options = options_of(fake, "fsdp=4");
  // Its link is there, and it never makes an engine.
  const auto absent = [&](const Process& process) {
    if (process.index == 1) return;
    make_engine(options, process.link);
  };
  const auto begin = Clock::now();
  const std::vector<Error> errors = each_process(absent);
  EXPECT_EQ(errors[0].code(), Code::aborted);
  EXPECT_TRUE(contains(errors[0].text(), "rank 1 has ended")) << errors[0].text();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
  fake.expect_clean();
}

// The second process comes to the first meeting, and its plugin never puts its key.
TEST(FakeProcesses, AKeyThatDoesNotComeEndsWithTheTimeOfThePlugin) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=4");
  fake->set("store_timeout_ms", 300);
  const std::vector<Error> errors = each_process([&](const Process& process) {
    if (process.index == 0) {
      make_engine(options, process.link);
      return;
    }
    const Processes quiet(process.link, options);
    quiet.together([] {}); // the plugin is loaded
    quiet.together([] {}); // and has made its client
  });
  EXPECT_EQ(errors[0].code(), Code::deadline_exceeded) << errors[0].text();
  EXPECT_TRUE(contains(errors[0].text(), "none of 2 processes has put key fake:devices/1"))
      << errors[0].text();
  EXPECT_TRUE(contains(errors[1].text(), "rank 0 failed: ")) << errors[1].text();
  fake.expect_clean();
}

TEST(FakeProcesses, APluginOfOneProcessIsRefused) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=4");
  fake->set("joins", 0);
  const std::vector<Error> errors =
      each_process([&](const Process& process) { make_engine(options, process.link); });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code(), Code::unimplemented) << error.text();
    EXPECT_TRUE(contains(error.text(), "does not join the devices of 2 processes")) << error.text();
  }
  fake.expect_clean();
}

TEST(FakeProcesses, MeshesMustFit) {
  const FakePlugin fake;
  for (const auto& [mesh, part] :
       {std::pair<const char*, const char*>{"fsdp=3", "cannot be shared out between 2 processes"},
        {"fsdp=8", "needs 4 devices, plugin"}}) {
    const Options options = options_of(fake, mesh);
    for (const Error& error :
         each_process([&](const Process& process) { make_engine(options, process.link); })) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << error.text();
      EXPECT_TRUE(contains(error.text(), part)) << error.text();
    }
  }
  const Options free = options_of(fake, "");
  expect_all_ok(each_process([&](const Process& process) {
    EXPECT_EQ(make_engine(free, process.link)->mesh(), graph::Mesh::parse("data=2"));
  }));
  fake.expect_clean();
}

// A device that fails: the other process is notified of it at its next exchange.
TEST(FakeProcesses, ARunThatFailsOnOneEndsTheOthers) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=4");
  const std::vector<Error> errors = each_process([&](const Process& process) {
    const auto engine = make_engine(options, process.link);
    const auto program = engine->compile(cut_counter());
    std::vector<BufferRef> inputs{
        engine->upload_cut(counting({256}), false, Layout().cut(Axis::fsdp, 0)),
        engine->upload(counting({1}, 7))};
    engine->exchange("");
    if (process.index == 0) {
      fake->poison_run(0, 14, "a device was lost.");
      program->run(inputs)[1]->read();
    }
    engine->exchange("");
  });
  EXPECT_EQ(errors[0].code(), Code::unavailable);
  EXPECT_TRUE(contains(errors[0].text(), "a device was lost")) << errors[0].text();
  EXPECT_EQ(errors[1].code(), Code::unavailable);
  EXPECT_TRUE(contains(errors[1].text(), "rank 0 failed: graph cut_counter")) << errors[1].text();
  fake.expect_clean();
}

// A plugin that waits for all processes in a run, and one of them does not come: it has ended.
TEST(FakeProcesses, ARunWaitsForAllAndEndsWhenOneIsGone) {
  const FakePlugin fake;
  const Options options = options_of(fake, "fsdp=4");
  fake->set("meets", 1);
  std::atomic<bool> gone{false};
  const std::vector<Error> errors = each_process(
      [&](const Process& process) {
        const auto engine = make_engine(options, process.link);
        const auto program = engine->compile(cut_counter());
        std::vector<BufferRef> inputs{
            engine->upload_cut(counting({256}), false, Layout().cut(Axis::fsdp, 0)),
            engine->upload(counting({1}, 7))};
        inputs[0] = program->run(inputs)[0];
        if (process.index == 1) {
          gone = true;
          return;
        }
        program->run(inputs);
      },
      [&] { return std::string(gone ? "rank 1 (process 7 on here) has ended" : ""); });
  EXPECT_EQ(errors[1].code(), Code::ok) << errors[1].text();
  EXPECT_EQ(errors[0].code(), Code::aborted);
  EXPECT_TRUE(contains(errors[0].text(), "rank 1 (process 7 on here) has ended"))
      << errors[0].text();
  fake.expect_clean();
}

// One folder of compiled programs for both, as on a shared disk: all load, or all compile.
TEST(FakeProcesses, ProgramsOfTheCacheAreLoadedByAllOrNone) {
  const FakePlugin fake;
  const test::TempFolder folder;
  Options options = options_of(fake, "fsdp=4");
  options.set_str("pjrt.cache", folder.path("cache"));
  const auto counts = [&] {
    std::vector<int64_t> made(2 * kProcesses);
    expect_all_ok(each_process([&](const Process& process) {
      const auto engine = make_engine(options, process.link);
      engine->compile(cut_counter());
      made[static_cast<size_t>(2 * process.index)] = engine->i64("compiles");
      made[static_cast<size_t>(2 * process.index + 1)] = engine->i64("cache_hits");
    }));
    return made;
  };
  EXPECT_EQ(counts(), (std::vector<int64_t>{1, 0, 1, 0}));
  EXPECT_EQ(counts(), (std::vector<int64_t>{0, 1, 0, 1}));
  fake->fail_at("PJRT_Executable_DeserializeAndLoad", 1, 13, "another plugin");
  EXPECT_EQ(counts(), (std::vector<int64_t>{1, 0, 1, 0})) << "one could not load it";
  fake.expect_clean();
}

} // namespace
} // namespace dllm::pjrt
