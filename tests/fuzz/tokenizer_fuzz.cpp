// tokenizer.json from a stranger: load, encode and decode, or an Error. Inputs up to 64 KiB keep a
// run quick.
#include "base/error.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm;
  using namespace dllm::text;
  if (size > 65536) return 0;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer(read_tokenizer_json(json, "fuzz"), Options(tokenizer_schema()));
    for (const std::string_view text :
         {std::string_view("Hello w\xC3\xB6rld 123 \xFF\xE4\xB8"), json.substr(0, 256)}) {
      for (const bool special : {false, true}) {
        const std::vector<int32_t> ids =
            tokenizer.encode(text, {.add_special = special, .parse_special = special});
        int64_t used = 0;
        tokenizer.decode(ids, {.skip_special = special});
        tokenizer.decode_stream(ids, {}, used);
      }
    }
    // What is written is read again.
    Tokenizer(read_tokenizer_json(tokenizer.to_json(), "again"), Options(tokenizer_schema()));
  } catch (const Error&) {
  }
  return 0;
}
