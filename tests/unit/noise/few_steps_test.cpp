// Few-step distillation: the student is compared with several steps of its teacher.

#include "noise/terms/few_steps.h"

#include "base/error.h"
#include "noise/objective.h"
#include "tiny.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::noise {
namespace {

constexpr int64_t kVocab = 23;

std::shared_ptr<model::Model> few_step_model(int64_t teacher_seed = 5) {
  const auto on = tiny_engine();
  const auto model = tiny_network(on, 1);
  model->add_network("teacher", *tiny_network(on, teacher_seed));
  return model;
}

Json few_steps(const Json& more = Json::object()) {
  Json made = {{"distill", 1.0},     {"teacher", "model"}, {"teacher_attention", "bidirectional"},
               {"distill_steps", 2}, {"distill_of", 4},    {"own_weight", 0.0}};
  made.update(more);
  return made;
}

Batch few_step_rows(const Objective& objective, const model::Model& model, int64_t batch = 3,
                    int64_t seq = 12) {
  return objective.prepare(tiny_rows(batch, seq), 3, 1, prepare_context(objective, model.config()));
}

// Returns log probabilities (batch * seq, vocab) of the tokens at each position.
std::vector<std::vector<double>> predicted(model::Model& model, const Tensor& ids, int shift) {
  Options options(model::forward_schema());
  options.set_json({{"attention", "bidirectional"}, {"shift", shift}});
  Batch batch;
  batch.set("ids", ids);
  const Tensor logits = model::forward(model, batch, options).at("logits").clone();
  std::vector<std::vector<double>> rows;
  for (int64_t at = 0; at < ids.count(); ++at) {
    const auto row = logits.as<float>().subspan(static_cast<size_t>(at * kVocab), kVocab);
    double sum = 0;
    for (const float z : row) sum += std::exp(static_cast<double>(z));
    rows.emplace_back();
    for (const float z : row) rows.back().push_back(static_cast<double>(z) - std::log(sum));
  }
  return rows;
}

// The token whose part of [0, 1) holds the draw; the mask token has no part.
int32_t drawn_token(const std::vector<double>& log_p, double draw) {
  double total = 0, sum = 0;
  for (int32_t k = 0; k < kVocab; ++k)
    total += k == kTinyMask ? 0 : std::exp(log_p[static_cast<size_t>(k)]);
  for (int32_t k = 0; k < kVocab; ++k) {
    if (k == kTinyMask) continue;
    sum += std::exp(log_p[static_cast<size_t>(k)]);
    if (sum > draw * total) return k;
  }
  return -1;
}

double apart(const std::string& kind, const std::vector<double>& own,
             const std::vector<double>& other) {
  double sum = 0;
  for (size_t k = 0; k < own.size(); ++k) {
    const double p = std::exp(own[k]), q = std::exp(other[k]), middle = std::log((p + q) / 2);
    sum += kind == "forward"   ? q * (other[k] - own[k])
           : kind == "reverse" ? p * (own[k] - other[k])
                               : (p * (own[k] - middle) + q * (other[k] - middle)) / 2;
  }
  return sum;
}

// Each step of the teacher is a pass over the tokens that the steps before it drew.
TEST(FewSteps, TheLossIsThatOfTheTeachersSteps) {
  const auto on = tiny_engine();
  const auto model = few_step_model(), student = tiny_network(on, 1), teacher = tiny_network(on, 5);
  for (const char* kind : {"forward", "reverse", "js"}) {
    for (const int steps : {2, 3}) {
      for (const int shift : {0, 1}) {
        for (const bool rest : {false, true}) {
          SCOPED_TRACE(std::string(kind) + " " + std::to_string(steps) + " shift " +
                       std::to_string(shift) + (rest ? " rest" : ""));
          const ObjectiveRef objective =
              tiny_objective("mdlm", few_steps({{"distill_kind", kind},
                                                {"distill_steps", steps},
                                                {"shift", shift},
                                                {"distill_rest", rest}}));
          const Batch rows = few_step_rows(*objective, *model);
          const auto reveals = rows.at("distill_steps").as<int32_t>();
          const auto draws = rows.at("distill_draws").as<float>();
          const auto targets = rows.at("targets").as<int32_t>();
          Tensor ids = rows.at("ids").clone();
          const auto own = predicted(*student, ids, shift);
          double wanted = 0;
          for (int step = 0; step < steps; ++step) {
            const auto seen = predicted(*teacher, ids, 0);
            for (size_t at = 0; at < reveals.size(); ++at) {
              const bool last = step + 1 == steps && rest && reveals[at] == steps;
              if (targets[at] < 0 || (reveals[at] != step && !last)) continue;
              wanted += static_cast<double>(rows.at("weights").as<float>()[at]) *
                        apart(kind, own[at], seen[at]);
              if (!last)
                ids.mutable_as<int32_t>()[at] =
                    drawn_token(seen[at], static_cast<double>(draws[at]));
            }
          }
          EXPECT_GT(wanted, 0.1);
          EXPECT_NEAR(LossRunner(model, objective).run(rows, 0, 0, nullptr).sum, wanted,
                      1e-4 * wanted);
        }
      }
    }
  }
}

// A step of 1 / of at time t reveals a masked token with the chance of the reverse process.
TEST(FewSteps, StepsRevealTheirShare) {
  const auto model = few_step_model();
  for (const char* schedule : {"linear", "cosine"}) {
    Options options(objective_schema("mdlm"));
    options.set_json(few_steps({{"distill_of", 8}}));
    const ScheduleRef noise = make_schedule(schedule);
    const ObjectiveRef objective = make_objective("mdlm", noise, options);
    Batch raw = tiny_rows(1, 60000);
    const double t = 0.7;
    raw.set("t", Tensor::from(Shape{1}, std::vector<float>{static_cast<float>(t)}));
    PrepareContext context = prepare_context(*objective, model->config());
    const Batch rows = objective->prepare(raw, 3, 1, context);
    double masked = 0, counts[3] = {0, 0, 0};
    for (size_t i = 0; i < 60000; ++i) {
      if (rows.at("targets").as<int32_t>()[i] < 0) {
        EXPECT_EQ(rows.at("distill_steps").as<int32_t>()[i], 2);
        continue;
      }
      ++masked;
      ++counts[rows.at("distill_steps").as<int32_t>()[i]];
    }
    const double one = noise->reverse_mask_prob(t - 0.125, t),
                 two = noise->reverse_mask_prob(t - 0.25, t);
    // 40,000 tokens: a share has a standard error of at most 0.0025.
    EXPECT_NEAR(counts[0] / masked, 1 - one, 0.01) << schedule;
    EXPECT_NEAR(counts[1] / masked, one - two, 0.01) << schedule;
    EXPECT_NEAR(counts[2] / masked, two, 0.01) << schedule;
  }
}

// A row that the first step finishes has the loss of one step.
TEST(FewSteps, TheLastStepIsOneStep) {
  const auto model = few_step_model();
  Batch raw = tiny_rows(2, 12);
  raw.set("t", Tensor::from(Shape{2}, std::vector<float>{0.24f, 0.2f}));
  const Json settings = few_steps({{"min_mask_ratio", 0.6}});
  Json plain = settings;
  plain.erase("distill_steps");
  plain.erase("distill_of");
  const double one = LossRunner(model, tiny_objective("mdlm", plain)).run(raw, 3, 1, nullptr).sum;
  EXPECT_GT(one, 0.1);
  EXPECT_NEAR(LossRunner(model, tiny_objective("mdlm", settings)).run(raw, 3, 1, nullptr).sum, one,
              1e-5 * one);
}

TEST(FewSteps, EqualSeedsHaveEqualSteps) {
  const auto model = few_step_model();
  const ObjectiveRef objective = tiny_objective("mdlm", few_steps());
  const auto context = prepare_context(*objective, model->config());
  const auto draws = [&](uint64_t seed, int64_t step, int64_t first) {
    const Batch rows = objective->prepare(tiny_rows(1, 12, first, 4), seed, step, context);
    const auto found = rows.at("distill_draws").as<float>();
    return std::vector<float>(found.begin(), found.end());
  };
  EXPECT_EQ(draws(3, 1, 0), draws(3, 1, 0));
  EXPECT_NE(draws(3, 1, 0), draws(4, 1, 0));
  EXPECT_NE(draws(3, 1, 0), draws(3, 2, 0));
  EXPECT_NE(draws(3, 1, 0), draws(3, 1, 1));
}

TEST(FewSteps, MistakesAreNamed) {
  const auto refuses = [](const char* text, const char* name, const Json& settings) {
    test::expect_error(Code::invalid_argument, text, [&] { tiny_objective(name, settings); });
  };
  refuses("option distill_of is set and changes nothing: distill_steps is 1", "mdlm",
          few_steps({{"distill_steps", 1}}));
  refuses("option distill_steps is set and changes nothing: distill is 0", "mdlm",
          {{"distill_steps", 2}});
  refuses("option own_weight is set and changes nothing: align, cola, consistency, distill or "
          "entropy is 0",
          "mdlm", {{"own_weight", 0.5}});
  refuses("distill_steps 5 is above distill_of 4", "mdlm", few_steps({{"distill_steps", 5}}));
  refuses("teacher rows has numbers alone", "mdlm", few_steps({{"teacher", "rows"}}));
  refuses("teacher_input is clean", "mdlm", few_steps({{"teacher_input", "clean"}}));
  for (const char* name : {"ar", "uniform"}) {
    refuses("distill_steps needs masks", name, few_steps({{"teacher_attention", "causal"}}));
  }
  const auto model = few_step_model();
  test::expect_error(Code::invalid_argument, "its attention is causal", [&] {
    const ObjectiveRef causal =
        tiny_objective("mdlm", few_steps({{"teacher_attention", "causal"}}));
    LossRunner(model, causal).run(tiny_rows(1, 8), 0, 0, nullptr);
  });
  const ObjectiveRef objective = tiny_objective("mdlm", few_steps());
  const auto breaks = [&](const char* name, const Tensor& wrong, const char* text) {
    Batch rows = few_step_rows(*objective, *model);
    rows.set(name, wrong);
    test::expect_error(Code::invalid_argument, text,
                       [&] { objective->feed(rows, model->config()); });
  };
  Tensor steps(DType::i32, {3, 12}), draws(DType::f32, {3, 12});
  breaks("distill_steps", Tensor(DType::i32, {3, 11}), "array distill_steps has shape (3, 11)");
  breaks("distill_draws", Tensor(DType::f32, {36}), "array distill_draws has shape (36)");
  steps.mutable_as<int32_t>()[13] = 3;
  breaks("distill_steps", steps, "distill_steps[1, 1]");
  draws.mutable_as<float>()[0] = std::nanf("");
  breaks("distill_draws", draws, "is not finite");
  Batch rows = few_step_rows(*objective, *model);
  rows.remove("distill_steps");
  rows.remove("t");
  test::expect_error(Code::invalid_argument, "distill_steps needs array t",
                     [&] { objective->feed(rows, model->config()); });
}

} // namespace
} // namespace dllm::noise
