// tokenizer.json: what loads must encode, decode and come back when it is saved.

#include "clients.h"

#include <vector>

using namespace dllm::hostile;

namespace {

// A Unigram and a WordPiece model with every kind of part around them.
const char* const kUnigram =
    R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"},
 {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
 "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true},
 "decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": true},
 "added_tokens": [{"id": 4, "content": "<m>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
 "normalized": false}],
 "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["_", -1.5], ["a", -2.0], ["_a", -1.0]],
 "byte_fallback": false}})";
const char* const kWordPiece =
    R"({"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
 "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[C]", "type_id": 0}},
 {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
 {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"[C]": {"id": "[C]", "ids": [1], "tokens": ["[C]"]}}},
 "model": {"type": "WordPiece", "unk_token": "[U]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
 "vocab": {"[U]": 0, "[C]": 1, "a": 2, "##b": 3}}})";

void use(const dllm_tokenizer* tokenizer) {
  const std::string text = "the cat <m> a\xCC\x81 ab  W\xC3\xB6rld \xFF\xE4\xB8 12";
  int64_t need = 0;
  std::vector<int32_t> ids(4096);
  must(dllm_tokenizer_encode(tokenizer, text.data(), size_of(text), ids.data(),
                             static_cast<int64_t>(ids.size()), &need, shared_error()));
  const Buffer decoded(dllm_buffer_new());
  must(dllm_tokenizer_decode(tokenizer, ids.data(), need, decoded.get(), shared_error()));
  int64_t used = 0;
  must(dllm_tokenizer_decode_stream(tokenizer, ids.data(), need, decoded.get(), &used,
                                    shared_error()));
}

} // namespace

int main(int count, char** arguments) {
  Harness harness("tokenizer", count, arguments,
                  {DLLM_DATA_LOSS, DLLM_UNIMPLEMENTED, DLLM_RESOURCE_EXHAUSTED});
  const Folder folder;
  const std::string path = folder.path("tokenizer.json");
  const Feed load = [&](const std::string& bytes) {
    bool loaded = false;
    Outcome made = outcome([&] {
      const Tokenizer tokenizer = tokenizer_of(bytes);
      loaded = true;
      use(tokenizer.get());
      must(dllm_tokenizer_save(tokenizer.get(), path.c_str(), shared_error()));
      use(tokenizer_of(read_bytes(path)).get());
    });
    if (loaded && made.status != DLLM_OK) made = {DLLM_INTERNAL, "accepted, then: " + made.message};
    return made;
  };
  const std::vector<std::string> seeds = {tiny_tokenizer_json(), kUnigram, kWordPiece};
  for (const std::string& seed : seeds) harness.seed(seed.substr(0, 40), seed, load);
  harness.mutants(
      "tokenizer.json", [&](uint64_t number) { return mutant(seeds, Form::json, number); }, load);
  return harness.finish();
}
