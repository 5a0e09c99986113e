// Option offload: the optimizer's arrays outside of the engine give the bits of a resident run.

#include "../meshes/processes.h"
#include "../tiny.h"
#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "model/adapters/adapter.h"
#include "train/checkpoint/checkpoint.h"
#include "train/offload/slices.h"
#include "train/plan.h"
#include "unit/cancel.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

namespace dllm::train {
namespace {

using test::error_of;
using test::TempFolder;

// The table and the matrices of a layer have several slices in a window of 1 MiB.
Json wide_config(bool tied) {
  Json config = tiny_config(tied);
  config.update({{"vocab_size", 1600},
                 {"hidden_size", 64},
                 {"num_key_value_heads", 4},
                 {"num_hidden_layers", 3},
                 {"head_dim", 16},
                 {"intermediate_size", 480},
                 {"mask_token_id", 1599}});
  return config;
}

struct Setting {
  Json values;                                   // of the trainer
  std::string mesh, arithmetic = "f32", adapter; // "" "lora" "dora"
  bool tied = true;
  int64_t accumulate = 1;

  std::string text() const {
    return values.dump() + " mesh=" + mesh + " " + arithmetic + " adapter=" + adapter +
           " accumulate=" + std::to_string(accumulate) + (tied ? " tied" : "");
  }
};

std::shared_ptr<graph::Engine> engine_of(const Setting& setting) {
  Options options(graph::engine_schema());
  options.set_i64("threads", 2);
  options.set_str("mesh", setting.mesh);
  options.set_str("arithmetic", setting.arithmetic);
  return cpu::make_engine(options);
}

std::unique_ptr<Trainer> trainer_on(const std::shared_ptr<graph::Engine>& engine,
                                    const Setting& setting, const std::string& offload) {
  const auto model =
      model::new_model(engine, wide_config(setting.tied), Options(model::model_schema()));
  if (!setting.adapter.empty()) {
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
    adapter.settings.kind = setting.adapter == "dora" ? "dora" : "lora";
    model::add_adapter(*model, adapter);
  }
  Json values = setting.values;
  values.update({{"accumulate", setting.accumulate}});
  if (!offload.empty()) values.update({{"offload", offload}, {"offload_mib", 1}});
  return std::make_unique<Trainer>(model, noise::make_objective("mdlm"), trainer_options(values));
}

std::unique_ptr<Trainer> trainer_of(const Setting& setting, const std::string& offload) {
  return trainer_on(engine_of(setting), setting, offload);
}

// Takes a step, or a part of one, and returns its losses and norms.
std::vector<double> step_of(Trainer& trainer, TextSource& source, int64_t accumulate) {
  std::vector<double> numbers;
  if (accumulate == 1) {
    numbers.push_back(trainer.step(*source.next()));
  } else {
    while (trainer.accumulated() < accumulate) trainer.accumulate(*source.next());
    numbers.push_back(trainer.apply());
  }
  numbers.push_back(trainer.metric("grad_norm"));
  return numbers;
}

// Every byte of the model and of the state in a checkpoint, by file.
std::map<std::string, std::string> files_of(const std::string& checkpoint) {
  std::map<std::string, std::string> made;
  for (const char* below : {"model", "state"}) {
    for (const std::string& name : list_directory(join_path(checkpoint, below))) {
      const std::string path = join_path(join_path(checkpoint, below), name);
      if (!is_directory(path)) made[below + ("/" + name)] = read_text(path);
    }
  }
  return made;
}

void expect_equal_files(const std::string& made, const std::string& wanted,
                        const std::string& what) {
  const auto a = files_of(made), b = files_of(wanted);
  EXPECT_GE(b.size(), 3u);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, bytes] : b) EXPECT_TRUE(a.at(name) == bytes) << name << " " << what;
}

std::string save(Trainer& trainer, const TextSource& source, const std::string& root,
                 bool wait = true) {
  Options options(checkpoint_schema());
  options.set_i64("wait", wait ? 1 : 0);
  options.set_i64("overwrite", 1);
  return save_checkpoint(trainer, &source, root, options);
}

template <class T> T any_of(std::mt19937& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

Setting random_setting(std::mt19937& random) {
  Setting made;
  made.accumulate = any_of<int64_t>(random, {1, 1, 2, 3});
  made.tied = random() % 2 == 0;
  made.adapter = any_of<std::string>(random, {"", "", "lora", "dora"});
  made.values = {{"lr", 3e-3}, {"clip", any_of<double>(random, {0.0, 0.05, 1.0})}};
  if (random() % 2 == 0) made.values["ema"] = 0.9;
  if (random() % 3 == 0) made.values["decay"] = "all";
  if (random() % 3 == 0) made.values["compat"] = "nano";
  if (random() % 3 == 0 && made.adapter.empty())
    made.values["groups"] = {"*embed_tokens* lr=0.001 weight_decay=0"};
  if (random() % 3 == 0 && made.adapter.empty()) made.values["freeze"] = {"model.layers.1.*"};
  if (random() % 3 == 0) made.values["activations"] = "bf16";
  const std::vector<Json> optimizers = {{{"optimizer", "adamw"}},
                                        {{"optimizer", "adamw"}, {"beta2", 0.99}},
                                        {{"optimizer", "lion"}},
                                        {{"optimizer", "sgd"}},
                                        {{"optimizer", "sgd"}, {"momentum", 0.9}},
                                        {{"optimizer", "muon"}},
                                        {{"optimizer", "adafactor"}, {"factor_from", 8}}};
  made.values.update(any_of(random, optimizers));
  // Muon has nothing to do where adapters alone are trained.
  if (made.values["optimizer"] == "muon" && !made.adapter.empty())
    made.values["optimizer"] = "lion";
  const std::string name = made.values["optimizer"];
  const bool whole = name == "muon" || name == "adafactor";
  made.mesh = whole ? any_of<std::string>(random, {"", "", "data=2"})
                    : any_of<std::string>(
                          random, {"", "", "data=2", "fsdp=2", "tensor=2", "fsdp=2,tensor=2"});
  if (made.mesh.empty()) made.arithmetic = any_of<std::string>(random, {"f32", "f32", "bf16"});
  return made;
}

// Two steps, a save in the middle of an update, a restore, and two more steps.
TEST(Offload, HasTheBitsOfAResidentRun) {
  constexpr int kSettings = 24;
  std::mt19937 random(20261129);
  for (int i = 0; i < kSettings; ++i) {
    const Setting setting = random_setting(random);
    const std::string what = std::to_string(i) + ": " + setting.text();
    SCOPED_TRACE(what);
    TempFolder root;
    make_directories(root.path("scratch"));
    const std::string place = i % 3 == 0 ? kOffloadToRam : root.path("scratch");
    const auto resident = trainer_of(setting, ""), offloaded = trainer_of(setting, place);
    TextSource a, b;
    for (int step = 0; step < 2; ++step) {
      const auto wanted = step_of(*resident, a, setting.accumulate);
      ASSERT_EQ(step_of(*offloaded, b, setting.accumulate), wanted);
    }
    if (setting.accumulate > 1) { // in the middle of an update
      resident->accumulate(*a.next());
      offloaded->accumulate(*b.next());
    }
    const std::string saved = save(*resident, a, root.path("resident"));
    const std::string other = save(*offloaded, b, root.path("offloaded"), i % 2 == 0);
    offloaded->sync();
    expect_equal_files(other, saved, what);
    if (setting.values.contains("ema")) {
      EXPECT_EQ(weights_of(*offloaded->model("ema")), weights_of(*resident->model("ema")));
    }

    // Each kind of run goes on from the checkpoint of the other.
    const auto from_other = trainer_of(setting, place), to_resident = trainer_of(setting, "");
    TextSource c, d;
    restore_checkpoint(*from_other, &c, saved);
    restore_checkpoint(*to_resident, &d, other);
    for (int step = 0; step < 2; ++step) {
      const auto wanted = step_of(*resident, a, setting.accumulate);
      EXPECT_EQ(step_of(*offloaded, b, setting.accumulate), wanted);
      EXPECT_EQ(step_of(*from_other, c, setting.accumulate), wanted);
      EXPECT_EQ(step_of(*to_resident, d, setting.accumulate), wanted);
    }
    const auto weights = weights_of(*resident);
    EXPECT_EQ(weights_of(*offloaded), weights);
    EXPECT_EQ(weights_of(*from_other), weights);
    EXPECT_EQ(weights_of(*to_resident), weights);
    if (::testing::Test::HasFailure()) break;
  }
}

// Each process keeps its own part.
TEST(Offload, ProcessesHaveTheBitsOfThreads) {
  for (const char* mesh : {"data=2", "fsdp=2,tensor=2"}) {
    const Setting setting{.values = {{"ema", 0.9}}, .mesh = mesh, .accumulate = 2};
    TempFolder root;
    const auto resident = trainer_of(setting, "");
    TextSource source(8);
    const auto first = step_of(*resident, source, 2);
    const std::string saved = save(*resident, source, root.path("threads"));
    const auto second = step_of(*resident, source, 2);
    in_processes(mesh, [&](const EngineRef& engine) {
      const auto trainer = trainer_on(engine, setting, root.path());
      TextSource own(8);
      EXPECT_EQ(step_of(*trainer, own, 2), first) << mesh;
      save(*trainer, own, root.path("processes"));
      EXPECT_EQ(step_of(*trainer, own, 2), second) << mesh;
      restore_checkpoint(*trainer, &own, saved);
      EXPECT_EQ(step_of(*trainer, own, 2), second) << mesh;
    });
    const auto again = trainer_of(setting, "");
    TextSource own(8);
    restore_checkpoint(*again, &own, join_path(root.path("processes"), "step_000001"));
    EXPECT_EQ(step_of(*again, own, 2), second) << mesh;
  }
}

TEST(Offload, AnUpdateThatIsLeftOutChangesNothing) {
  const Setting setting{.values = {{"nonfinite", "skip"}, {"ema", 0.9}}};
  TempFolder root;
  const auto resident = trainer_of(setting, ""), offloaded = trainer_of(setting, root.path());
  TextSource a, b;
  for (Trainer* trainer : {resident.get(), offloaded.get()}) {
    TextSource& source = trainer == resident.get() ? a : b;
    step_of(*trainer, source, 1);
    Batch bad = poisoned();
    Tensor ids(DType::i32, {1, 4});
    for (int32_t& id : ids.mutable_as<int32_t>()) id = 1599;
    bad.set("ids", ids);
    trainer->step(bad);
    EXPECT_EQ(trainer->metric("skipped"), 1);
    step_of(*trainer, source, 1);
  }
  expect_equal_files(save(*offloaded, b, root.path("b")), save(*resident, a, root.path("a")),
                     "skip");
}

TEST(Offload, StopsAtAStepThatIsNotFinite) {
  const Setting setting{.accumulate = 2};
  TempFolder root;
  const auto resident = trainer_of(setting, ""), offloaded = trainer_of(setting, root.path());
  Batch bad = poisoned();
  Tensor ids(DType::i32, {1, 4});
  for (int32_t& id : ids.mutable_as<int32_t>()) id = 1599;
  bad.set("ids", ids);
  TextSource a, b;
  for (Trainer* trainer : {resident.get(), offloaded.get()}) {
    trainer->accumulate(bad);
    EXPECT_EQ(error_of([&] { trainer->apply(); }).code(), Code::aborted);
    EXPECT_FALSE(trainer->is_lost());
  }
  EXPECT_EQ(step_of(*offloaded, b, 2), step_of(*resident, a, 2));
  EXPECT_EQ(weights_of(*offloaded), weights_of(*resident));
}

// A cancel comes at any point of the gradients; afterwards the run goes on with its bits.
TEST(Offload, ACancelledStepIsUndone) {
  for (const char* mesh : {"", "fsdp=2"}) {
    const Setting setting{.mesh = mesh};
    TempFolder root;
    const auto resident = trainer_of(setting, ""), offloaded = trainer_of(setting, root.path());
    TextSource a, b;
    Task task;
    task.cancel();
    EXPECT_EQ(error_of([&] { offloaded->step(*b.next(), &task); }).code(), Code::cancelled);
    b.seek(0);
    for (int step = 0; step < 2; ++step)
      EXPECT_EQ(step_of(*offloaded, b, 1), step_of(*resident, a, 1));
    EXPECT_EQ(weights_of(*offloaded), weights_of(*resident));
  }
}

// --- memory ---

Json plan_of(const Json& values, bool tied = true) {
  Options options(model::plan_schema());
  options.set_json(Json{{"what", "train"}, {"batch", 4}, {"length", 16}});
  options.set_json(values);
  const auto engine = tiny_engine();
  const auto model = model::new_model(engine, wide_config(tied), Options(model::model_schema()));
  const model::Job job = training_job(engine, model->config(), options);
  return parse_json(model::plan_text(*engine, job, options), "plan");
}

// A step needs what a resident one needs without the arrays that are elsewhere, and the slices.
TEST(Offload, AStepNeedsNoMoreThanAResidentOneWithoutItsArrays) {
  std::mt19937 random(29);
  for (int i = 0; i < 24; ++i) {
    const bool tied = random() % 2 == 0;
    Json values = {{"batch", any_of<int64_t>(random, {1, 2, 4, 8})},
                   {"length", any_of<int64_t>(random, {8, 16, 64})},
                   {"ema", random() % 2 == 0},
                   {"optimizer", any_of<std::string>(random, {"adamw", "sgd", "lion"})},
                   {"offload_mib", 1}};
    values.update(
        any_of<Json>(random, {Json::object(), {{"remat", true}}, {{"activations", "bf16"}}}));
    SCOPED_TRACE(values.dump() + (tied ? " tied" : ""));
    const Json resident = plan_of(values, tied);
    values["offload"] = true;
    const Json offloaded = plan_of(values, tied);
    const int64_t peak = resident.at("peak"), moved = resident.at("moments"),
                  window = offloaded.at("window");
    EXPECT_LE(offloaded.at("peak").get<int64_t>(), (peak - moved) * 102 / 100 + window);
  }
}

// The same of what the engine of a trainer has held.
TEST(Offload, TheEngineHoldsLessThanWithTheArrays) {
  TempFolder root;
  for (const bool tied : {true, false}) {
    const auto peak_of = [&](const std::string& place) {
      const Setting setting{.tied = tied};
      const auto engine = tiny_engine();
      const auto trainer = trainer_on(engine, setting, place);
      TextSource source;
      for (int step = 0; step < 3; ++step) step_of(*trainer, source, 1);
      return engine->i64("memory_peak");
    };
    const int64_t moments = plan_of(Json::object(), tied).at("moments");
    constexpr int64_t kWindow = int64_t{1} << 20;
    EXPECT_GT(peak_of("") - peak_of(root.path()), moments - kWindow) << tied;
  }
}

// The engine counts its arrays and the slices.
TEST(Offload, TheEngineHoldsWhatThePlanSays) {
  TempFolder root;
  const Json resident = plan_of(Json::object()),
             offloaded = plan_of({{"offload", true}, {"offload_mib", 1}});
  const int64_t moments = resident.at("moments");
  EXPECT_EQ(offloaded.at("moments"), 0);
  EXPECT_EQ(offloaded.at("offloaded"), moments);
  EXPECT_LE(offloaded.at("window"), 1 << 20);

  const auto at_rest = [&](const std::string& place) {
    const auto engine = tiny_engine();
    const auto trainer = trainer_on(engine, {}, place);
    return engine->i64("memory_used");
  };
  EXPECT_GT(at_rest("") - at_rest(root.path()), moments * 3 / 4);

  const auto engine = tiny_engine();
  const auto trainer = trainer_on(engine, {}, root.path());
  TextSource source;
  for (int step = 0; step < 2; ++step) step_of(*trainer, source, 1);
  EXPECT_EQ(trainer->describe().at("offload").at("place"), root.path());
  EXPECT_GT(update_slices(trainer->spec()).size(), 2 * trainer->spec().trained.size());
  const int64_t slack = 1 << 20; // feeds, results and packed panels
  EXPECT_LT(engine->i64("memory_peak"), offloaded.at("peak").get<int64_t>() + slack);
}

// The error of a trainer that may use `memory` bytes for 16 rows of 64 tokens.
Error error_of_limit(int64_t memory, const std::string& place, int64_t accumulate) {
  Setting setting{.values = {{"memory", memory}}, .accumulate = accumulate};
  return error_of([&] {
    const auto trainer = trainer_on(tiny_engine(), setting, place);
    TextSource source(16, 64);
    step_of(*trainer, source, accumulate);
  });
}

// The least memory of such a step, which the error of a limit that is too small names.
int64_t least_memory(const std::string& place, int64_t accumulate) {
  const Error error = error_of_limit(1000, place, accumulate);
  EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text();
  int64_t least = 0;
  EXPECT_EQ(std::sscanf(error.text().c_str(), "a training step needs at least %ld", &least), 1)
      << error.text();
  return least;
}

struct LimitedRun {
  std::vector<double> numbers;
  std::map<std::string, std::vector<float>> weights;
  int64_t recomputed = 0, peak = 0;
};

LimitedRun limited_run(int64_t memory, const std::string& place, int64_t accumulate) {
  const auto engine = tiny_engine();
  Setting setting{.values = {{"memory", memory}}, .accumulate = accumulate};
  const auto trainer = trainer_on(engine, setting, place);
  TextSource source(16, 64);
  LimitedRun made;
  for (int step = 0; step < 3; ++step) {
    for (const double number : step_of(*trainer, source, accumulate))
      made.numbers.push_back(number);
  }
  made.weights = weights_of(*trainer);
  made.recomputed = trainer->describe()["recomputed"].get<int64_t>();
  made.peak = engine->i64("memory_peak");
  return made;
}

// Options memory and offload together: a limit that no step with resident state meets is met by a
// step whose state is elsewhere, with the same bits.
TEST(Offload, ALimitOfMemoryCountsTheWindowInPlaceOfTheState) {
  TempFolder root;
  const int64_t moments = plan_of(Json::object()).at("moments");
  for (const int64_t accumulate : {1, 2}) {
    SCOPED_TRACE(accumulate);
    const int64_t least = least_memory(root.path(), accumulate),
                  resident = least_memory("", accumulate);
    constexpr int64_t kWindow = int64_t{1} << 20;
    EXPECT_LE(least, resident - moments + kWindow);
    const Error refused = error_of_limit(least, "", accumulate);
    EXPECT_EQ(refused.code(), Code::resource_exhausted);
    EXPECT_NE(refused.text().find(std::to_string(resident)), std::string::npos) << refused.text();
    EXPECT_NE(refused.hint().find(" offload,"), std::string::npos) << refused.hint();

    const LimitedRun free = limited_run(0, "", accumulate),
                     limited = limited_run(least, root.path(), accumulate);
    EXPECT_EQ(free.recomputed, 0);
    EXPECT_GT(limited.recomputed, 0);
    EXPECT_EQ(limited.numbers, free.numbers);
    EXPECT_EQ(limited.weights, free.weights);
    const int64_t slack = 1 << 20; // results, and arrays that the engine keeps for the next run
    EXPECT_LT(limited.peak, least + slack);
    EXPECT_GT(free.peak, least + slack);
  }
}

TEST(Offload, ALimitThatIsTooSmallNamesBothNumbers) {
  TempFolder root;
  const int64_t least = least_memory(root.path(), 1), limit = least - 1;
  const Error error = error_of_limit(limit, root.path(), 1);
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  for (const int64_t number : {least, limit})
    EXPECT_NE(error.text().find(std::to_string(number)), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("with offload"), std::string::npos) << error.text();
  EXPECT_NE(error.hint().find("offload_mib"), std::string::npos) << error.hint();
}

// A plan and a trainer count alike.
TEST(Offload, APlanWithALimitIsTheStepThatIsTrained) {
  TempFolder root;
  const int64_t least = least_memory(root.path(), 1);
  Json values = {{"batch", 16}, {"length", 64}, {"offload", true}, {"offload_mib", 1}};
  const Json whole = plan_of(values);
  EXPECT_EQ(whole.at("recomputed"), 0);
  for (const int64_t memory :
       {least, (least + whole.at("peak").get<int64_t>()) / 2, whole.at("peak").get<int64_t>()}) {
    values["memory"] = memory;
    const Json plan = plan_of(values);
    EXPECT_LE(plan.at("peak").get<int64_t>(), memory);
    EXPECT_EQ(plan.at("recomputed"), limited_run(memory, root.path(), 1).recomputed) << memory;
  }
  EXPECT_EQ(plan_of(values), whole); // the limit is what it needs anyway
  values["memory"] = least - 1;
  EXPECT_EQ(error_of([&] { plan_of(values); }).code(), Code::resource_exhausted);
}

TEST(Offload, SlicesCoverAPartOnce) {
  std::mt19937 random(3);
  for (int i = 0; i < 400; ++i) {
    std::vector<int64_t> dims(1 + random() % 4), places(dims.size());
    for (int64_t& dim : dims) dim = 1 + static_cast<int64_t>(random() % 6);
    const Shape part(dims);
    Shape own = part;
    for (int64_t d = 0; d < part.rank(); ++d)
      own = own.with_dim(d, part[d] * (1 + static_cast<int64_t>(random() % 2)));
    const int64_t most = 1 + static_cast<int64_t>(random() % 40);
    const bool whole = random() % 4 == 0, stacked = random() % 2 == 0;
    std::vector<int> seen(static_cast<size_t>(own.count()));
    for (const Slice& slice : slices_of(part, stacked, whole, most)) {
      if (!whole) {
        EXPECT_LE(slice.size.count(), most);
      }
      int64_t count = 0;
      for (const Extent& extent : extents_of(slice, part, own)) {
        for (int64_t k = 0; k < extent.count; ++k) ++seen.at(static_cast<size_t>(extent.begin + k));
        count += extent.count;
      }
      EXPECT_EQ(count, gathered_shape(slice, part, own).count());
    }
    for (const int times : seen) EXPECT_EQ(times, 1) << part.text() << own.text() << most;
  }
}

// --- failures ---

TEST(Offload, APlaceThatCannotBeUsedIsNamed) {
  TempFolder root;
  write_file_atomic(root.path("file"), "x");
  const auto make = [&](const std::string& place) {
    return error_of([&] { trainer_of({}, place); });
  };
  EXPECT_EQ(make(root.path("none")).code(), Code::not_found);
  EXPECT_NE(std::string(make(root.path("none")).text()).find(root.path("none")), std::string::npos);
  EXPECT_EQ(make(root.path("file")).code(), Code::invalid_argument);
  EXPECT_EQ(make("s3://bucket/folder").code(), Code::invalid_argument);
}

// Sets a limit of the size of files for its life.
class FileLimit {
public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

private:
  rlimit before_{};
};

TEST(Offload, WithoutRoomNoTrainerIsMade) {
  TempFolder root;
  const Error error = [&] {
    const FileLimit limit(1 << 20);
    return error_of([&] { trainer_of({}, root.path()); });
  }();
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_NE(std::string(error.text()).find("1.0 MiB"), std::string::npos) << error.text();
  EXPECT_TRUE(list_directory(root.path()).empty());
}

// A write that fails in the middle of an update loses the state, and says so; a checkpoint brings
// it back.
TEST(Offload, AFailedWriteIsNoticed) {
  TempFolder root;
  const auto resident = trainer_of({}, ""), offloaded = trainer_of({}, root.path());
  TextSource a, b;
  step_of(*resident, a, 1);
  step_of(*offloaded, b, 1);
  const std::string saved = save(*offloaded, b, root.path("run"));
  {
    const FileLimit limit(1 << 20);
    const Error error = error_of([&] { step_of(*offloaded, b, 1); });
    EXPECT_EQ(error.code(), Code::resource_exhausted) << error.text();
    EXPECT_TRUE(offloaded->is_lost());
    EXPECT_EQ(error_of([&] { step_of(*offloaded, b, 1); }).code(), Code::aborted);
  }
  restore_checkpoint(*offloaded, &b, saved);
  for (int step = 0; step < 2; ++step)
    EXPECT_EQ(step_of(*offloaded, b, 1), step_of(*resident, a, 1));
  EXPECT_EQ(weights_of(*offloaded), weights_of(*resident));
}

// Cuts off the scratch files of this process in a folder, as a disk does that loses blocks.
void cut_scratch_files(const std::string& folder, off_t bytes) {
  int64_t cut = 0;
  for (const std::string& name : list_directory("/proc/self/fd")) {
    char target[4096] = {};
    const std::string link = join_path("/proc/self/fd", name);
    if (::readlink(link.c_str(), target, sizeof target - 1) <= 0) continue;
    if (!std::string(target).starts_with(std::filesystem::canonical(folder).string())) continue;
    ASSERT_EQ(::ftruncate(std::atoi(name.c_str()), bytes), 0);
    ++cut;
  }
  ASSERT_GT(cut, 0);
}

// A read that fails while a checkpoint is written is an error, and leaves no checkpoint.
TEST(Offload, AFailedReadOfASaveIsAnError) {
  for (const int64_t accumulate : {1, 2}) {
    TempFolder root;
    make_directories(root.path("scratch"));
    const Setting setting{.values = {{"ema", 0.9}}, .accumulate = accumulate};
    const auto trainer = trainer_of(setting, root.path("scratch"));
    TextSource source;
    step_of(*trainer, source, accumulate);
    if (accumulate > 1) trainer->accumulate(*source.next());
    const std::string saved = save(*trainer, source, root.path("run"));
    cut_scratch_files(root.path("scratch"), 4096);
    const Error error = error_of([&] { save(*trainer, source, root.path("other")); });
    EXPECT_EQ(error.code(), Code::data_loss) << error.text();
    EXPECT_NE(std::string(error.text()).find(root.path("scratch")), std::string::npos)
        << error.text();
    EXPECT_FALSE(ckpt::latest_checkpoint(root.path("other")));
    EXPECT_EQ(error_of([&] { trainer->model("ema"); }).code(), Code::data_loss);
    restore_checkpoint(*trainer, &source, saved);
    save(*trainer, source, root.path("other"));
    expect_equal_files(ckpt::latest_checkpoint(root.path("other"))->folder, saved, "again");
  }
}

// Two runs may share a folder, and neither leaves a file there.
TEST(Offload, RunsShareAFolder) {
  TempFolder root;
  const auto resident = trainer_of({}, ""), first = trainer_of({}, root.path()),
             second = trainer_of({}, root.path());
  TextSource a, b, c;
  for (int step = 0; step < 2; ++step) {
    const auto wanted = step_of(*resident, a, 1);
    EXPECT_EQ(step_of(*first, b, 1), wanted);
    EXPECT_EQ(step_of(*second, c, 1), wanted);
  }
  EXPECT_TRUE(list_directory(root.path()).empty());
}

// --- kill -9 ---

int64_t saved_step(const std::string& root) {
  const auto latest = ckpt::latest_checkpoint(root);
  return latest ? latest->step : 0;
}

// Trains in a child that saves every step, and kills it at a random moment after a save.
void train_and_kill(const std::string& root, const std::string& scratch, std::mt19937& random) {
  const int64_t before = saved_step(root);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Setting setting{.values = {{"root", root}, {"save_every", 1}, {"keep_last", 2}},
                    .accumulate = 2};
    const auto trainer = trainer_of(setting, scratch);
    TextSource source;
    if (const auto latest = ckpt::latest_checkpoint(root))
      restore_checkpoint(*trainer, &source, latest->folder);
    trainer->run(source, 1000);
    ::_exit(0);
  }
  for (int wait = 0; wait < 3000 && saved_step(root) == before; ++wait) ::usleep(10'000);
  ::usleep(static_cast<useconds_t>(random() % 150'000));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST(Offload, AKilledRunGoesOnFromItsCheckpoint) {
  TempFolder root;
  make_directories(root.path("scratch"));
  std::mt19937 random(11);
  for (int kill = 0; kill < 6; ++kill) {
    train_and_kill(root.path("run"), root.path("scratch"), random);
    EXPECT_TRUE(list_directory(root.path("scratch")).empty());
  }
  const Setting setting{.accumulate = 2};
  const auto whole = trainer_of(setting, ""), resumed = trainer_of(setting, root.path("scratch"));
  TextSource a, b;
  const auto latest = ckpt::latest_checkpoint(root.path("run"));
  ASSERT_TRUE(latest);
  restore_checkpoint(*resumed, &b, latest->folder);
  EXPECT_GE(resumed->steps_done(), 6);
  while (whole->steps_done() < resumed->steps_done()) step_of(*whole, a, 2);
  for (int step = 0; step < 2; ++step)
    EXPECT_EQ(step_of(*resumed, b, 2), step_of(*whole, a, 2)) << whole->steps_done();
  EXPECT_EQ(weights_of(*resumed), weights_of(*whole));
}

} // namespace
} // namespace dllm::train
