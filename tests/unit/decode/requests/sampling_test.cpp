// The distribution of what is drawn, on models whose logits are known.

#include "decode/policies/policies.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

namespace dllm::decode {
namespace {

// Tokens 0 to 4 with these logits at every position, whatever the canvas holds; 5 is the mask and
// would win if it were not forbidden.
constexpr std::array<float, 6> kLogits = {1.2f, 0.4f, 0.0f, -0.7f, -1.5f, 6.0f};

void fill(model::Model& model, const std::string& name, float value) {
  Tensor tensor = model.params().read(name).clone();
  for (float& x : tensor.mutable_as<float>()) x = value;
  model.params().write(name, tensor);
}

// All embeddings are the same vector of ones and no layer adds to it: after the norm every element
// is 1 (but for epsilon), and a row of the head that holds logit / hidden in each gives that logit.
std::shared_ptr<model::Model> known_model() {
  constexpr int64_t kHidden = 8;
  const Json config = {{"model_type", "a2d-llama"},    {"vocab_size", 6},
                       {"hidden_size", kHidden},       {"num_hidden_layers", 1},
                       {"num_attention_heads", 2},     {"num_key_value_heads", 2},
                       {"intermediate_size", 8},       {"max_position_embeddings", 64},
                       {"tie_word_embeddings", false}, {"mask_token_id", 5}};
  const auto model = tiny_model(2, config);
  fill(*model, "model.embed_tokens.weight", 1);
  fill(*model, "model.layers.0.self_attn.o_proj.weight", 0);
  fill(*model, "model.layers.0.mlp.down_proj.weight", 0);
  Tensor head(DType::f32, {6, kHidden});
  for (size_t i = 0; i < 6 * kHidden; ++i)
    head.mutable_as<float>()[i] = kLogits[i / kHidden] / kHidden;
  model->params().write("lm_head.weight", head);
  return model;
}

std::vector<double> softmax(std::vector<double> logits) {
  double sum = 0;
  for (double& x : logits) sum += x = std::exp(x);
  for (double& x : logits) x /= sum;
  return logits;
}

// Draws of 40 positions each by many requests with different seeds.
std::vector<std::vector<int32_t>> draw(const Json& settings, int64_t requests) {
  Json own = settings;
  own["trace"] = false;
  own["slots"] = requests;
  const auto decoder = make_decoder(known_model(), own);
  for (int64_t seed = 0; seed < requests; ++seed) add(*decoder, {{}, seed, 40});
  decoder->run();
  std::vector<std::vector<int32_t>> made;
  for (int64_t slot = 0; slot < requests; ++slot) made.push_back(decoder->request(slot).ids);
  return made;
}

double chi_square(const std::vector<int64_t>& counts, const std::vector<double>& expected) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double want = total * expected[i];
    sum += (static_cast<double>(counts[i]) - want) * (static_cast<double>(counts[i]) - want) / want;
  }
  return sum;
}

// Policies that choose by what was drawn keep the likely: their tokens do not follow the model.
std::vector<std::string> policies_that_follow_the_model() {
  std::vector<std::string> names = policy_names();
  std::erase_if(names, [](const std::string& name) {
    for (const char* keeps_the_likely :
         {"cola", "confidence_remasking", "credit", "diffusion_gemma", "editflow", "embedding",
          "factor", "fast_dllm_v2", "frechet", "hierarchy", "latent", "llada22", "nemotron", "sdar",
          "threshold"}) {
      if (name == keeps_the_likely) return true;
    }
    return false;
  });
  return names;
}

class KnownModel : public ::testing::TestWithParam<std::string> {};

// 1 % points of chi-square: 4 degrees 13.28, 24 degrees 42.98 (any table). The seeds are fixed, so
// the test gives the same verdict for ever.
TEST_P(KnownModel, DrawsFollowTheModel) {
  // A policy that looks at confidences draws again what it does not keep and keeps the likely: only
  // a single step shows the model's distribution.
  const std::set<std::string> blind = {"ancestral",     "autoregressive", "ddim",
                                       "first_hitting", "random",         "remdm"};
  const int steps = blind.count(GetParam()) == 0 ? 1 : 5;
  Json settings = {{"policy", GetParam()}, {"steps", steps}, {"temperature", 1.0}};
  // What it was sure of would be kept and drawn again: here everything is, in every step.
  if (GetParam() == "spd") settings.update({{"threshold", 0.0}, {"suppress_mask", true}});
  // Its last step is greedy by default. The chain over several steps draws from the posterior, not
  // from the prediction.
  if (GetParam() == "uniform") settings["greedy_tail"] = false;
  const auto rows = draw(settings, 100);
  const std::vector<double> p =
      softmax({kLogits[0], kLogits[1], kLogits[2], kLogits[3], kLogits[4]});
  std::vector<int64_t> single(5), pairs(25);
  for (const std::vector<int32_t>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_LT(row[i], 5);
      ++single[static_cast<size_t>(row[i])];
      if (i % 2 == 1) ++pairs[static_cast<size_t>(row[i - 1] * 5 + row[i])];
    }
  }
  EXPECT_LT(chi_square(single, p), 13.28);
  // Neighbours are independent in this model.
  std::vector<double> joint;
  for (double a : p) {
    for (double b : p) joint.push_back(a * b);
  }
  EXPECT_LT(chi_square(pairs, joint), 42.98);
}

INSTANTIATE_TEST_SUITE_P(All, KnownModel, ::testing::ValuesIn(policies_that_follow_the_model()),
                         [](const auto& info) { return info.param; });

// Token 0 is the likeliest everywhere: deferred, all positions are equally unsure and the first are
// decided first; its share is out of the others' confidence.
TEST(Sampling, DeferredTokensCountAsImpossible) {
  const auto model = known_model();
  const auto decoder = make_decoder(model, {{"steps", 8}, {"defer", {"0"}}});
  add(*decoder, {{}, 1, 8});
  decoder->run();
  EXPECT_EQ(decoder->request(0).ids, std::vector<int32_t>(8, 0));
  EXPECT_EQ(decoder->request(0).confidence, std::vector<float>(8, 0.0f));
  const auto other = make_decoder(model, {{"steps", 8}, {"defer", {"1", "2"}}});
  add(*other, {{}, 1, 8});
  other->run();
  const std::vector<double> p = softmax({kLogits[0], kLogits[3], kLogits[4]});
  for (const float confidence : other->request(0).confidence) EXPECT_NEAR(confidence, p[0], 1e-5);
}

// A deferred token that leads by more than a float's range: the others' shares are numbers all the
// same, and at a high temperature any token may be the one that is drawn.
TEST(Sampling, ADeferredTokenMayLeadByAnyMargin) {
  for (const float margin : {50.0f, 100.0f, 120.0f, 400.0f}) {
    const auto model = known_model();
    Tensor head = model->params().read("lm_head.weight").to(DType::f32).clone();
    for (float& weight : head.mutable_as<float>().first(8)) weight += margin / 8;
    model->params().write("lm_head.weight", head);
    for (const double temperature : {0.0, 1.0, 100.0}) {
      const auto decoder =
          make_decoder(model, {{"steps", 8}, {"defer", {"0"}}, {"temperature", temperature}});
      add(*decoder, {{}, 1, 8});
      decoder->run();
      for (const float confidence : decoder->request(0).confidence) {
        EXPECT_GE(confidence, 0.0f) << margin << " " << temperature;
        EXPECT_LE(confidence, 1.0f) << margin << " " << temperature;
      }
    }
  }
}

TEST(Sampling, TemperatureAndFiltersShapeTheDraw) {
  // top_k 3 at temperature 0.5: tokens 0 to 2 with doubled logits. 2 degrees, 1 %: 9.21.
  std::vector<int64_t> counts(3);
  for (const auto& row :
       draw({{"policy", "random"}, {"steps", 4}, {"temperature", 0.5}, {"top_k", 3}}, 50)) {
    for (int32_t id : row) {
      ASSERT_LT(id, 3);
      ++counts[static_cast<size_t>(id)];
    }
  }
  EXPECT_LT(chi_square(counts, softmax({2 * kLogits[0], 2 * kLogits[1], 2 * kLogits[2]})), 9.21);

  // p(0) = 0.48, p(0) + p(1) = 0.70: top_p 0.6 keeps two. 1 degree, 1 %: 6.63.
  std::vector<int64_t> two(2);
  for (const auto& row :
       draw({{"policy", "random"}, {"steps", 4}, {"temperature", 1.0}, {"top_p", 0.6}}, 50)) {
    for (int32_t id : row) {
      ASSERT_LT(id, 2);
      ++two[static_cast<size_t>(id)];
    }
  }
  EXPECT_LT(chi_square(two, softmax({kLogits[0], kLogits[1]})), 6.63);

  // p(1) / p(0) = 0.45, p(2) / p(0) = 0.30: min_p 0.4 keeps the same two.
  std::vector<int64_t> probable(2);
  for (const auto& row :
       draw({{"policy", "random"}, {"steps", 4}, {"temperature", 1.0}, {"min_p", 0.4}}, 50)) {
    for (int32_t id : row) {
      ASSERT_LT(id, 2);
      ++probable[static_cast<size_t>(id)];
    }
  }
  EXPECT_LT(chi_square(probable, softmax({kLogits[0], kLogits[1]})), 6.63);

  for (const auto& row : draw({{"steps", 4}, {"temperature", 0.0}}, 2)) {
    for (int32_t id : row) EXPECT_EQ(id, 0);
  }
}

// A filter that few requests set is in the program of a pass only with such a request.
TEST(Sampling, AFilterOfOneRequestLeavesTheOthersAlone) {
  const Json settings = {{"policy", "random"}, {"steps", 4}, {"temperature", 1.0}};
  const auto tokens = [&](const std::vector<double>& min_p) {
    const auto decoder = make_decoder(known_model(), settings);
    for (size_t i = 0; i < min_p.size(); ++i)
      decoder->add({}, {},
                   slot_options({{"seed", i + 1}, {"gen_length", 24}, {"min_p", min_p[i]}}));
    decoder->run();
    std::vector<std::vector<int32_t>> made;
    for (size_t i = 0; i < min_p.size(); ++i)
      made.push_back(decoder->request(static_cast<int64_t>(i)).ids);
    return made;
  };
  const auto plain = tokens({-1, -1}), mixed = tokens({-1, 1});
  EXPECT_EQ(mixed[0], plain[0]);
  EXPECT_NE(plain[1], mixed[1]);
  EXPECT_EQ(mixed[1], std::vector<int32_t>(24, 0)) << "min_p 1 leaves the likeliest token";
}

TEST(Sampling, ConfidenceIsTheProbabilityOfTheToken) {
  const std::vector<double> p =
      softmax({kLogits[0], kLogits[1], kLogits[2], kLogits[3], kLogits[4]});
  const auto decoder =
      make_decoder(known_model(), {{"steps", 4}, {"temperature", 2.0}, {"gen_length", 40}});
  decoder->start({}, 3);
  decoder->run();
  const Request& slot = decoder->request(0);
  for (size_t i = 0; i < slot.ids.size(); ++i) {
    // At temperature 1 whatever the draw's was.
    EXPECT_NEAR(slot.confidence[i], p[static_cast<size_t>(slot.ids[i])], 1e-5);
  }
}

// After k of n steps a position is clean with probability alpha(1 - k / n), independently of
// others.
TEST(Sampling, AncestralRevealsAsTheScheduleSays) {
  constexpr int64_t kSteps = 7, kRequests = 128, kLength = 40;
  for (const char* name : {"linear", "cosine"}) {
    const auto schedule = noise::make_schedule(name);
    const auto decoder = make_decoder(
        known_model(),
        {{"policy", "ancestral"}, {"schedule", name}, {"steps", kSteps}, {"trace", false}});
    for (int64_t seed = 0; seed < kRequests; ++seed) add(*decoder, {{}, seed + 1000, kLength});
    for (int64_t k = 1; k <= kSteps; ++k) {
      decoder->step();
      const double total = kRequests * kLength;
      const double clean = 1 - decoder->metric(-1, "open") / total;
      const double alpha = schedule->alpha(1 - static_cast<double>(k) / kSteps);
      EXPECT_NEAR(clean, alpha, 4 * std::sqrt(alpha * (1 - alpha) / total) + 1e-12)
          << name << " step " << k;
    }
    EXPECT_EQ(decoder->metric(-1, "open"), 0);
  }
}

// A step whose draw reveals nothing costs no forward pass.
TEST(Sampling, AncestralSkipsForwardPassesThatDecideNothing) {
  const auto decoder =
      make_decoder(known_model(), {{"policy", "ancestral"}, {"steps", 200}, {"gen_length", 10}});
  decoder->start({}, 1);
  decoder->run();
  EXPECT_LE(decoder->metric(0, "nfe"), 10);
  EXPECT_GT(decoder->metric(0, "steps"), decoder->metric(0, "nfe"));
}

TEST(TransferCounts, EqualTheGoldens) {
  const std::string path = test::golden_path("torch/samplers/cases.json");
  DLLM_NEEDS_FILE(path);
  const Json cases = parse_json(read_text(path), path);
  ASSERT_FALSE(cases.at("transfer_schedules").empty());
  for (const Json& entry : cases.at("transfer_schedules")) {
    const bool linear = entry.at("scheduler") == "LinearAlphaScheduler";
    if (!linear && entry.at("scheduler") != "CosineAlphaScheduler") continue;
    const auto schedule = noise::make_schedule(linear ? "linear" : "cosine");
    EXPECT_EQ(transfer_counts(*schedule, entry.at("masks").get<int64_t>(),
                              entry.at("steps").get<int64_t>()),
              entry.at("transfer").get<std::vector<int64_t>>())
        << entry.dump();
  }
}

TEST(TransferCounts, AddUpAndNeverStandStill) {
  for (const char* name : {"linear", "cosine", "sqrt"}) {
    const auto schedule = noise::make_schedule(name);
    for (int64_t open = 0; open <= 40; open += 3) {
      for (int64_t steps : {1, 2, 7, 64}) {
        const std::vector<int64_t> counts = transfer_counts(*schedule, open, steps);
        EXPECT_LE(static_cast<int64_t>(counts.size()), steps);
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), open) << name;
        for (int64_t count : counts) EXPECT_GT(count, 0);
      }
    }
  }
}

} // namespace
} // namespace dllm::decode
