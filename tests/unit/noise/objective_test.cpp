#include "noise/objective.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace dllm::noise {
namespace {

constexpr int64_t kVocab = 100;
constexpr int32_t kMask = 99;

Batch rows_of(int64_t batch, int64_t seq, int64_t first = 0, int64_t total = -1) {
  Tensor ids(DType::i32, {batch, seq});
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < seq; ++i) {
      ids.mutable_as<int32_t>()[static_cast<size_t>(b * seq + i)] =
          static_cast<int32_t>(((first + b) * 31 + i * 7) % 90);
    }
  }
  Batch made;
  made.set("ids", ids);
  if (total >= 0) made.set("rows", Tensor::from(Shape{2}, std::vector<int64_t>{first, total}));
  return made;
}

PrepareContext context() {
  PrepareContext made;
  made.vocab = kVocab;
  made.mask_id = kMask;
  return made;
}

ObjectiveRef mdlm(const char* json = "{}", const char* schedule = "linear") {
  Options options(objective_schema("mdlm"));
  options.set_json(parse_json(json, "test"));
  return make_objective("mdlm", make_schedule(schedule), options);
}

// The masked share of each row is 1 - alpha(t), within 4 standard errors of a binomial.
TEST(Mdlm, MaskedShareFollowsTheSchedule) {
  for (const char* name : {"linear", "cosine", "sqrt"}) {
    const ObjectiveRef objective = mdlm("{}", name);
    const int64_t batch = 16, seq = 4000;
    const Batch prepared = objective->prepare(rows_of(batch, seq), 7, 3, context());
    const auto targets = prepared.at("targets").as<int32_t>();
    const auto ids = prepared.at("ids").as<int32_t>();
    std::set<float> times;
    for (int64_t b = 0; b < batch; ++b) {
      const float t = prepared.at("t").as<float>()[static_cast<size_t>(b)];
      times.insert(t);
      EXPECT_GE(t, 1e-3f);
      EXPECT_LT(t, 1.0f);
      const double p = 1 - objective->schedule()->alpha(t);
      int64_t masked = 0;
      for (int64_t i = 0; i < seq; ++i) {
        const auto at = static_cast<size_t>(b * seq + i);
        masked += targets[at] >= 0 ? 1 : 0;
        EXPECT_EQ(targets[at] >= 0, ids[at] == kMask);
      }
      const double error = std::sqrt(p * (1 - p) / static_cast<double>(seq));
      EXPECT_NEAR(static_cast<double>(masked) / static_cast<double>(seq), p, 4 * error + 1e-9)
          << name << " row " << b;
    }
    EXPECT_EQ(times.size(), static_cast<size_t>(batch));
  }
}

TEST(Mdlm, WeightsAreTheNelbosAndTargetsTheCleanTokens) {
  const ObjectiveRef objective = mdlm();
  const Batch raw = rows_of(4, 50);
  const Batch prepared = objective->prepare(raw, 1, 0, context());
  for (int64_t i = 0; i < 200; ++i) {
    const auto at = static_cast<size_t>(i);
    const float t = prepared.at("t").as<float>()[at / 50];
    const int32_t target = prepared.at("targets").as<int32_t>()[at];
    EXPECT_TRUE(target < 0 || target == raw.at("ids").as<int32_t>()[at]);
    EXPECT_NEAR(prepared.at("weights").as<float>()[at], target >= 0 ? 1 / t : 0, 1e-3);
  }
  for (const float count : prepared.at("normalizer").as<float>()) EXPECT_EQ(count, 50);
}

// Any cut of a batch draws the same noise: rows 0..7 at once, or 0..2 and 3..7.
TEST(Mdlm, TheSameNoiseForAnyCut) {
  for (const char* json : {"{}", R"({"time_sampling": "low_discrepancy"})"}) {
    const ObjectiveRef objective = mdlm(json);
    const int64_t seq = 33;
    const Batch whole = objective->prepare(rows_of(8, seq, 0, 8), 5, 11, context());
    const Batch first = objective->prepare(rows_of(3, seq, 0, 8), 5, 11, context());
    const Batch second = objective->prepare(rows_of(5, seq, 3, 8), 5, 11, context());
    for (const char* name : {"ids", "targets"}) {
      const auto all = whole.at(name).as<int32_t>();
      const auto a = first.at(name).as<int32_t>(), b = second.at(name).as<int32_t>();
      EXPECT_TRUE(std::equal(a.begin(), a.end(), all.begin())) << name;
      EXPECT_TRUE(std::equal(b.begin(), b.end(), all.begin() + 3 * seq)) << name;
    }
    const auto t = whole.at("t").as<float>();
    EXPECT_EQ(second.at("t").as<float>()[0], t[3]);
  }
}

TEST(Mdlm, SeedAndStepChangeTheNoise) {
  const ObjectiveRef objective = mdlm();
  const auto ids = [&](uint64_t seed, int64_t step) {
    const Batch prepared = objective->prepare(rows_of(2, 200), seed, step, context());
    const auto flat = prepared.at("ids").as<int32_t>();
    return std::vector<int32_t>(flat.begin(), flat.end());
  };
  EXPECT_EQ(ids(1, 2), ids(1, 2));
  EXPECT_NE(ids(1, 2), ids(2, 2));
  EXPECT_NE(ids(1, 2), ids(1, 3));
  EXPECT_NE(ids(1, int64_t{1} << 32), ids(1, 0));
}

TEST(Mdlm, LowDiscrepancyPutsOneTimeIntoEachPart) {
  const ObjectiveRef objective = mdlm(R"({"time_sampling": "low_discrepancy", "time_epsilon": 0})");
  const int64_t batch = 16;
  const Batch prepared = objective->prepare(rows_of(batch, 4), 3, 0, context());
  std::set<int> parts;
  for (const float t : prepared.at("t").as<float>()) parts.insert(static_cast<int>(t * batch));
  EXPECT_EQ(parts.size(), static_cast<size_t>(batch));
}

TEST(Mdlm, GivenAndPaddedTokensAreNeverTouchedNorCounted) {
  const ObjectiveRef objective =
      mdlm(R"({"min_mask_ratio": 1.0})"); // every trainable token is masked
  Batch raw = rows_of(1, 8);
  raw.set("keep", Tensor::from(Shape{1, 8}, std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0}));
  raw.set("segments", Tensor::from(Shape{1, 8}, std::vector<int32_t>{1, 1, 1, 1, 2, 2, 0, 0}));
  const Batch prepared = objective->prepare(raw, 1, 1, context());
  const std::vector<int32_t> clean(raw.at("ids").as<int32_t>().begin(),
                                   raw.at("ids").as<int32_t>().end());
  const auto ids = prepared.at("ids").as<int32_t>();
  const auto targets = prepared.at("targets").as<int32_t>();
  for (size_t i = 0; i < 8; ++i) {
    const bool trained = i >= 2 && i < 6;
    EXPECT_EQ(ids[i], trained ? kMask : clean[i]) << i;
    EXPECT_EQ(targets[i], trained ? clean[i] : -1) << i;
  }
  EXPECT_EQ(prepared.at("normalizer").as<float>()[0], 4);
}

TEST(Mdlm, NormsAddUp) {
  const auto normalizer = [&](const char* norm) {
    const ObjectiveRef objective = mdlm((std::string(R"({"loss_norm": ")") + norm + "\"}").c_str());
    return objective->prepare(rows_of(2, 40), 1, 1, context());
  };
  EXPECT_EQ(normalizer("token").at("normalizer").as<float>()[1], 40);
  EXPECT_EQ(normalizer("batch").at("normalizer").as<float>()[1], 1);
  const Batch masked = normalizer("masked");
  int64_t count = 0;
  for (const int32_t target : masked.at("targets").as<int32_t>().subspan(40))
    count += target >= 0 ? 1 : 0;
  EXPECT_EQ(masked.at("normalizer").as<float>()[1], static_cast<float>(count));
  // sequence: the row's share goes into its weights.
  const Batch token = normalizer("token"), sequence = normalizer("sequence");
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_NEAR(sequence.at("weights").as<float>()[i], token.at("weights").as<float>()[i] / 40,
                1e-6);
  }
}

TEST(Mdlm, ShiftOneLeavesTheFirstTokenAlone) {
  const ObjectiveRef objective = mdlm(R"({"min_mask_ratio": 1.0})");
  PrepareContext shifted = context();
  shifted.shift = 1;
  const Batch prepared = objective->prepare(rows_of(1, 5), 1, 1, shifted);
  EXPECT_EQ(prepared.at("targets").as<int32_t>()[0], -1);
  EXPECT_GE(prepared.at("targets").as<int32_t>()[1], 0);
}

// jax.random of JAX 0.5: seed 42, first batch, B = 2, L = 8.
TEST(Mdlm, JaxKeysOfTheReferenceTrainer) {
  const ObjectiveRef objective = mdlm(R"({"compat": "dllm-jax"})");
  const Batch prepared = objective->prepare(rows_of(2, 8), 42, 0, context());
  EXPECT_NEAR(prepared.at("t").as<float>()[0], .22917338, 1e-7);
  EXPECT_NEAR(prepared.at("t").as<float>()[1], .9360231, 1e-7);
  const char* mask = "1010100011111111";
  for (size_t i = 0; i < 16; ++i)
    EXPECT_EQ(prepared.at("targets").as<int32_t>()[i] >= 0, mask[i] == '1') << i;
}

TEST(Mdlm, MissingMaskTokenIsAFailedPrecondition) {
  PrepareContext none = context();
  none.mask_id = -1;
  try {
    mdlm()->prepare(rows_of(1, 4), 0, 0, none);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::failed_precondition);
    EXPECT_NE(error.hint().find("mask_token"), std::string::npos);
  }
}

TEST(Mdlm, BadArraysAreNamed) {
  const auto message = [&](const Batch& batch) -> std::string {
    try {
      mdlm()->prepare(batch, 0, 0, context());
    } catch (const Error& error) {
      return error.text();
    }
    return "no error";
  };
  Batch wide = rows_of(1, 4);
  wide.set("keep", Tensor(DType::u8, {1, 5}));
  EXPECT_NE(message(wide).find("array keep is u8(1, 5), expected u8(1, 4)"), std::string::npos)
      << message(wide);
  Batch outside = rows_of(1, 4);
  outside.set("ids", Tensor::from(Shape{1, 4}, std::vector<int32_t>{1, 2, 100, 3}));
  EXPECT_NE(message(outside).find("ids[0, 2] = 100"), std::string::npos) << message(outside);
  EXPECT_NE(message(Batch{}).find("ids"), std::string::npos);
}

TEST(Ar, PredictsEveryTokenButTheFirstOfADocument) {
  const ObjectiveRef objective = make_objective("ar");
  Batch raw = rows_of(1, 6);
  raw.set("segments", Tensor::from(Shape{1, 6}, std::vector<int32_t>{1, 1, 1, 2, 2, 0}));
  const Batch prepared = objective->prepare(raw, 0, 0, context());
  const auto targets = prepared.at("targets").as<int32_t>();
  const std::vector<bool> counted = {false, true, true, false, true, false};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(targets[i] >= 0, counted[i]) << i;
  EXPECT_EQ(prepared.at("normalizer").as<float>()[0], 3);
  EXPECT_EQ(prepared.at("ids").as<int32_t>()[1], raw.at("ids").as<int32_t>()[1]);
}

TEST(Ar, ShiftZeroIsRefused) {
  Options options(objective_schema("ar"));
  options.set_i64("shift", 0);
  EXPECT_THROW(make_objective("ar", nullptr, options), Error);
}

TEST(Nano, TimesAreWholeAndNothingIsProtected) {
  const ObjectiveRef objective = make_objective("nano");
  const Batch prepared = objective->prepare(rows_of(64, 20), 3, 0, context());
  for (const float t : prepared.at("timesteps").as<float>()) {
    EXPECT_EQ(t, std::floor(t));
    EXPECT_GE(t, 1);
    EXPECT_LE(t, 1000);
  }
  EXPECT_THROW(make_objective("nano", make_schedule("linear")), Error);
}

// What programs read of an objective agrees with what its class does.
TEST(Objective, FactsAgreeWithTheClass) {
  for (const std::string& name : objective_names()) {
    const ObjectiveFacts& facts = objective_facts(name);
    const ObjectiveRef objective = make_objective(name);
    EXPECT_EQ(facts.likelihood, objective->bounds_likelihood()) << name;
    for (const int shift : {0, 1}) {
      model::ModelConfig config;
      config.shift = shift;
      EXPECT_EQ(objective->shift(config), facts.shift >= 0 ? facts.shift : shift) << name;
    }
    const bool unmasked = facts.rows == RowKind::clean || facts.rows == RowKind::given;
    if (unmasked) EXPECT_FALSE(objective->needs_mask_id()) << name;
    if (facts.rows == RowKind::masked) EXPECT_TRUE(objective->needs_mask_id()) << name;
  }
}

TEST(Objective, UnknownNameAndUnpreparedTokenCe) {
  EXPECT_THROW(make_objective("mdml"), Error);
  const ObjectiveRef objective = make_objective("token_ce");
  EXPECT_THROW(objective->prepare(rows_of(1, 4), 0, 0, context()), Error);
  EXPECT_FALSE(objective->is_prepared(rows_of(1, 4)));
  EXPECT_TRUE(objective->is_prepared(mdlm()->prepare(rows_of(1, 4), 0, 0, context())));
}

} // namespace
} // namespace dllm::noise
