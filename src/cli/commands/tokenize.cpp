// dllm tokenize and dllm tokenizer-train.

#include "../command.h"
#include "../open_dataset.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDatasetKeys[] = {
    "format",          "rows",         "text_key",   "prompt_key", "response_key",
    "instruction_key", "messages_key", "template",   "append_eos", "prepend_bos",
    "parse_special",   "bad_rows",     "token_file", "stream"};

// In dllm tokenize IN OUT --model MODEL the words are other arguments.
int write_token_file(Context& context) {
  set_template(context, "dataset");
  if (context.typed("file") || !context.has("tokenizer") || !context.has("text"))
    throw UsageFailure("--model takes two words: dllm tokenize IN OUT --model MODEL");
  if (context.typed("dataset", "token_file"))
    throw UsageFailure("--token-file and the word OUT are the same: leave --token-file out");
  const std::string in = context.text("tokenizer"), out = context.text("text");
  const auto tokenizer = open_tokenizer(context, context.text("model"));
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("dataset"), "token_file", out.c_str(), err);
  });
  const auto data = open_dataset(context, in, tokenizer.get(), context.json());
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
  if (context.typed("template"))
    throw UsageFailure("--template is for token files: dllm tokenize IN OUT --model MODEL");
  if (context.typed("text") && context.typed("file"))
    throw UsageFailure("--text and --file both give the text: give one of them");
  const auto tokenizer = open_tokenizer(context, context.text("tokenizer"));
  const std::string text = context.has("text")
                               ? context.text("text")
                               : read_utf8(context.has("file") ? context.text("file") : "-");
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

// Saves the tokenizer. A chat template has a place in tokenizer_config.json next to tokenizer.json.
void save_trained(const dllm_tokenizer* tokenizer, const std::string& out) {
  const std::filesystem::path path = out, folder = path.parent_path();
  std::error_code ignored; // the save reports the error
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::string where = out;
  if (!encode_chat(tokenizer).empty()) {
    if (path.filename() == "tokenizer.json")
      where = folder.empty() ? "." : folder.string();
    else if (!std::filesystem::is_directory(path, ignored))
      std::fprintf(stderr,
                   "%s does not hold the chat template: name it FOLDER/tokenizer.json to "
                   "save the template too, or give --template to dllm train\n",
                   out.c_str());
  }
  call([&](dllm_error* err) { return dllm_tokenizer_save(tokenizer, where.c_str(), err); });
}

// Fails when the tokenizer would replace a file, unless --overwrite is set.
void check_is_new(const Context& context) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path = context.text("out");
  if (fs::is_directory(path, ignored)) path /= "tokenizer.json";
  if (context.flag("overwrite") || !fs::is_regular_file(path, ignored)) return;
  throw Failure(DLLM_ALREADY_EXISTS, path.string() + " exists already",
                "name another file with --out, or replace it with --overwrite");
}

int tokenizer_train(Context& context) {
  for (const char* key : {"append_eos", "prepend_bos", "parse_special", "token_file"}) {
    refuse_typed(context, "dataset", key, "the text is not encoded: it trains the tokenizer");
  }
  refuse_typed(context, "dataset", "template", "--template is the template of the tokenizer");
  check_is_new(context);
  set_template(context, "tokenizer_train", "chat_template");
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
  const auto data = open_dataset(context, context.text("data"), nullptr, context.json());
  const auto tokenizer = make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_train(data.get(), context.options("tokenizer_train"), context.task(), out,
                                err);
  });
  save_trained(tokenizer.get(), context.text("out"));
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
        "read the text from a file, - (and the default) for standard input"},
       {Kind::text, "template", "",
        "token file: chat template of conversations: chatml, llama3, qwen, alpaca, or a file that "
        "holds one; default: the model's own"}},
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
            "data as for dllm train: text, JSON, CSV, Parquet; .gz is decompressed", true},
           {Kind::text, "out", "tokenizer.json", "the file to write"},
           {Kind::flag, "overwrite", "", "replace an existing file"},
           {Kind::number, "vocab", "", "tokens, as in dllm train (--vocab-size)"},
           {Kind::text, "template", "",
            "chat template of the tokenizer: none, chatml, llama3, qwen, alpaca, or a file that "
            "holds one; its tokens <|word|> become special; default: chatml for conversations"}},
          {"dataset", "tokenizer_train"},
          tokenizer_train};
}

} // namespace dllm::cli
