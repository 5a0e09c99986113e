// dllm tokenize, dllm tokenizer-train.

#include "../command.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

int tokenize(Context& context) {
  if (context.typed("text") && context.typed("file"))
    throw UsageFailure("--text and --file are two texts: give one");
  const auto tokenizer = open_tokenizer(context.text("tokenizer"));
  const std::string text = context.has("text")
                               ? context.text("text")
                               : read_all(context.has("file") ? context.text("file") : "-");
  const std::vector<int32_t> ids = encode(tokenizer.get(), text);
  if (context.json()) {
    std::printf("%s\n",
                Json{{"ids", ids}, {"count", ids.size()}, {"bytes", text.size()}}.dump().c_str());
    return 0;
  }
  for (int32_t id : ids)
    std::printf("%d\t%s\n", id,
                Json(decode(tokenizer.get(), {id}))
                    .dump(-1, ' ', false, Json::error_handler_t::replace)
                    .c_str());
  std::fprintf(stderr, "%zu tokens, %.2f bytes each\n", ids.size(),
               ids.empty() ? 0.0
                           : static_cast<double>(text.size()) / static_cast<double>(ids.size()));
  return 0;
}

int tokenizer_train(Context& context) {
  for (const char* key : {"append_eos", "prepend_bos", "parse_special"}) {
    refuse_typed(context, "dataset", key, "the text is not encoded: it trains the tokenizer");
  }
  if (context.has("vocab") && context.typed("tokenizer_train", "vocab_size") &&
      context.option("tokenizer_train", "vocab_size") != context.text("vocab")) {
    throw UsageFailure("--vocab and --vocab_size are the same and differ");
  }
  if (context.has("vocab")) {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("tokenizer_train"), "vocab_size",
                                  context.number("vocab"), err);
    });
  }
  const auto data = make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
    return dllm_dataset_open(context.text("data").c_str(), nullptr, context.options("dataset"),
                             context.task(), out, err);
  });
  const auto tokenizer = make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_train(data.get(), context.options("tokenizer_train"), context.task(), out,
                                err);
  });
  call([&](dllm_error* err) {
    return dllm_tokenizer_save(tokenizer.get(), context.text("out").c_str(), err);
  });
  const auto size = static_cast<long long>(dllm_tokenizer_size(tokenizer.get()));
  if (context.json())
    std::printf("{\"tokens\": %lld, \"out\": %s}\n", size,
                Json(context.text("out")).dump().c_str());
  else
    std::fprintf(stderr, "%lld tokens in %s\n", size, context.text("out").c_str());
  return 0;
}

} // namespace

Command tokenize_command() {
  using Kind = Argument::Kind;
  return {"tokenize",
          "show how a text is cut into tokens",
          "dllm tokenize --tokenizer runs/quickstart --text \"Hello there\"",
          {{Kind::text, "tokenizer", "",
            "tokenizer.json, a model folder, a GGUF file or a run folder", true},
           {Kind::text, "text", "", "the text"},
           {Kind::text, "file", "",
            "read the text from a file, - (and the default) for standard input"}},
          {},
          tokenize,
          false,
          {},
          {"tokenizer", "text"}};
}

Command tokenizer_train_command() {
  using Kind = Argument::Kind;
  return {"tokenizer-train",
          "make a byte-level BPE tokenizer from text",
          "dllm tokenizer-train --data corpus.txt --out tokenizer.json --vocab 4096",
          {{Kind::text, "data", "",
            "a text file, a folder of them, or JSON lines; .gz is decompressed", true},
           {Kind::text, "out", "tokenizer.json", "the file to write"},
           {Kind::number, "vocab", "", "tokens, as in dllm train (--vocab_size)"}},
          {"dataset", "tokenizer_train"},
          tokenizer_train};
}

} // namespace dllm::cli
