// A model kept in the blocks of its file decodes the tokens of the dequantized one, with the same
// confidence.

#include "unit/decode/requests.h"
#include "unit/model/files/gguf_writer.h"

#include <gtest/gtest.h>

namespace dllm::decode {
namespace {

std::shared_ptr<model::Model> block_model(const std::string& bytes, const char* dtype) {
  Options engine(graph::engine_schema()), options(model::model_schema());
  engine.set_i64("threads", 2);
  options.set_text("dtype", dtype);
  options.set_text("attention", "bidirectional");
  options.set_text("mask_token", std::to_string(kMask));
  MemorySource source;
  source.add("model.gguf", bytes.data(), bytes.size(), true);
  return model::load_model(cpu::make_engine(engine), source, options);
}

TEST(WeightFormats, KeptBlocksDecodeTheSameTokens) {
  Json config = tiny_config();
  config.update(
      {{"model_type", "llama"}, {"hidden_size", 64}, {"intermediate_size", 96}, {"head_dim", 16}});
  config.erase("mask_token_id");
  const std::string bytes =
      test::gguf_of(*tiny_model(1, config), {"llama", 2, "", &weight_format("q8_0")});
  for (const char* policy : {"low_confidence", "ancestral"}) {
    std::vector<Answer> answers;
    for (const char* dtype : {"f32", "keep"}) {
      const auto decoder = make_decoder(block_model(bytes, dtype),
                                        {{"policy", policy}, {"steps", 8}, {"temperature", 0.7}});
      add(*decoder, {{1, 2, 3}, 5, 16});
      decoder->run();
      answers.push_back(answer_of(*decoder));
    }
    EXPECT_EQ(answers[0], answers[1]) << policy;
  }
}

} // namespace
} // namespace dllm::decode
