// Engines of one rank each that exchange messages (processes.h): what each of them holds, writes
// and reads of a run.

#include "../losses/loss_difference.h"
#include "base/error.h"
#include "base/files.h"
#include "base/threads/meter.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/safetensors/safetensors.h"
#include "processes.h"
#include "train/checkpoint/checkpoint.h"
#include "train/plan.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace dllm::train {
namespace {

using test::TempFolder;
using Arrays = std::map<std::string, std::vector<float>>;

Json config() {
  Json made = tiny_config();
  made.update({{"vocab_size", 32},
               {"hidden_size", 16},
               {"num_key_value_heads", 4},
               {"num_hidden_layers", 4}});
  return made;
}

std::unique_ptr<Trainer> trainer_of(const EngineRef& engine) {
  return std::make_unique<Trainer>(
      model::new_model(engine, config(), Options(model::model_schema())),
      noise::make_objective("mdlm"), trainer_options(Json{{"ema", 0.9}}));
}

void add_arrays(const ckpt::SafetensorsFile& file, Arrays& arrays) {
  for (const auto& [name, info] : file.tensors()) {
    const Tensor tensor = file.tensor(name);
    EXPECT_FALSE(arrays.contains(name)) << name << " stands in two files";
    arrays[name].assign(tensor.as<float>().begin(), tensor.as<float>().end());
  }
}

// Every array of a checkpoint, of all its files.
Arrays arrays_of(const std::string& checkpoint) {
  Arrays arrays;
  for (const char* below : {"model", "state"}) {
    const std::string folder = join_path(checkpoint, below);
    for (const std::string& name : list_directory(folder)) {
      if (!name.ends_with(".safetensors")) continue;
      add_arrays(ckpt::SafetensorsFile(open_content(join_path(folder, name)), name), arrays);
    }
  }
  return arrays;
}

Options save_options(bool wait) {
  Options options(checkpoint_schema());
  options.set_i64("wait", wait ? 1 : 0);
  return options;
}

constexpr const char* kMesh = "fsdp=2,tensor=2";

// Three steps of a mesh of threads; every test compares with them.
std::string save_of_threads(const std::string& root) {
  const auto trainer = trainer_of(mesh_engine(kMesh));
  TextSource source(8);
  losses_of(*trainer, source, 3);
  return save_checkpoint(*trainer, &source, root, save_options(true));
}

// Sums over messages are made in the order of threads: 20 losses are equal to the bit, on every
// kind of exchange.
TEST(Processes, HaveTheLossesOfThreads) {
  Json one_head = config(), experts = config();
  one_head["num_key_value_heads"] = 1; // keys are passed on
  experts.update({{"model_type", "qwen3_moe"},
                  {"num_experts", 8},
                  {"num_experts_per_tok", 2},
                  {"norm_topk_prob", true},
                  {"decoder_sparse_step", 1},
                  {"moe_intermediate_size", 12}});
  const std::vector<std::pair<const char*, Json>> runs = {{"data=8", config()},
                                                          {"fsdp=4,tensor=2", config()},
                                                          {"sequence=4", config()},
                                                          {"sequence=4", one_head},
                                                          {"fsdp=2,tensor=2,sequence=2", config()},
                                                          {"expert=4", experts},
                                                          {"fsdp=2,sequence=2,expert=2", experts}};
  for (const auto& run : runs) {
    const char* mesh = run.first;
    const Json& model_config = run.second;
    const auto losses = [&](const EngineRef& engine) {
      Trainer trainer(model::new_model(engine, model_config, Options(model::model_schema())),
                      noise::make_objective("mdlm"), trainer_options());
      TextSource source(8);
      return losses_of(trainer, source, 20);
    };
    const std::vector<double> wanted = losses(mesh_engine(mesh)), one = losses(mesh_engine(""));
    expect_losses(wanted, one, std::string(mesh) + " (threads, and as messages)");
    in_processes(mesh, [&](const EngineRef& engine) { EXPECT_EQ(losses(engine), wanted) << mesh; });
  }
}

TEST(Processes, WriteTheArraysOfACheckpointTogether) {
  TempFolder root;
  const Arrays wanted = arrays_of(save_of_threads(root.path("threads")));
  for (const bool wait : {true, false}) {
    const std::string place = root.path(wait ? "waits" : "background");
    in_processes(kMesh, [&](const EngineRef& engine) {
      const auto trainer = trainer_of(engine);
      TextSource source(8);
      losses_of(*trainer, source, 3);
      save_checkpoint(*trainer, &source, place, save_options(wait));
      losses_of(*trainer, source, 2); // a copy does not change with them
      trainer->sync();
    });
    const std::string saved = join_path(place, "step_000003");
    ckpt::verify_checkpoint(saved, nullptr);
    EXPECT_EQ(arrays_of(saved), wanted) << wait;
    int64_t files = 0, largest = 0, all = 0;
    for (const std::string& name : list_directory(saved + "/state")) {
      if (!name.ends_with(".safetensors")) continue;
      const int64_t size = file_size(saved + "/state/" + name);
      files += 1, all += size, largest = std::max(largest, size);
    }
    EXPECT_EQ(files, 4);
    EXPECT_LT(largest, all * 3 / 8) << "one process writes more than its share";
  }
}

// On the same mesh a run goes on with its bits, on another one nearly.
TEST(Processes, GoOnFromTheCheckpointOfAnyMesh) {
  TempFolder root;
  const std::string of_threads = save_of_threads(root.path("threads"));
  std::vector<double> wanted;
  in_processes(kMesh, [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    TextSource source(8);
    losses_of(*trainer, source, 3);
    save_checkpoint(*trainer, &source, root.path("processes"), save_options(true));
    const std::vector<double> losses = losses_of(*trainer, source, 3);
    if (engine->process() == 0) wanted = losses;
  });
  ASSERT_EQ(wanted.size(), 3u);
  const auto go_on = [&](const EngineRef& engine, const std::string& dir, bool same) {
    const auto trainer = trainer_of(engine);
    TextSource source(8);
    restore_checkpoint(*trainer, &source, dir);
    const std::vector<double> losses = losses_of(*trainer, source, 3);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(losses[i], wanted[i], same ? 0 : 1e-5 * wanted[i]) << dir << " step " << i;
  };
  const std::string own = root.path("processes/step_000003");
  for (const std::string& dir : {own, of_threads}) {
    for (const char* mesh : {kMesh, "data=2", "tensor=4"})
      in_processes(mesh, [&](const EngineRef& engine) { go_on(engine, dir, mesh == kMesh); });
  }
  go_on(mesh_engine(""), own, false);
  go_on(mesh_engine("fsdp=4"), own, false);
}

// A damaged file is found by the process that reads it; all of them fail with its name.
TEST(Processes, FailTogetherWhenACheckpointIsDamaged) {
  TempFolder root;
  const std::string dir = save_of_threads(root.path());
  const std::string path = dir + "/state/rank_000.safetensors";
  std::string text = read_text(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_file_atomic(path, text);
  std::atomic<int> failed = 0;
  in_processes("data=2", [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    const Error error = test::error_of([&] { restore_checkpoint(*trainer, nullptr, dir); });
    EXPECT_EQ(error.code(), Code::data_loss) << error.text();
    EXPECT_NE(error.text().find("rank_000"), std::string::npos) << error.text();
    ++failed;
  });
  EXPECT_EQ(failed, 2);
}

// A disk that does not end a write of rank 2 until a test lets it.
std::atomic<bool> disk_is_held = false;

class SlowDisk {
public:
  SlowDisk() {
    disk_is_held = true;
    set_file_hook([](const char* operation, const std::string& path) {
      const bool is_slow =
          std::string_view(operation) == "sync" && path.ends_with("rank_002.safetensors");
      while (is_slow && disk_is_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  ~SlowDisk() {
    release();
    set_file_hook(nullptr);
  }
  static void release() { disk_is_held = false; }
};

// Training goes on while one rank still writes; nothing is committed before it has ended, and
// waiting means waiting.
TEST(Processes, TrainWhileTheDiskOfARankIsSlow) {
  TempFolder root;
  const Arrays wanted = arrays_of(save_of_threads(root.path("threads")));
  const std::string place = root.path("slow"), saved = join_path(place, "step_000003");
  std::vector<double> alone, during;
  for (std::vector<double>* losses : {&alone, &during}) {
    const bool slow = losses == &during;
    std::unique_ptr<SlowDisk> disk;
    if (slow) disk = std::make_unique<SlowDisk>();
    in_processes(kMesh, [&](const EngineRef& engine) {
      const auto trainer = trainer_of(engine);
      TextSource source(8);
      losses_of(*trainer, source, 3);
      if (slow) save_checkpoint(*trainer, &source, place, save_options(false));
      const std::vector<double> taken = losses_of(*trainer, source, 5);
      if (engine->process() == 0) *losses = taken;
      if (!slow) return;
      EXPECT_FALSE(file_exists(saved)) << "committed without the part of rank 2";
      graph::run_on_all(*engine, [] {}); // all have looked
      SlowDisk::release();
      trainer->sync();
      graph::run_on_all(*engine, [] {}); // the first one has committed
      EXPECT_TRUE(file_exists(saved));
    });
  }
  EXPECT_EQ(during, alone);
  EXPECT_EQ(arrays_of(saved), wanted);
}

TEST(Processes, WaitForASlowDiskWhereASaveWaits) {
  TempFolder root;
  const SlowDisk disk;
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    SlowDisk::release();
  });
  in_processes(kMesh, [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    TextSource source(8);
    losses_of(*trainer, source, 3);
    const std::string dir = save_checkpoint(*trainer, &source, root.path(), save_options(true));
    EXPECT_FALSE(disk_is_held);
    EXPECT_TRUE(file_exists(dir));
  });
  later.join();
}

// A node was lost in the middle of a save: what its rank wrote is still there when the job is
// started again.
TEST(Processes, GoOnWhenANodeComesBack) {
  TempFolder root;
  const std::string place = root.path("run");
  Arrays wanted;
  for (const bool lost : {false, true}) {
    in_processes(kMesh, [&](const EngineRef& engine) {
      const auto trainer = trainer_of(engine);
      TextSource source(8);
      if (lost)
        restore_checkpoint(*trainer, &source, join_path(place, "step_000003"));
      else
        losses_of(*trainer, source, 3);
      if (!lost) save_checkpoint(*trainer, &source, place, save_options(true));
      losses_of(*trainer, source, 3);
      save_checkpoint(*trainer, &source, lost ? place : root.path("alone"), save_options(true));
    });
    if (lost) break;
    wanted = arrays_of(root.path("alone/step_000006"));
    const std::string half = join_path(place, "step_000006.partial");
    make_directories(half + "/state");
    make_directories(half + "/model");
    write_file_atomic(half + "/COMMIT.partial", "");
    write_file_atomic(half + "/part_002.open", "0123456789abcdef");
    write_file_atomic(half + "/part_001.done", R"({"id": "0123456789abcdef", "files": []})");
    write_file_atomic(half + "/state/rank_002.safetensors", "half of it");
    write_file_atomic(half + "/model/model-00003-of-00004.safetensors", "");
    ASSERT_EQ(ckpt::latest_checkpoint(place)->step, 3);
  }
  const std::string saved = join_path(place, "step_000006");
  ckpt::verify_checkpoint(saved, nullptr);
  EXPECT_EQ(arrays_of(saved), wanted);
  EXPECT_EQ(list_directory(place), (std::vector<std::string>{"step_000003", "step_000006"}));
  for (const std::string& name : list_directory(saved))
    EXPECT_FALSE(name.starts_with("part_")) << name;
}

// A node that sees an older folder than the others does not train along with them.
TEST(Processes, ThatBeginAtDifferentStepsAreNamed) {
  TempFolder root;
  std::string folders[2];
  in_processes("data=2", [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    TextSource source(8);
    for (std::string& folder : folders) {
      losses_of(*trainer, source, 1);
      const std::string made = save_checkpoint(*trainer, &source, root.path(), save_options(true));
      if (engine->process() == 0) folder = made;
    }
  });
  std::atomic<int> refused = 0;
  in_processes("data=2", [&](const EngineRef& engine) {
    const auto trainer = trainer_of(engine);
    TextSource source(8);
    restore_checkpoint(*trainer, &source, folders[engine->process() == 0 ? 1 : 0]);
    const Error error = test::error_of([&] { trainer->run(source, 2); });
    EXPECT_NE(error.text().find("rank 1 is at step 1, rank 0 at step 2"), std::string::npos)
        << error.text();
    ++refused;
  });
  EXPECT_EQ(refused, 2);
}

// Memory of a process while it loads a model: its part of the weights, and no more of the rest than
// one tensor.
TEST(Processes, LoadAModelInTheMemoryOfTheirPart) {
  TempFolder root;
  Json wide = config();
  wide.update({{"hidden_size", 128}, {"intermediate_size", 384}, {"num_hidden_layers", 12}});
  const auto model = model::new_model(mesh_engine(""), wide, Options(model::model_schema()));
  model::save_model(*model, root.path("model"), Options(model::save_schema()));
  int64_t all = 0, largest = 0;
  for (const std::string& name : model->params().names()) {
    const int64_t bytes = model->params().shape(name).count() * 4;
    all += bytes, largest = std::max(largest, bytes);
  }
  const auto loads_within = [&](int64_t limit) {
    std::atomic<int> loaded = 0;
    in_processes("fsdp=4", [&](const EngineRef& engine) {
      const MeterScope scope(std::make_shared<Meter>(limit));
      try {
        model::load_model(engine, *open_source(root.path("model")), Options(model::model_schema()));
        ++loaded;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text();
      }
    });
    return loaded.load();
  };
  EXPECT_EQ(loads_within(all * 3 / 10 + largest), 4); // 1.2 times the part
  EXPECT_EQ(loads_within(all / 4), 0);                // the part alone is not enough
}

// What a rank has held at most while it trained, next to the plan of `dllm graph --what train
// --mesh ...`.
TEST(Processes, HoldWhatTheirPlanSays) {
  Json wide = config();
  wide.update({{"hidden_size", 128},
               {"intermediate_size", 384},
               {"vocab_size", 512},
               {"num_attention_heads", 8},
               {"num_key_value_heads", 8},
               {"head_dim", 16}});
  Options options(model::plan_schema());
  options.set_json(Json{{"what", "train"}, {"batch", 8}, {"length", 16}});
  for (const std::string mesh : {"", "data=2", "fsdp=2", "fsdp=4", "tensor=4", "fsdp=2,tensor=2",
                                 "sequence=2", "fsdp=4,tensor=2"}) {
    const EngineRef planner = mesh_engine(mesh);
    const model::Job job = training_job(planner, model::config_from_json(wide, "config"), options);
    const auto planned =
        parse_json(model::plan_text(*planner, job, options), "plan").at("peak").get<int64_t>();
    std::atomic<int64_t> held = 0;
    const auto train = [&](const EngineRef& engine) {
      Trainer trainer(model::new_model(engine, wide, Options(model::model_schema())),
                      noise::make_objective("mdlm"), trainer_options());
      TextSource source(8);
      losses_of(trainer, source, 3);
      const int64_t peak = engine->i64("memory_peak");
      for (int64_t seen = held; seen < peak && !held.compare_exchange_weak(seen, peak);) {
      }
    };
    if (mesh.empty())
      train(mesh_engine(mesh));
    else
      in_processes(mesh, train);
    std::printf("%s: a rank held %.3f MiB, its plan says %.3f\n",
                mesh.empty() ? "one rank" : mesh.c_str(), double(held) / 0x1p20,
                double(planned) / 0x1p20);
    EXPECT_LE(held, planned * 21 / 20) << mesh;
    EXPECT_GE(held, planned * 19 / 20) << mesh;
  }
}

} // namespace
} // namespace dllm::train
