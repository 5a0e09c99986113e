#include "model/files/export_note.h"

#include "unit/model/model_tools.h"

#include <gtest/gtest.h>

namespace dllm::model {
namespace {

std::string note_of(const char* type, const char* attention, int shift) {
  Json config = test::small_config(type);
  config["dllm"] = {{"attention", attention}, {"shift", shift}, {"block_length", 4}};
  return export_note(config_from_json(config, "config.json"), "runs/out");
}

TEST(ExportNote, IsThereWhereTheClassComputesSomethingElse) {
  EXPECT_EQ(note_of("llama", "causal", 0), "");
  const auto has = [](const std::string& note, const char* part) {
    return note.find(part) != std::string::npos;
  };
  const std::string both = note_of("llama", "bidirectional", 1);
  EXPECT_TRUE(has(both, "bidirectional with shift 1") &&
              has(both, "from_pretrained(\"runs/out\"") && has(both, "torch.zeros(1, 1") &&
              has(both, "logits[:, :-1]"))
      << both;
  const std::string plain = note_of("qwen3", "bidirectional", 0);
  EXPECT_TRUE(has(plain, "torch.zeros(1, 1") && !has(plain, "logits[:, :-1]")) << plain;
  EXPECT_TRUE(has(note_of("qwen2", "block_causal", 0), "torch.arange(ids.shape[1]) // 4"));
  const std::string next = note_of("llama", "causal", 1);
  EXPECT_TRUE(has(next, "predict token i + 1") && !has(next, "from_pretrained")) << next;
  EXPECT_FALSE(has(note_of("gemma2", "bidirectional", 0), "from_pretrained"));
}

} // namespace
} // namespace dllm::model
