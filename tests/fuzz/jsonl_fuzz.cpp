// Lines of JSONL from a stranger: rows of texts and rows of token numbers, or an Error.
#include "base/error.h"
#include "text/data/dataset.h"
#include "text/data/loader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace {

using namespace dllm;
using namespace dllm::text;

std::shared_ptr<const Tokenizer> make_tokenizer() {
  static constexpr std::string_view kJson =
      R"({"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0, "b": 1, "<e>": 2}, "merges": []},)"
      R"("added_tokens": [{"id": 2, "content": "<e>", "special": true}]})";
  return std::make_shared<Tokenizer>(read_tokenizer_json(kJson, "tokenizer"),
                                     Options(tokenizer_schema()));
}

void add_lines(Dataset& data, std::string_view lines) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    try {
      data.add(lines.substr(0, end));
    } catch (const Error&) {
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size > 65536) return 0;
  const std::string_view lines(reinterpret_cast<const char*>(bytes), size);
  static const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer();
  Dataset texts(nullptr, Options(dataset_schema()));
  add_lines(texts, lines);
  const auto data = std::make_shared<Dataset>(tokenizer, Options(dataset_schema()));
  add_lines(*data, lines);
  for (const bool pack : {false, true}) {
    Options options(loader_schema());
    options.set_i64("length", 7);
    options.set_i64("pack", pack);
    try {
      Loader loader(data, options);
      while (loader.try_next()) {
      }
    } catch (const Error&) {
    }
  }
  return 0;
}
