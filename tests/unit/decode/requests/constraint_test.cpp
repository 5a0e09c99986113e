// Tokens that a constraint refuses are on no finished canvas, whatever the policy.

#include "base/error.h"
#include "decode/request/constraint.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

using test::expect_error;

// Token ids of one parity.
class Parity final : public Constraint {
public:
  explicit Parity(int32_t parity) : parity_(parity) {}
  bool allows(const Request&, int64_t, int32_t token) const override {
    return token % 2 == parity_;
  }

private:
  int32_t parity_;
};

// No token stands next to itself: tokens of one step depend on each other.
class NoTwins final : public Constraint {
public:
  bool allows(const Request& request, int64_t position, int32_t token) const override {
    for (const int64_t next : {position - 1, position + 1}) {
      if (next < 0 || next >= request.length() || request.is_open(next)) continue;
      if (request.ids[static_cast<size_t>(next)] == token) return false;
    }
    return true;
  }
};

class Nothing final : public Constraint {
public:
  bool allows(const Request&, int64_t, int32_t) const override { return false; }
};

std::vector<std::string> constrained_policies() {
  std::vector<std::string> names = policy_names();
  std::erase_if(names, decodes_arrays);
  return names;
}

Json settings_for(const std::string& policy, double temperature) {
  Json values = {{"policy", policy},           {"steps", 6},  {"block_length", 4},
                 {"temperature", temperature}, {"top_k", 20}, {"suppress_mask", true}};
  if (policy == "diffusion_gemma") values["denoising_steps"] = 6;
  return values;
}

template <class Kind, class... Args> OwnSettings under(Args... args) {
  return {std::make_shared<const Kind>(args...)};
}

const std::vector<int32_t> kGiven = {3, 2, 5};

int64_t add_under(Decoder& decoder, const OwnSettings& own, int64_t seed = 5) {
  return decoder.add(kGiven, {}, slot_options({{"seed", seed}, {"gen_length", 13}}), own);
}

class EveryConstrainedPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryConstrainedPolicy, WritesWhatIsAllowedAlone) {
  const auto model = policy_model(GetParam());
  for (const double temperature : {0.0, 0.9}) {
    const auto decoder = make_decoder(model, settings_for(GetParam(), temperature));
    for (const int32_t parity : {0, 1}) {
      const int64_t slot = add_under(*decoder, under<Parity>(parity));
      decoder->run();
      const Request& request = decoder->request(slot);
      EXPECT_EQ(request.finish, Finish::decided);
      int64_t written = 0;
      for (int64_t i = 0; i < request.length(); ++i) {
        const auto at = static_cast<size_t>(i);
        if (request.states[at] == State::fixed) continue;
        EXPECT_EQ(request.states[at], State::final) << "position " << i;
        EXPECT_EQ(request.ids[at] % 2, parity) << "position " << i;
        ++written;
      }
      EXPECT_GT(written, 0);
    }
  }
}

// Many canvases, so that those under editflow become shorter and longer than the predictions of
// their steps. The sanitizers watch the positions.
TEST_P(EveryConstrainedPolicy, StaysInsideOfItsCanvas) {
  const auto decoder = make_decoder(policy_model(GetParam()), settings_for(GetParam(), 0.9));
  for (int64_t seed = 0; seed < 24; ++seed) add_under(*decoder, under<Parity>(0), seed);
  decoder->run();
  for (int64_t slot = 0; slot < 24; ++slot)
    EXPECT_EQ(decoder->request(slot).finish, Finish::decided) << "slot " << slot;
}

// A slot under a constraint changes nothing of its neighbour.
TEST_P(EveryConstrainedPolicy, LeavesOtherSlotsAsTheyAre) {
  const auto model = policy_model(GetParam());
  const auto alone = make_decoder(model, settings_for(GetParam(), 0.9)),
             both = make_decoder(model, settings_for(GetParam(), 0.9));
  add_under(*alone, {}), add_under(*both, {});
  add_under(*both, under<Parity>(0));
  alone->run(), both->run();
  EXPECT_EQ(answer_of(*both), answer_of(*alone));
}

// What is allowed anyway costs no pass and changes no bit.
TEST_P(EveryConstrainedPolicy, IsFreeWhereNothingIsRefused) {
  class Anything final : public Constraint {
  public:
    bool allows(const Request&, int64_t, int32_t) const override { return true; }
  };
  const auto model = policy_model(GetParam());
  const auto plain = make_decoder(model, settings_for(GetParam(), 0.9)),
             asked = make_decoder(model, settings_for(GetParam(), 0.9));
  add_under(*plain, {}), add_under(*asked, under<Anything>());
  plain->run(), asked->run();
  EXPECT_EQ(answer_of(*asked), answer_of(*plain));
  EXPECT_EQ(asked->metric(0, "launches"), plain->metric(0, "launches"));
}

TEST_P(EveryConstrainedPolicy, EndsWhereNothingIsAllowed) {
  const auto decoder = make_decoder(policy_model(GetParam()), settings_for(GetParam(), 0.9));
  add_under(*decoder, under<Nothing>());
  expect_error(Code::failed_precondition, "the constraint allows no token at position",
               [&] { decoder->run(); });
  EXPECT_EQ(decoder->metric(0, "finish"), 3);
}

INSTANTIATE_TEST_SUITE_P(All, EveryConstrainedPolicy, testing::ValuesIn(constrained_policies()),
                         [](const auto& info) { return info.param; });

// Tokens that one step writes together are checked together. Under editflow and llada22 tokens
// move.
TEST(Constraint, HoldsBetweenTokensOfOneStep) {
  for (const std::string& policy : constrained_policies()) {
    if (policy == "editflow" || policy == "llada22") continue;
    const auto model = policy_model(policy);
    for (const int64_t seed : {1, 2, 3}) {
      Json values = settings_for(policy, 0.7);
      values["steps"] = 3;
      const auto decoder = make_decoder(model, values);
      const int64_t slot = add_under(*decoder, under<NoTwins>(), seed);
      decoder->run();
      const std::vector<int32_t>& ids = decoder->request(slot).ids;
      for (size_t i = kGiven.size(); i < ids.size(); ++i)
        EXPECT_NE(ids[i], ids[i - 1]) << policy << " at " << i;
    }
  }
}

TEST(Constraint, RefusesTokensOfTheHost) {
  const auto decoder = make_decoder(tiny_model(), settings_for("low_confidence", 0));
  const int64_t slot = add_under(*decoder, under<Parity>(0));
  decoder->predict();
  const auto positions = std::vector<int64_t>{3};
  expect_error(Code::invalid_argument, "refuses token 7 at position 3",
               [&] { decoder->commit(slot, positions, std::vector<int32_t>{7}); });
  EXPECT_TRUE(decoder->request(slot).is_open(3));
  decoder->commit(slot, positions, std::vector<int32_t>{8});
  EXPECT_EQ(decoder->request(slot).ids[3], 8);
}

TEST(Constraint, IsRefusedByNameWhereNoiseIsWritten) {
  Json values = settings_for("uniform", 0);
  values["greedy_tail"] = false;
  expect_error(Code::invalid_argument, "policy uniform leaves noise",
               [&] { add_under(*make_decoder(tiny_model(), values), under<Parity>(0)); });
  values = settings_for("editflow", 0);
  values["edit_prompt"] = true;
  expect_error(Code::invalid_argument, "policy editflow with edit_prompt", [&] {
    add_under(*make_decoder(policy_model("editflow"), values), under<Parity>(0));
  });
}

} // namespace
} // namespace dllm::decode
