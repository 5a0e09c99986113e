// Whole models: the numbers of the CPU engine on every plugin, and nothing but numbers crosses
// over.

#include "cpu/engine.h"
#include "graph/engine.h"
#include "model/model.h"
#include "pjrt/engine.h"
#include "unit/model/model_tools.h"
#include "unit/pjrt/plugins.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::pjrt {
namespace {

class PjrtModel : public OnPlugins {
protected:
  static std::shared_ptr<graph::Engine> engine() {
    Options options(graph::engine_schema());
    options.set_str("plugin", path());
    options.set_str("pjrt.cache", "off");
    return make_engine(options);
  }
  static Tensor logits(std::shared_ptr<graph::Engine> engine, const std::string& family) {
    const auto model = model::new_model(std::move(engine), test::small_config(family),
                                        test::model_options({{"seed", "5"}}));
    return model::forward(*model, test::small_ids(2, 7, 20), Options(model::forward_schema()))
        .at("logits");
  }
};

TEST_P(PjrtModel, LogitsAreThoseOfTheCpuEngine) {
  const auto mine = engine();
  for (const char* family : {"llama", "gpt2", "qwen3", "gemma2", "llada", "qwen3_moe"}) {
    const Tensor got = logits(mine, family), want = logits(test::small_engine(), family);
    ASSERT_EQ(got.shape(), want.shape()) << family;
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < want.count(); ++i) {
      const float a = got.as<float>()[static_cast<size_t>(i)];
      const float b = want.as<float>()[static_cast<size_t>(i)];
      worst = std::max(worst, static_cast<double>(std::fabs(a - b)));
      scale = std::max(scale, static_cast<double>(std::fabs(b)));
    }
    EXPECT_LE(worst, 2e-6 * scale) << family;
  }
}

DLLM_ON_PLUGINS(PjrtModel);

} // namespace
} // namespace dllm::pjrt
