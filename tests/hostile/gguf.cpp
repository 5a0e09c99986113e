// A GGUF file: as weights to look into, as a tokenizer and as a model.

#include "clients.h"
#include "unit/ckpt/gguf_builder.h"

using namespace dllm::hostile;
using dllm::test::GgufBuilder;

namespace {

constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8;
constexpr uint64_t kWidth = 32, kTokens = 6;

struct Entry {
  const char* name;
  uint64_t rows; // 0: one axis
  uint32_t type; // of ggml
};

constexpr Entry kTensors[] = {
    {"token_embd.weight", kTokens, 8},       {"output_norm.weight", 0, 0},
    {"blk.0.attn_norm.weight", 0, 0},        {"blk.0.attn_q.weight", kWidth, 0},
    {"blk.0.attn_k.weight", kWidth, 1},      {"blk.0.attn_v.weight", kWidth, 2},
    {"blk.0.attn_output.weight", kWidth, 8}, {"blk.0.ffn_norm.weight", 0, 0},
    {"blk.0.ffn_gate.weight", kWidth, 0},    {"blk.0.ffn_up.weight", kWidth, 0},
    {"blk.0.ffn_down.weight", kWidth, 0}};

// Bytes of one row of kWidth numbers: F32, F16, Q4_0, Q8_0.
uint64_t row_bytes(uint32_t type) {
  return type == 0 ? 4 * kWidth : type == 1 ? 2 * kWidth : type == 2 ? 18 : 34;
}

// A llama of one layer whose weights are zero, with a byte-level vocabulary of six tokens.
std::string tiny_gguf() {
  GgufBuilder file;
  file.header(std::size(kTensors), 15);
  file.text_value("general.architecture", "llama");
  const std::pair<const char*, uint32_t> numbers[] = {
      {"llama.embedding_length", kWidth},    {"llama.block_count", 1},
      {"llama.feed_forward_length", kWidth}, {"llama.attention.head_count", 2},
      {"llama.attention.head_count_kv", 2},  {"llama.context_length", 64}};
  for (const auto& [key, value] : numbers) file.scalar(key, kU32, value);
  file.scalar("llama.attention.layer_norm_rms_epsilon", kF32, 1e-5f);
  file.text_value("tokenizer.ggml.model", "gpt2");
  file.list("tokenizer.ggml.tokens", kText, kTokens);
  for (const char* token : {"a", "b", "ab", "<e>", "<m>", "c"}) file.text(token);
  file.list("tokenizer.ggml.token_type", kI32, kTokens);
  for (const int32_t type : {1, 1, 1, 3, 3, 1}) file.put(type);
  file.list("tokenizer.ggml.merges", kText, 1).text("a b");
  file.scalar("tokenizer.ggml.eos_token_id", kU32, uint32_t{3});
  file.scalar("tokenizer.ggml.add_bos_token", kBool, uint8_t{0});
  file.text_value("tokenizer.chat_template", "{{ messages[0].content }}");

  uint64_t offset = 0;
  for (const Entry& entry : kTensors) {
    if (entry.rows == 0)
      file.tensor(entry.name, {kWidth}, entry.type, offset);
    else
      file.tensor(entry.name, {kWidth, entry.rows}, entry.type, offset);
    offset += (std::max<uint64_t>(entry.rows, 1) * row_bytes(entry.type) + 31) / 32 * 32;
  }
  file.align();
  return file.bytes + std::string(offset, '\0');
}

// Only the part in front of the numbers is worth damaging.
std::string head_mutant(const std::string& seed, uint64_t number) {
  const size_t head = std::min<size_t>(seed.size(), 1700);
  return mutant({seed.substr(0, head)}, Form::binary, number) + seed.substr(head);
}

} // namespace

int main(int count, char** arguments) {
  Harness harness("gguf", count, arguments,
                  {DLLM_INVALID_ARGUMENT, DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_UNIMPLEMENTED,
                   DLLM_RESOURCE_EXHAUSTED});
  const Folder folder;
  const Engine engine = small_engine();
  const Feed as_file = [&](const std::string& bytes) {
    return outcome([&] { read_weights(folder.write("x.gguf", bytes)); });
  };
  const Feed as_tokenizer = [&](const std::string& bytes) {
    return outcome([&] {
      const std::string path = folder.write("x.gguf", bytes);
      make<Tokenizer>([&](auto** out) {
        return dllm_tokenizer_load(path.c_str(), nullptr, out, shared_error());
      });
    });
  };
  const Feed as_model = [&](const std::string& bytes) {
    return outcome([&] {
      const std::string path = folder.write("x.gguf", bytes);
      make<Model>([&](auto** out) {
        return dllm_model_load(engine.get(), path.c_str(), nullptr, nullptr, out, shared_error());
      });
    });
  };
  const std::string seed = tiny_gguf();
  harness.seed("file", seed, as_file);
  harness.seed("tokenizer", seed, as_tokenizer);
  harness.seed("model", seed, as_model);
  const Make head = [&](uint64_t number) { return head_mutant(seed, number); };
  harness.mutants("file", head, as_file);
  harness.mutants("tokenizer", head, as_tokenizer);
  harness.mutants("model", head, as_model);
  return harness.finish();
}
