// Training on several ranks of this process gives the numbers of one rank, on every mesh.

#include "../losses/loss_difference.h"
#include "../tiny.h"
#include "base/error.h"
#include "base/files.h"
#include "model/adapters/adapter.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/cancel.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>

namespace dllm::train {
namespace {

// 4 heads over 2 of keys, a vocabulary of 32, and sizes that 2 and 4 divide.
Json mesh_config(bool tied) {
  Json config = tiny_config(tied);
  config["vocab_size"] = 32;
  config["hidden_size"] = 16;
  config["num_key_value_heads"] = 4;
  return config;
}

std::unique_ptr<Trainer> mesh_trainer(const std::string& mesh, bool tied = true,
                                      const Json& values = Json::object(),
                                      const std::string& objective = "mdlm") {
  return std::make_unique<Trainer>(
      model::new_model(mesh_engine(mesh), mesh_config(tied), Options(model::model_schema())),
      noise::make_objective(objective), trainer_options(values));
}

const char* const kMeshes[] = {"data=2",
                               "data=4",
                               "data=8",
                               "fsdp=2",
                               "fsdp=4",
                               "fsdp=8",
                               "tensor=2",
                               "tensor=4",
                               "fsdp=2,tensor=2",
                               "fsdp=4,tensor=2",
                               "data=2,fsdp=2,tensor=2"};

TEST(Mesh, TwentyStepsHaveTheLossesOfOneRank) {
  for (const bool tied : {true, false}) {
    TextSource source(8);
    const auto one = mesh_trainer("", tied);
    const std::vector<double> wanted = losses_of(*one, source, 20);
    EXPECT_LT(wanted.back(), 0.9 * wanted.front());
    const auto weights = weights_of(*one);
    for (const char* mesh : kMeshes) {
      TextSource own(8);
      const auto trainer = mesh_trainer(mesh, tied);
      expect_losses(losses_of(*trainer, own, 20), wanted, mesh);
      EXPECT_NEAR(trainer->metric("grad_norm"), one->metric("grad_norm"), 1e-4) << mesh;
      for (const auto& [name, numbers] : weights_of(*trainer)) {
        for (size_t i = 0; i < numbers.size(); ++i)
          ASSERT_NEAR(numbers[i], weights.at(name)[i], 2e-4) << mesh << " " << name << " " << i;
      }
    }
  }
}

Json expert_config(const char* type) {
  Json config = mesh_config(true);
  config.update({{"model_type", type},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"moe_intermediate_size", 12},
                 {"shared_expert_intermediate_size", 8}});
  return config;
}

// Experts are cut between them, the rows of a batch too; with fsdp both cut a stack of matrices.
TEST(Mesh, ExpertsOnTheirRanksHaveTheLossesOfOneRank) {
  for (const char* type : {"qwen2_moe", "qwen3_moe"}) {
    const Json config = expert_config(type);
    const auto trainer = [&](const char* mesh) {
      return std::make_unique<Trainer>(
          model::new_model(mesh_engine(mesh), config, Options(model::model_schema())),
          noise::make_objective("mdlm"), trainer_options());
    };
    const auto stack_bytes = [](Trainer& of) {
      for (const auto& entry : of.model("live")->params().entries()) {
        if (entry.name == "layers.expert_up") return entry.buffer->memory_bytes();
      }
      return int64_t{0};
    };
    TextSource source(8);
    const auto one = trainer("");
    const std::vector<double> wanted = losses_of(*one, source, 20);
    EXPECT_LT(wanted.back(), 0.9 * wanted.front());
    EXPECT_GT(stack_bytes(*one), 0);
    for (const char* mesh : {"expert=2", "expert=4", "expert=8", "fsdp=2,expert=2",
                             "tensor=2,expert=2", "fsdp=2,tensor=2,expert=2"}) {
      TextSource own(8);
      const auto cut = trainer(mesh);
      expect_losses(losses_of(*cut, own, 20), wanted, std::string(mesh) + " " + type);
      EXPECT_NEAR(cut->metric("grad_norm"), one->metric("grad_norm"), 1e-4) << mesh;
      const int64_t copies = std::string(mesh).find("tensor") != std::string::npos ? 2 : 1;
      EXPECT_EQ(stack_bytes(*cut), copies * stack_bytes(*one)) << mesh;
    }
  }
}

// Experts and positions cut at once: the ranks of a sequence have the same rows.
TEST(Mesh, ExpertsAndPositionsTogether) {
  const Json config = expert_config("qwen3_moe");
  const auto losses = [&](const char* mesh) {
    const auto trainer = std::make_unique<Trainer>(
        model::new_model(mesh_engine(mesh), config, Options(model::model_schema())),
        noise::make_objective("mdlm"), trainer_options());
    TextSource source(8);
    return losses_of(*trainer, source, 20);
  };
  const std::vector<double> wanted = losses("");
  for (const char* mesh : {"sequence=2,expert=2", "fsdp=2,sequence=2,expert=2"})
    expect_losses(losses(mesh), wanted, mesh);
}

// The tensors of every kind of adapter: parts of matrices, and their gradients over all axes.
TEST(Mesh, AdaptersHaveTheLossesOfOneRank) {
  const auto train = [](const char* mesh, const model::AdapterKind& kind) {
    const auto model =
        model::new_model(mesh_engine(mesh), mesh_config(false), Options(model::model_schema()));
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, 1};
    adapter.settings.kind = kind.name;
    model::add_adapter(*model, adapter);
    const auto trainer = std::make_unique<Trainer>(model, noise::make_objective("mdlm"),
                                                   trainer_options({{"lr", 0.02}}));
    TextSource source(8);
    std::vector<double> losses = losses_of(*trainer, source, 20);
    losses.push_back(trainer->metric("grad_norm"));
    return losses;
  };
  for (const model::AdapterKind* kind : model::adapter_kinds()) {
    SCOPED_TRACE(kind->name);
    const std::vector<double> wanted = train("", *kind);
    const bool has_ranks = std::ranges::any_of(
        kind->options(), [](const OptionSpec& spec) { return spec.key == "rank"; });
    EXPECT_LT(wanted[19], (has_ranks ? 0.95 : 1) * wanted[0]); // other kinds train few numbers
    for (const char* mesh : {"data=2", "fsdp=4", "tensor=2", "tensor=4", "sequence=2",
                             "fsdp=2,tensor=2", "fsdp=2,tensor=2,sequence=2"})
      expect_losses(train(mesh, *kind), wanted, mesh);
  }
}

// Where all ranks have the same rows, a layer's experts are one sum over f32(rows, hidden): each of
// m ranks sends 2 n (m - 1) / m of its n bytes.
TEST(Mesh, ExpertsSendTheBytesOfTheory) {
  const Json config = expert_config("qwen3_moe");
  Batch batch;
  Tensor ids(DType::i32, {2, 16});
  for (int32_t i = 0; i < 32; ++i) ids.mutable_as<int32_t>()[static_cast<size_t>(i)] = i;
  batch.set("ids", ids);
  for (const int64_t m : {2, 4}) {
    const auto engine = mesh_engine("expert=" + std::to_string(m));
    const auto model = model::new_model(engine, config, Options(model::model_schema()));
    const int64_t before = engine->i64("bytes_sent");
    model::forward(*model, batch);
    const int64_t layers = 2, bytes = 32 * 16 * 4;
    EXPECT_EQ(engine->i64("bytes_sent") - before, layers * 2 * bytes * (m - 1)) << m << " ranks";
  }
}

// What is cut lies once on the mesh, not once on every rank.
TEST(Mesh, PartsOfParametersAndTheirStateAreKeptOnce) {
  const auto bytes = [](const char* mesh, const char* name) {
    const auto trainer = mesh_trainer(mesh);
    for (const auto& entry : trainer->model("live")->params().entries()) {
      if (entry.name == name) return entry.buffer->memory_bytes();
    }
    return int64_t{0};
  };
  for (const char* name : {"layers.q", "layers.down", "layers.out", "embedding"}) {
    const int64_t whole = bytes("", name);
    EXPECT_GT(whole, 0) << name;
    EXPECT_EQ(bytes("fsdp=4", name), whole) << name;
    EXPECT_EQ(bytes("tensor=4", name), whole) << name;
    EXPECT_EQ(bytes("fsdp=2,tensor=2", name), whole) << name;
    EXPECT_EQ(bytes("data=2", name), 2 * whole) << name;
  }
}

TEST(Mesh, EveryObjectiveAndOptimizerOfElements) {
  for (const char* objective : {"ar", "mdlm", "llada_sft", "uniform"}) {
    for (const char* optimizer : {"sgd", "lion"}) {
      const Json values = {{"optimizer", optimizer}, {"lr", 1e-3}, {"ema", 0.9}};
      TextSource source(4), own(4);
      const auto wanted = losses_of(*mesh_trainer("", true, values, objective), source, 4);
      const auto trainer = mesh_trainer("fsdp=2,tensor=2", true, values, objective);
      expect_losses(losses_of(*trainer, own, 4), wanted, std::string(objective) + " " + optimizer);
    }
  }
}

// Rows, columns and norms of matrices: on parts they would be others.
TEST(Mesh, OptimizersOfWholeMatricesNeedThemWhole) {
  for (const char* optimizer : {"adafactor", "muon"}) {
    const Json values = {{"optimizer", optimizer}, {"lr", 1e-3}};
    TextSource source(4), own(4);
    const auto wanted = losses_of(*mesh_trainer("", true, values), source, 4);
    expect_losses(losses_of(*mesh_trainer("data=2", true, values), own, 4), wanted, optimizer);
    try {
      mesh_trainer("fsdp=2", true, values);
      ADD_FAILURE() << optimizer;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unimplemented);
      EXPECT_NE(error.text().find("updates whole matrices"), std::string::npos) << error.text();
    }
  }
}

TEST(Mesh, MicroBatchesAreOneUpdate) {
  const auto losses = [](const char* mesh) {
    const auto trainer = mesh_trainer(mesh, true, {{"accumulate", 2}});
    TextSource source(4);
    std::vector<double> made;
    for (int i = 0; i < 3; ++i) {
      trainer->accumulate(*source.next());
      trainer->accumulate(*source.next());
      made.push_back(trainer->apply());
    }
    return made;
  };
  expect_losses(losses("data=2,fsdp=2"), losses(""), "accumulate");
}

// A run goes on from its checkpoint on another mesh; on the same one it has the same bits.
TEST(Mesh, ACheckpointGoesOnOnAnotherMesh) {
  const std::string root = testing::TempDir() + "/dllm_mesh_" + std::to_string(getpid());
  remove_all(root);
  const auto saved = mesh_trainer("fsdp=2,tensor=2");
  TextSource source(8);
  losses_of(*saved, source, 3);
  const std::string dir = save_checkpoint(*saved, &source, root, Options(checkpoint_schema()));
  const std::vector<double> wanted = losses_of(*saved, source, 3);
  for (const char* mesh : {"fsdp=2,tensor=2", "", "fsdp=4", "data=2,tensor=4"}) {
    const auto resumed = mesh_trainer(mesh);
    TextSource own(8);
    restore_checkpoint(*resumed, &own, dir);
    const std::vector<double> got = losses_of(*resumed, own, 3);
    if (std::string(mesh) == "fsdp=2,tensor=2")
      EXPECT_EQ(got, wanted);
    else
      expect_losses(got, wanted, mesh);
  }
  remove_all(root);
}

// An adapter with dropout, saved in the middle of an accumulation, goes on on another mesh.
TEST(Mesh, AnAdapterGoesOnOnAnotherMesh) {
  const std::string root = testing::TempDir() + "/dllm_mesh_adapter_" + std::to_string(getpid());
  const auto trainer_on = [](const char* mesh, const char* kind, uint64_t seed) {
    const auto model =
        model::new_model(mesh_engine(mesh), mesh_config(false), Options(model::model_schema()));
    model::AdapterOptions adapter{{"*_proj.weight"}, {4, 8}, seed};
    adapter.settings.kind = kind;
    adapter.settings.dropout = std::string(kind) == "ia3" ? 0 : 0.2;
    adapter.settings.modules_to_save = {"embed_tokens"};
    model::add_adapter(*model, adapter);
    return std::make_unique<Trainer>(model, noise::make_objective("mdlm"),
                                     trainer_options({{"lr", 0.02}, {"accumulate", 3}}));
  };
  const auto updates = [](Trainer& trainer, TextSource& source, int64_t done, int64_t count) {
    std::vector<double> losses;
    for (int64_t i = done; i < 3 * count; ++i) {
      trainer.accumulate(*source.next());
      if (i % 3 == 2) losses.push_back(trainer.apply());
    }
    losses.push_back(trainer.metric("grad_norm"));
    return losses;
  };
  for (const char* kind : {"lora", "dora", "ia3"}) {
    SCOPED_TRACE(kind);
    remove_all(root);
    const auto saved = trainer_on("fsdp=2,tensor=2", kind, 1);
    TextSource source(8);
    updates(*saved, source, 0, 2);
    saved->accumulate(*source.next()); // the first third of an update
    const std::string dir = save_checkpoint(*saved, &source, root, Options(checkpoint_schema()));
    const std::vector<double> wanted = updates(*saved, source, 1, 3);
    for (const char* mesh : {"fsdp=2,tensor=2", "", "fsdp=4", "data=2,tensor=4"}) {
      const auto resumed = trainer_on(mesh, kind, 77);
      TextSource own(8);
      restore_checkpoint(*resumed, &own, dir);
      const std::vector<double> got = updates(*resumed, own, 1, 3);
      if (std::string(mesh) == "fsdp=2,tensor=2")
        EXPECT_EQ(got, wanted);
      else
        expect_losses(got, wanted, mesh);
    }
  }
  remove_all(root);
}

// One run on 8 ranks, on 8 others, on one and on 4: its losses are those of a run that never moved.
TEST(Mesh, ARunMovesFromMeshToMesh) {
  const std::string root = testing::TempDir() + "/dllm_moves_" + std::to_string(getpid());
  remove_all(root);
  TextSource source(8);
  const std::vector<double> wanted = losses_of(*mesh_trainer(""), source, 12);
  std::vector<double> got;
  std::string dir;
  for (const char* mesh : {"fsdp=8", "fsdp=2,tensor=4", "", "tensor=4"}) {
    const auto trainer = mesh_trainer(mesh);
    TextSource own(8);
    if (!dir.empty()) restore_checkpoint(*trainer, &own, dir);
    for (const double loss : losses_of(*trainer, own, 3)) got.push_back(loss);
    dir = save_checkpoint(*trainer, &own, root, Options(checkpoint_schema()));
  }
  EXPECT_TRUE(dir.ends_with("step_000012")) << dir;
  expect_losses(got, wanted, "moves");
  remove_all(root);
}

TEST(Mesh, LogitsOfAModelAreThoseOfOneRank) {
  Batch batch;
  batch.set("ids",
            Tensor::from(Shape{2, 5}, std::vector<int32_t>{3, 5, 30, 9, 1, 30, 30, 7, 11, 31}));
  const auto logits = [&](const char* mesh) {
    const auto model =
        model::new_model(mesh_engine(mesh), mesh_config(false), Options(model::model_schema()));
    return model::forward(*model, batch).at("logits");
  };
  const Tensor wanted = logits("");
  for (const char* mesh : kMeshes) {
    const Tensor got = logits(mesh);
    ASSERT_EQ(got.shape(), wanted.shape());
    for (size_t i = 0; i < wanted.as<float>().size(); ++i)
      ASSERT_NEAR(got.as<float>()[i], wanted.as<float>()[i], 1e-5) << mesh << " " << i;
  }
}

// A cancelled step ends all ranks and changes nothing; the next step works.
TEST(Mesh, ACancelledStepIsAsIfItNeverWas) {
  const auto trainer = mesh_trainer("fsdp=2,tensor=2");
  TextSource source(8);
  trainer->step(*source.next());
  const auto before = weights_of(*trainer);
  const Batch batch = *source.next();
  for (const int64_t check : {1, 7, 40}) {
    Task task;
    task.cancel_at_check(check);
    EXPECT_THROW(trainer->step(batch, &task), Error);
    EXPECT_EQ(weights_of(*trainer), before) << check;
  }
  EXPECT_GT(trainer->step(batch), 0);
}

TEST(Mesh, WrongMeshesAndBatchesAreNamed) {
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.text();
    }
    return "";
  };
  EXPECT_NE(message([] { mesh_engine("rows=2"); }).find("no mesh axis named \"rows\""),
            std::string::npos);
  EXPECT_NE(message([] { mesh_engine("data"); }).find("'data' is not an axis"), std::string::npos);
  EXPECT_NE(message([] { mesh_engine("data=0"); }).find("expected a number"), std::string::npos);
  EXPECT_NE(message([] { mesh_engine("data=2,data=2"); }).find("given twice"), std::string::npos);
  const auto odd = mesh_trainer("sequence=5");
  TextSource rows(4);
  const Batch even = *rows.next();
  EXPECT_NE(message([&] { odd->step(even); }).find("do not divide by the 5 ranks of axis sequence"),
            std::string::npos);
  const auto trainer = mesh_trainer("data=4");
  TextSource source(6);
  const Batch batch = *source.next();
  EXPECT_NE(message([&] { trainer->step(batch); }).find("6 rows does not divide by the 4 ranks"),
            std::string::npos);
}

// Sizes that do not divide stay whole.
TEST(Mesh, WhatDoesNotDivideStaysWhole) {
  const auto losses = [](const char* mesh) {
    const auto trainer = std::make_unique<Trainer>(
        tiny_model(mesh_engine(mesh)), noise::make_objective("mdlm"), trainer_options());
    TextSource source(6);
    return losses_of(*trainer, source, 3);
  };
  expect_losses(losses("tensor=3"), losses(""), "tensor=3");
  expect_losses(losses("fsdp=3"), losses(""), "fsdp=3");
}

} // namespace
} // namespace dllm::train
