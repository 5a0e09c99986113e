// Mask fillers: networks that change the input of the base at mask tokens, in training under any
// masked objective, in files, on meshes and in decoding; and objective vfm, which trains one.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "graph/passes.h"
#include "losses/loss_difference.h"
#include "model/files/quantize.h"
#include "model/network/token_batch.h"
#include "noise/loss/evaluate.h"
#include "runtime/programs.h"
#include "tiny.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/noise/tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

// Options of each kind, for the tiny model of 24 numbers.
const std::pair<const char*, Json> kFillers[] = {
    {"small", {{"filler", "small"}, {"filler_layers", 1}, {"filler_heads", 4}}},
    {"small_scaled",
     {{"filler", "small"},
      {"filler_layers", 1},
      {"filler_heads", 4},
      {"filler_scale", 0.3},
      {"consistency", 0.5}}},
    {"unet",
     {{"filler", "unet"}, {"filler_layers", 2}, {"filler_heads", 4}, {"filler_hidden", 16}}},
    {"adapter", {{"filler", "adapter"}, {"filler_layers", 1}, {"filler_heads", 4}}},
    {"adapter_of_prompts",
     {{"filler", "adapter"},
      {"filler_layers", 1},
      {"filler_heads", 4},
      {"filler_context", "prompt"},
      {"filler_spherical", true}}},
};

noise::ObjectiveRef filler_objective(const Json& settings, const std::string& name = "mdlm") {
  return noise::tiny_objective(name, settings);
}

std::unique_ptr<Trainer> filler_trainer(const std::shared_ptr<model::Model>& model,
                                        const Json& settings, const std::string& name = "mdlm",
                                        const Json& values = Json::object()) {
  return std::make_unique<Trainer>(model, filler_objective(settings, name),
                                   trainer_options(values));
}

// A filler begins with heads of 0, where most gradients are 0.
void stir(model::Model& model) {
  uint64_t number = 0;
  for (const std::string& part : model.parts().fillers()) {
    for (const std::string& name : model.params().names(part)) {
      Tensor values = model.params().read(name).to(DType::f32).clone();
      for (float& value : values.mutable_as<float>())
        value += 0.1f * std::sin(static_cast<float>(++number));
      model.params().write(name, values);
    }
  }
}

std::shared_ptr<model::Model>
bidirectional(const std::shared_ptr<graph::Engine>& engine = tiny_engine()) {
  auto model = tiny_model(engine, false);
  model->set_attention(model::AttentionKind::bidirectional, 0, 0);
  return model;
}

std::shared_ptr<model::Model>
stirred(const Json& settings, const std::string& name = "mdlm",
        const std::shared_ptr<graph::Engine>& engine = tiny_engine()) {
  const auto model = bidirectional(engine);
  filler_objective(settings, name)->filler().add_to(*model, 3);
  stir(*model);
  return model;
}

Batch prompted_rows(int64_t batch = 2, int64_t length = 8) {
  TextSource source(batch, length);
  Batch rows = *source.next();
  rows.set("prompt_length",
           Tensor::from(Shape{batch}, std::vector<int32_t>(static_cast<size_t>(batch), 3)));
  return rows;
}

TEST(Fillers, AreMadeByTheTrainerAndNamedInTheModel) {
  for (const auto& [name, settings] : kFillers) {
    const auto model = tiny_model();
    const auto trainer = filler_trainer(model, settings);
    EXPECT_TRUE(model->config().filler.on()) << name;
    EXPECT_EQ(model::filler_kind_name(model->config().filler.kind), settings.at("filler")) << name;
    for (const std::string& part : model->parts().fillers())
      EXPECT_TRUE(model->reading().has(part)) << name << " " << part;
    TextSource source;
    for (const double loss : losses_of(*trainer, source, 2))
      EXPECT_TRUE(std::isfinite(loss)) << name;
  }
}

TEST(Fillers, ASmallOneAndItsLossBeginAsNothing) {
  const auto plain = tiny_model(), filled = tiny_model();
  const auto objective = filler_objective(kFillers[0].second);
  objective->filler().add_to(*filled, 1);
  const Batch rows = prompted_rows();
  const Batch prepared =
      objective->prepare(rows, 1, 0, noise::prepare_context(*objective, filled->config()));
  noise::LossRunner before(plain, filler_objective(Json::object())), after(filled, objective);
  EXPECT_EQ(after.run(prepared, 0, 0, nullptr).mean(), before.run(prepared, 0, 0, nullptr).mean());
}

TEST(Fillers, HaveTheGradientOfEveryParameter) {
  for (const auto& [name, given] : kFillers) {
    Json settings = given;
    settings["filler_alpha"] = 1.0;
    const auto objective = filler_objective(settings);
    const auto model = stirred(settings);
    noise::LossRunner runner(model, objective);
    const Batch prepared = objective->prepare(prompted_rows(), 5, 0,
                                              noise::prepare_context(*objective, model->config()));
    SCOPED_TRACE(name);
    noise::expect_gradient(*model, runner, *objective, prepared, 3e-3);
  }
}

TEST(Fillers, ScaleTheGradientThatArrives) {
  Json settings = kFillers[0].second;
  settings["filler_alpha"] = 1.0;
  const auto model = stirred(settings);
  const auto gradient_of = [&](double scale) {
    settings["filler_grad_scale"] = scale;
    const auto objective = filler_objective(settings);
    const Batch prepared = objective->prepare(prompted_rows(), 5, 0,
                                              noise::prepare_context(*objective, model->config()));
    const noise::LossGradients got = noise::loss_gradients(*model, *objective, prepared);
    const auto found = std::ranges::find(got.gradients, std::string("filler/heads.delta.weight"),
                                         [](const auto& entry) { return entry.first; });
    EXPECT_NE(found, got.gradients.end());
    return found->second.clone();
  };
  const Tensor once = gradient_of(1), often = gradient_of(20);
  for (size_t i = 0; i < once.as<float>().size(); ++i)
    EXPECT_NEAR(often.as<float>()[i], 20 * once.as<float>()[i],
                1e-4 + 1e-3 * std::abs(once.as<float>()[i]));
}

TEST(Fillers, HelpOnlySomeRowsOfTrainingAndAllHeldOutRows) {
  Json settings = kFillers[0].second;
  settings["filler_alpha"] = 0.5;
  const auto objective = filler_objective(settings);
  const auto model = stirred(settings);
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  TextSource source(64, 8);
  const Batch rows = *source.next();
  const Batch prepared = objective->prepare(rows, 1, 0, context);
  const auto on = prepared.at("filler_on").as<float>();
  EXPECT_GT(std::ranges::count(on, 1.0f), 16);
  EXPECT_GT(std::ranges::count(on, 0.0f), 16);
  context.held_out = true;
  EXPECT_FALSE(objective->prepare(rows, 1, 0, context).has("filler_on"));
}

TEST(Fillers, ResumeBitForBit) {
  for (const auto& [name, settings] : kFillers) {
    const test::TempFolder folder;
    TextSource source, again;
    const auto whole = filler_trainer(tiny_model(), settings);
    losses_of(*whole, source, 2);
    const std::string dir =
        save_checkpoint(*whole, &source, folder.path("run"), Options(checkpoint_schema()));
    const std::vector<double> wanted = losses_of(*whole, source, 2);
    const auto loaded = model::load_model(tiny_engine(), dir, Options(model::model_schema()));
    EXPECT_TRUE(loaded->config().filler.on()) << name;
    const auto other = filler_trainer(loaded, settings);
    restore_checkpoint(*other, &again, dir);
    EXPECT_EQ(losses_of(*other, again, 2), wanted) << name;
  }
}

TEST(Fillers, AreSavedWithTheBaseAndTrainedOnWithoutBeingNamed) {
  const test::TempFolder folder;
  for (const auto& [name, settings] : kFillers) {
    const auto model = stirred(settings);
    model::save_model(*model, folder.path(name), Options(model::save_schema()));
    const auto loaded =
        model::load_model(model->engine_ref(), folder.path(name), Options(model::model_schema()));
    EXPECT_EQ(weights_of(*loaded), weights_of(*model)) << name;
    EXPECT_EQ(model::config_to_json(loaded->config())["dllm"]["filler"],
              model::config_to_json(model->config())["dllm"]["filler"])
        << name;
    const std::string part = loaded->parts().fillers().front();
    const std::string first = loaded->params().names(part).front();
    const Tensor before = loaded->params().read(first).to(DType::f32).clone();
    TextSource source;
    const auto trainer = filler_trainer(loaded, Json::object());
    losses_of(*trainer, source, 2);
    const Tensor after = loaded->params().read(first).to(DType::f32);
    EXPECT_FALSE(std::ranges::equal(after.as<float>(), before.as<float>())) << name << first;
  }
}

TEST(Fillers, AreExportedFromARunAndFromAFolder) {
  const test::TempFolder folder;
  TextSource source;
  const auto trainer = filler_trainer(tiny_model(), kFillers[2].second);
  losses_of(*trainer, source, 1);
  const std::string run =
      save_checkpoint(*trainer, &source, folder.path("run"), Options(checkpoint_schema()));
  Options options(model::quantize_schema());
  options.set_str("format", "f32");
  model::quantize_model(run, folder.path("first"), options);
  model::quantize_model(folder.path("first"), folder.path("second"), options);
  for (const char* name : {"first", "second"}) {
    const auto loaded =
        model::load_model(tiny_engine(), folder.path(name), Options(model::model_schema()));
    EXPECT_EQ(weights_of(*loaded), weights_of(*trainer)) << name;
    EXPECT_TRUE(loaded->config().filler.on()) << name;
  }
  test::expect_error(Code::unimplemented, "a GGUF file does not hold", [&] {
    Options coded(model::quantize_schema());
    model::quantize_model(run, folder.path("coded.gguf"), coded);
  });
}

TEST(Fillers, TrainAlikeOnMeshes) {
  for (const auto& [name, settings] : kFillers) {
    std::vector<double> alone;
    {
      TextSource source;
      alone = losses_of(*filler_trainer(tiny_model(), settings), source, 3);
    }
    const bool is_adapter = settings.at("filler") == "adapter"; // cross attention needs whole rows
    for (const char* mesh : {"data=2", "fsdp=2", "tensor=2", "sequence=2"}) {
      if (is_adapter && std::string_view(mesh) == "sequence=2") continue;
      TextSource source;
      const auto trainer = filler_trainer(tiny_model(mesh_engine(mesh)), settings);
      SCOPED_TRACE(name);
      expect_losses(losses_of(*trainer, source, 3), alone, mesh);
    }
  }
}

TEST(Fillers, WhatDoesNotFitIsRefused) {
  const auto refused = [](const Json& settings, const std::string& part,
                          const std::string& objective = "mdlm") {
    test::expect_error(Code::invalid_argument, part,
                       [&] { filler_trainer(tiny_model(), settings, objective); });
  };
  refused({{"filler_alpha", 0.5}}, "the model has no mask filler");
  refused({{"filler_scale", 0.5}}, "option filler_scale is set and changes nothing");
  refused({{"filler", "small"}, {"filler_hidden", 8}}, "option filler_hidden is set");
  refused({{"filler", "small"}, {"filler_heads", 5}}, "filler_heads is 5");
  refused({{"filler", "small"}}, "needs rows with mask tokens", "ar");
  refused({{"filler", "unet"}, {"block_length", 4}}, "reads whole rows", "bd3lm");
  refused({{"consistency", 1.0}}, "option consistency is set and changes nothing");
  const auto model = stirred(kFillers[0].second);
  test::expect_error(Code::invalid_argument, "the model has a mask filler of kind small",
                     [&] { filler_trainer(model, kFillers[2].second); });
}

TEST(Fillers, UnderBlocksASmallOneSeesWhatTheModelSees) {
  const auto trainer = filler_trainer(
      tiny_model(), {{"filler", "small"}, {"filler_heads", 4}, {"block_length", 4}}, "bd3lm");
  TextSource source;
  for (const double loss : losses_of(*trainer, source, 2)) EXPECT_TRUE(std::isfinite(loss));
}

// --- decoding ---

std::vector<std::vector<int32_t>> answers(const std::shared_ptr<model::Model>& model,
                                          const Json& values,
                                          const std::vector<std::vector<int32_t>>& prompts) {
  Options options(decode::decoder_schema(values.value("policy", std::string())));
  options.set_json(values);
  decode::Decoder decoder(model, options);
  std::vector<int64_t> slots;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Options own(decode::request_schema());
    own.set_json({{"seed", 3}, {"gen_length", 6 + 3 * static_cast<int64_t>(i)}});
    slots.push_back(decoder.add(prompts[i], {}, own));
  }
  decoder.run();
  std::vector<std::vector<int32_t>> made;
  for (const int64_t slot : slots) made.push_back(decoder.request(slot).ids);
  return made;
}

const std::vector<std::vector<int32_t>> kPrompts = {{3, 5, 7}, {9, 11, 13, 15, 17}};

TEST(Fillers, EveryPolicyDecodesWithThem) {
  for (const auto& [name, settings] : kFillers) {
    const auto model = stirred(settings);
    for (const char* policy : {"threshold", "random", "low_confidence"}) {
      const Json values = {{"policy", policy}, {"slots", 2}};
      const auto both = answers(model, values, kPrompts);
      for (const auto& ids : both)
        EXPECT_EQ(std::ranges::count(ids, 30), 0) << name << " " << policy;
      // A request has the same tokens alone and next to a longer one.
      EXPECT_EQ(answers(model, values, {kPrompts[0]})[0], both[0]) << name << " " << policy;
      // So it has in a loop of the device.
      Json loop = values;
      loop["loop"] = "device";
      EXPECT_EQ(answers(model, loop, kPrompts), both) << name << " " << policy;
    }
  }
}

TEST(Fillers, DecodeAlikeOnMeshes) {
  const Json values = {{"policy", "threshold"}, {"slots", 2}};
  for (const auto& [name, settings] : kFillers) {
    const auto alone = answers(stirred(settings), values, kPrompts);
    for (const char* mesh : {"data=2", "tensor=2"}) {
      EXPECT_EQ(answers(stirred(settings, "mdlm", mesh_engine(mesh)), values, kPrompts), alone)
          << name << " " << mesh;
    }
  }
}

TEST(Fillers, ChangeWhatIsDecoded) {
  for (const auto& [name, settings] : kFillers) {
    const Json values = {{"policy", "threshold"}, {"slots", 2}};
    EXPECT_NE(answers(stirred(settings), values, kPrompts),
              answers(bidirectional(), values, kPrompts))
        << name;
  }
}

TEST(Fillers, KeepNoKeysOfAPassThatTheyChange) {
  const auto model = stirred(kFillers[0].second);
  const Json values = {{"policy", "threshold"}, {"slots", 2}, {"block_length", 4}};
  for (const char* attention : {"bidirectional", "block_causal"}) {
    Json own = values, none = values;
    own["attention"] = none["attention"] = attention;
    none["cache"] = "none";
    EXPECT_EQ(answers(model, own, kPrompts), answers(model, none, kPrompts)) << attention;
    for (const char* cache : {"exact", "prefix", "dual"}) {
      own["cache"] = cache;
      test::expect_error(Code::invalid_argument, "change with the mask filler",
                         [&] { answers(model, own, kPrompts); });
    }
  }
  // A policy without masks keeps an exact cache.
  Json next = {{"policy", "autoregressive"}, {"attention", "causal"}, {"cache", "exact"}};
  const auto kept = answers(model, next, {kPrompts[0]});
  next["cache"] = "none";
  EXPECT_EQ(answers(model, next, {kPrompts[0]}), kept);
  const auto whole = stirred(kFillers[3].second);
  test::expect_error(Code::invalid_argument, "needs bidirectional attention", [&] {
    answers(whole, {{"policy", "threshold"}, {"attention", "block_causal"}, {"block_length", 4}},
            kPrompts);
  });
}

// --- objective vfm ---

const Json kVfm = {{"filler_layers", 1}, {"filler_heads", 4}};

// Returns the logits (seq, vocab) of one row whose first `start` tokens are the prompt.
Tensor logits_of(const model::Model& model, const std::vector<int32_t>& ids, int32_t start) {
  const auto graph = std::make_shared<graph::Graph>("refine");
  model::Builder builder(*graph, model);
  Batch feed;
  feed.set("ids", Tensor::from(Shape{1, std::ssize(ids)}, ids));
  feed.set("filler_start", Tensor::from(Shape{1}, std::vector<int32_t>{start}));
  const model::ForwardInputs inputs = model::forward_inputs(
      runtime::feed_inputs(*graph, feed), model::AttentionKind::bidirectional, false);
  graph->output("logits", builder.logits(builder.forward(inputs).hidden));
  runtime::Arguments arguments(model.engine().compile(graph::simplify(*graph)));
  arguments.share_parameters(model.params().snapshot(model.reading(), nullptr, nullptr));
  arguments.upload(model.engine(), feed);
  return arguments.run(nullptr)[0]->read().clone();
}

// Decides all tokens that are as probable as the threshold, and at least the best one, until none
// is open. The vectors of the rest follow from the prompt alone (generate_refine of castlehill).
std::vector<int32_t> refined(const model::Model& model, std::vector<int32_t> ids, int64_t count,
                             double threshold) {
  const auto start = static_cast<int32_t>(ids.size());
  ids.resize(ids.size() + static_cast<size_t>(count), 30);
  while (std::ranges::count(ids, 30) > 0) {
    const Tensor logits = logits_of(model, ids, start);
    const auto vocab = static_cast<size_t>(model.config().vocab_size);
    std::vector<std::pair<double, int32_t>> best(ids.size(), {-1.0, 0});
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != 30) continue;
      const auto row = logits.as<float>().subspan(i * vocab, vocab - 1); // the mask is last
      const auto top = std::ranges::max_element(row);
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x) - static_cast<double>(*top));
      best[i] = {1 / sum, static_cast<int32_t>(top - row.begin())};
    }
    const double highest = std::ranges::max_element(best)->first;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (best[i].first >= std::min(threshold, highest) && best[i].first > 0)
        ids[i] = best[i].second;
    }
  }
  return ids;
}

TEST(Vfm, IsDecodedByThresholdAsTheReferenceRefines) {
  const auto model = stirred(kVfm, "vfm");
  for (const double threshold : {0.1, 0.2, 0.9}) {
    const Json values = {{"policy", "threshold"}, {"threshold", threshold}, {"block_length", 64}};
    EXPECT_EQ(answers(model, values, {kPrompts[0]})[0], refined(*model, kPrompts[0], 6, threshold))
        << threshold;
  }
}

TEST(Vfm, TrainsTheFillerAloneOrTheModelToo) {
  for (const bool is_trained : {false, true}) {
    Json settings = kVfm;
    settings["train_base"] = is_trained;
    const auto model = tiny_model(1, false);
    const auto before = weights_of(*model);
    const auto trainer = filler_trainer(model, settings, "vfm", {{"lr", 0.01}});
    TextSource source;
    const std::vector<double> losses = losses_of(*trainer, source, 20);
    EXPECT_LT(losses.back(), losses.front());
    const auto after = weights_of(*model);
    for (const auto& [name, values] : before)
      EXPECT_EQ(after.at(name) != values, is_trained) << name;
  }
}

TEST(Vfm, HasTheGradientOfEveryParameter) {
  const Json variants[] = {
      Json::object(),
      {{"mu_reg", 0.3}, {"kl_weight", 0.2}},
      {{"filler_gaussian", false}, {"refinement", true}, {"tau", 0.7}, {"sigma", 1.4}}};
  for (const Json& more : variants) {
    Json settings = kVfm;
    settings["train_base"] = true;
    settings.update(more);
    const auto objective = filler_objective(settings, "vfm");
    const auto model = stirred(settings, "vfm");
    noise::LossRunner runner(model, objective);
    const Batch prepared = objective->prepare(prompted_rows(), 5, 0,
                                              noise::prepare_context(*objective, model->config()));
    SCOPED_TRACE(more.dump());
    noise::expect_gradient(*model, runner, *objective, prepared, 3e-3);
  }
}

TEST(Vfm, RowsAreAPromptAndItsCompletion) {
  const auto objective = filler_objective({{"tau", 0.5}, {"sigma", 2.0}}, "vfm");
  const auto model = tiny_model();
  objective->filler().add_to(*model, 3);
  noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  context.shift = 1;
  const Batch rows = prompted_rows(2, 8);
  const Batch prepared = objective->prepare(rows, 5, 0, context);
  const auto ids = prepared.at("ids").as<int32_t>(), clean = rows.at("ids").as<int32_t>(),
             targets = prepared.at("targets").as<int32_t>();
  const auto weights = prepared.at("weights").as<float>();
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t place = i % 8;
    EXPECT_EQ(ids[i], place < 3 ? clean[i] : 30) << i;
    EXPECT_EQ(targets[i], place == 0 ? -1 : clean[i]) << i;
    // 1 / (2 tau^2 5) and 1 / (2 sigma^2 2)
    const float wanted = place == 0 ? 0.0f : place < 3 ? 0.0625f : 0.4f;
    EXPECT_NEAR(weights[i], wanted, 1e-6) << i;
  }
  // Without a given prompt it is a random prefix.
  Batch free = rows;
  free.remove("prompt_length");
  const Batch random = objective->prepare(free, 5, 0, context);
  for (const int32_t start : random.at("filler_start").as<int32_t>())
    EXPECT_TRUE(start >= 1 && start <= 7) << start;
}

TEST(Vfm, TheWeightOfTheDivergenceGrows) {
  const auto objective = filler_objective({{"kl_weight", 0.5}, {"kl_warmup", 4}}, "vfm");
  const auto model = tiny_model();
  objective->filler().add_to(*model, 3);
  const noise::PrepareContext context = noise::prepare_context(*objective, model->config());
  for (const auto& [step, wanted] :
       {std::pair{0, 0.0}, std::pair{1, 0.125}, std::pair{4, 0.5}, std::pair{9, 0.5}}) {
    const Batch prepared = objective->prepare(prompted_rows(), 5, step, context);
    EXPECT_NEAR(prepared.at("kl_weight").as<float>()[0], wanted, 1e-6) << step;
  }
}

TEST(Vfm, TrainsAlikeOnMeshesAndResumes) {
  const test::TempFolder folder;
  TextSource source, again;
  const auto whole = filler_trainer(tiny_model(1, false), kVfm, "vfm");
  std::vector<double> losses = losses_of(*whole, source, 2);
  const std::string dir =
      save_checkpoint(*whole, &source, folder.path("run"), Options(checkpoint_schema()));
  const std::vector<double> wanted = losses_of(*whole, source, 2);
  const auto other = filler_trainer(
      model::load_model(tiny_engine(), dir, Options(model::model_schema())), kVfm, "vfm");
  restore_checkpoint(*other, &again, dir);
  EXPECT_EQ(losses_of(*other, again, 2), wanted);
  losses.insert(losses.end(), wanted.begin(), wanted.end());
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2"}) {
    TextSource own;
    const auto trainer = filler_trainer(tiny_model(mesh_engine(mesh), false), kVfm, "vfm");
    expect_losses(losses_of(*trainer, own, 4), losses, mesh);
  }
}

} // namespace
} // namespace dllm::train
