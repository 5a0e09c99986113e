// dllm tokenize and dllm tokenizer-train.

#include "../command.h"
#include "../process.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDatasetKeys[] = {
    "format",     "rows",        "text_key",      "prompt_key", "response_key",
    "append_eos", "prepend_bos", "parse_special", "bad_rows",   "token_file"};

// "312 of 1024 MB, 40 s left".
std::string reading_text(double seconds, int64_t done, int64_t total) {
  const auto mb = [](int64_t bytes) { return std::to_string(bytes / 1000000); };
  std::string text = mb(done) + " of " + mb(total) + " MB";
  if (done > 0 && seconds > 1) {
    const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
    text += ", " + std::to_string(static_cast<int64_t>(left)) + " s left";
  }
  return text;
}

// In dllm tokenize IN OUT --model MODEL the words are other arguments.
int write_token_file(Context& context) {
  if (context.typed("file") || !context.has("tokenizer") || !context.has("text"))
    throw UsageFailure("--model takes two words: dllm tokenize IN OUT --model MODEL");
  if (context.typed("dataset", "token_file"))
    throw UsageFailure("--token-file and the word OUT are the same: leave --token-file out");
  const std::string in = context.text("tokenizer"), out = context.text("text");
  const auto tokenizer = open_tokenizer(context, context.text("model"));
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("dataset"), "token_file", out.c_str(), err);
  });
  StatusLine status(context.json());
  const auto start = std::chrono::steady_clock::now();
  status.follow(context.task(), [start](int64_t done, int64_t total) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return reading_text(passed.count(), done, total);
  });
  const auto data = make<dllm_dataset>([&](dllm_dataset** made, dllm_error* err) {
    return dllm_dataset_open(in.c_str(), tokenizer.get(), context.options("dataset"),
                             context.task(), made, err);
  });
  status.clear();
  const auto rows = static_cast<long long>(dllm_dataset_size(data.get()));
  if (context.json())
    std::printf("%s\n", Json{{"rows", rows}, {"out", out}}.dump().c_str());
  else
    std::fprintf(stderr, "%lld rows in %s\n", rows, out.c_str());
  return 0;
}

int tokenize(Context& context) {
  if (context.has("model")) return write_token_file(context);
  if (!context.has("tokenizer")) throw UsageFailure("--tokenizer is missing");
  for (const char* key : kDatasetKeys)
    refuse_typed(context, "dataset", key,
                 "it is for token files: dllm tokenize IN OUT --model MODEL");
  if (context.typed("text") && context.typed("file"))
    throw UsageFailure("--text and --file both give the text: give one of them");
  const auto tokenizer = open_tokenizer(context, context.text("tokenizer"));
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
  for (const char* key : {"append_eos", "prepend_bos", "parse_special", "token_file"}) {
    refuse_typed(context, "dataset", key, "the text is not encoded: it trains the tokenizer");
  }
  if (context.has("vocab") && context.typed("tokenizer_train", "vocab_size") &&
      context.option("tokenizer_train", "vocab_size") != context.text("vocab")) {
    throw UsageFailure("--vocab and --vocab-size are the same setting but have two values");
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
  const std::filesystem::path folder = std::filesystem::path(context.text("out")).parent_path();
  std::error_code ignored; // the save reports the error
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
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
  return {
      "tokenize",
      "show how a text is cut into tokens; with --model write a data set as a token file, "
      "dllm tokenize IN OUT --model MODEL",
      "dllm tokenize --tokenizer runs/quickstart --text \"Hello there\"",
      {{Kind::text, "tokenizer", "", "tokenizer.json, a model folder, a GGUF file or a run folder"},
       {Kind::text, "text", "", "the text"},
       {Kind::text, "model", "",
        "write a token file: the first word is the data, the second the file, this the tokenizer"},
       {Kind::text, "file", "",
        "read the text from a file, - (and the default) for standard input"}},
      {"dataset"},
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
           {Kind::number, "vocab", "", "tokens, as in dllm train (--vocab-size)"}},
          {"dataset", "tokenizer_train"},
          tokenizer_train};
}

} // namespace dllm::cli
