// A model with gated delta layers is trained: through the scans of chunks, with masked and with
// next tokens.

#include "tiny.h"

#include <gtest/gtest.h>

namespace dllm::train {
namespace {

TEST(Hybrid, GatedDeltaLayersLearnATinyText) {
  Json config = tiny_config();
  config.update({{"model_type", "qwen3_5_text"},
                 {"num_hidden_layers", 4},
                 {"partial_rotary_factor", 0.5},
                 {"head_dim", 8},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"linear_key_head_dim", 6},
                 {"linear_value_head_dim", 5}});
  for (const char* objective : {"mdlm", "ar"}) {
    const auto model = model::new_model(tiny_engine(), config, Options(model::model_schema()));
    Trainer trainer(model, noise::make_objective(objective), trainer_options({{"lr", 1e-2}}));
    TextSource source(2, 40), held(2, 40); // two chunks
    held.seek(1000);
    const double before = trainer.eval(held, 4);
    trainer.run(source, 60);
    held.seek(1000);
    EXPECT_LT(trainer.eval(held, 4), 0.7 * before) << objective << " from " << before;
  }
}

} // namespace
} // namespace dllm::train
