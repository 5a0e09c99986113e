#include "command.h"
#include "fingerprint.h"
#include "options/names.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace dllm::cli {
namespace {

struct OpenFile {
  int number;
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
};

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

void check_regular(const struct stat& info, const std::string& path) {
  if (S_ISREG(info.st_mode)) return;
  throw Failure(DLLM_INVALID_ARGUMENT,
                path + " is not a regular file: it is " + kind_of(info.st_mode),
                S_ISDIR(info.st_mode) ? "name a file in it" : "write its content to a file first");
}

// Fails when the path is not a regular file: a pipe without a writer blocks, and a device never
// ends.
std::string read_file(const std::string& path) {
  struct stat info {};
  const auto cannot = [&] {
    return Failure(errno == EACCES ? DLLM_PERMISSION_DENIED : DLLM_NOT_FOUND,
                   "cannot read " + path + ": " + std::strerror(errno));
  };
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      throw Failure(DLLM_NOT_FOUND, "there is no file or folder " + path);
    throw cannot();
  }
  check_regular(info, path); // before it is opened
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.number < 0 || ::fstat(file.number, &info) != 0) throw cannot();
  check_regular(info, path);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.number, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

} // namespace

void refuse_typed(const Context& context, const std::string& kind, const std::string& key,
                  const std::string& reason) {
  if (context.typed(kind, key)) throw UsageFailure(option_name(kind, key) + ": " + reason);
}

void note_typed(const Context& context, const std::string& kind, const std::string& key,
                const std::string& reason) {
  if (context.typed(kind, key))
    std::fprintf(stderr, "%s has no effect: %s\n", option_name(kind, key).c_str(), reason.c_str());
}

void set_from_argument(Context& context, const std::string& kind, const char* key,
                       const std::string& argument) {
  try {
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options(kind), key, context.text(argument).c_str(), err);
    });
  } catch (const Failure& failure) {
    throw UsageFailure("--" + argument + ": " + failure.what(), failure.hint());
  }
}

std::string given_template(const Context& context) {
  return context.has("template") ? template_text(context.text("template")) : "";
}

std::string template_text(const std::string& word) {
  std::error_code ignored;
  const bool is_file = word.find_first_of("/.") != std::string::npos ||
                       std::filesystem::is_regular_file(word, ignored);
  const std::string value = is_file ? read_all(word) : word;
  if (value.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw UsageFailure(is_file ? "--template: file " + word + " is blank" : "--template is blank",
                       "name chatml, llama3, qwen or alpaca, or a file with a template");
  }
  return value;
}

void set_template(Context& context, const std::string& kind, const char* key) {
  if (!context.has("template")) return;
  refuse_typed(context, kind, key, "--template names the template, or a file with it");
  const std::string value = given_template(context);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options(kind), key, value.c_str(), err);
  });
}

void check_engine(const Context& context) {
  if (context.option("engine", "kind") != "\"cpu\"") return;
  const auto options = nlohmann::json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options("engine"), out, err);
  }));
  for (const auto& [key, value] : options.items()) {
    if (key.rfind("pjrt.", 0) != 0 && key != "plugin" && key != "target") continue;
    if (context.typed("engine", key))
      throw UsageFailure(dashed("--" + key) + " needs --engine.kind pjrt");
  }
}

Owned<dllm_engine> open_engine(const Context& context) {
  check_engine(context);
  return make<dllm_engine>([&](dllm_engine** out, dllm_error* err) {
    return dllm_engine_new(context.options("engine"), out, err);
  });
}

Owned<dllm_model> open_model(const Context& context, dllm_engine* engine, const std::string& path,
                             dllm_task* task) {
  if (context.typed_alone("model", "seed"))
    throw UsageFailure("--model.seed: it is for a new model, and this one has its weights");
  return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_load(engine, path.c_str(), context.options("model"),
                           task != nullptr ? task : context.task(), out, err);
  });
}

Owned<dllm_checkpoint> open_checkpoint(const Context& context, const std::string& path) {
  return make<dllm_checkpoint>([&](dllm_checkpoint** out, dllm_error* err) {
    return dllm_checkpoint_open_task(path.c_str(), context.task(), out, err);
  });
}

Owned<dllm_tokenizer> open_tokenizer(const Context& context, const std::string& path) {
  return make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_load_task(path.c_str(), nullptr, context.task(), out, err);
  });
}

namespace {

// Opens a tokenizer with one option set to 1.
Owned<dllm_tokenizer> open_tokenizer_with(const Context& context, const std::string& path,
                                          const char* option) {
  const auto options = make<dllm_options>(
      [&](dllm_options** out, dllm_error* err) { return dllm_options_new("tokenizer", out, err); });
  call([&](dllm_error* err) { return dllm_options_set_i64(options.get(), option, 1, err); });
  return make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_load_task(path.c_str(), options.get(), context.task(), out, err);
  });
}

} // namespace

Owned<dllm_tokenizer> open_prompt_tokenizer(const Context& context, const std::string& path) {
  return open_tokenizer_with(context, path, "add_start");
}

Owned<dllm_tokenizer> open_plain_tokenizer(const Context& context, const std::string& path) {
  return open_tokenizer_with(context, path, "skip_special");
}

std::vector<int32_t> encode(const dllm_tokenizer* tokenizer, const std::string& text) {
  return dllm::api::array<int32_t>(
      [&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
        return dllm_tokenizer_encode(tokenizer, text.data(), static_cast<int64_t>(text.size()), dst,
                                     room, count, err);
      });
}

std::vector<int32_t> encode_chat(const dllm_tokenizer* tokenizer, const std::string& chat) {
  constexpr std::string_view kTalk = R"([{"role": "user", "content": "a"}])";
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("chat", out, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_str(options.get(), "template", chat.c_str(), err);
  });
  dllm_batch* batch = nullptr;
  if (dllm_tokenizer_chat(tokenizer, kTalk.data(), static_cast<int64_t>(kTalk.size()),
                          options.get(), &batch, nullptr) != DLLM_OK)
    return {};
  const Owned<dllm_batch> held(batch);
  return read_array<int32_t>(batch, "ids", DLLM_I32);
}

std::string decode(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& all) {
  std::vector<int32_t> ids = all;
  const int64_t size = dllm_tokenizer_size(tokenizer);
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= size; });
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_tokenizer_decode(tokenizer, ids.data(), static_cast<int64_t>(ids.size()), out, err);
  });
}

std::string latest_of_run(const Context& context, const std::string& path) {
  const Owned<dllm_buffer> latest(dllm_buffer_new());
  const dllm_status status =
      dllm_checkpoint_latest_task(path.c_str(), context.task(), latest.get(), nullptr);
  return status == DLLM_OK ? static_cast<const char*>(dllm_buffer_data(latest.get())) : "";
}

nlohmann::ordered_json model_facts(const Context& context) {
  nlohmann::ordered_json facts = {{"model", context.text("model")}};
  const std::string checkpoint = latest_of_run(context, context.text("model"));
  std::string files = context.text("model");
  if (!checkpoint.empty()) {
    facts["checkpoint"] = std::filesystem::path(checkpoint).filename().string();
    files = checkpoint + "/COMMIT"; // it has the sums of the files of the checkpoint
  }
  facts["model_checksum"] = checksum_of(files);
  const auto given = nlohmann::ordered_json::parse(context.given());
  const auto options = given.at("options").value("model", nlohmann::ordered_json::object());
  facts["model_options"] = options;
  facts["arithmetic"] = nlohmann::ordered_json::parse(context.option("engine", "arithmetic"));
  if (options.contains("adapter"))
    facts["adapter_checksum"] = checksum_of(options.at("adapter").get<std::string>());
  return facts;
}

int64_t model_number(const dllm_model* model, const char* key) {
  int64_t value = 0;
  call([&](dllm_error* err) { return dllm_model_i64(model, key, &value, err); });
  return value;
}

Canvas canvas_of(const dllm_decoder* decoder, int64_t slot) {
  Canvas canvas;
  canvas.ids =
      dllm::api::array<int32_t>([&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
        return dllm_decoder_ids(decoder, slot, dst, room, count, err);
      });
  canvas.states =
      dllm::api::array<uint8_t>([&](uint8_t* dst, int64_t room, int64_t* count, dllm_error* err) {
        return dllm_decoder_states(decoder, slot, dst, room, count, err);
      });
  canvas.confidence =
      dllm::api::array<float>([&](float* dst, int64_t room, int64_t* count, dllm_error* err) {
        return dllm_decoder_confidence(decoder, slot, dst, room, count, err);
      });
  return canvas;
}

double decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key) {
  double value = 0;
  call([&](dllm_error* err) { return dllm_decoder_metric(decoder, slot, key, &value, err); });
  return value;
}

void write_all(const std::string& path, const std::string& content) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path target =
      fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : fs::path(path);
  const fs::file_status status = fs::status(target, ignored);
  const bool is_special = fs::exists(status) && !fs::is_regular_file(status); // a device, a pipe
  const std::string written = target.string() + (is_special ? "" : ".partial");
  errno = 0;
  std::FILE* file = std::fopen(written.c_str(), "wb");
  bool good =
      file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good && !is_special) good = std::rename(written.c_str(), target.c_str()) == 0;
  if (good) return;
  const int reason = errno;
  if (!is_special && file != nullptr) std::remove(written.c_str());
  const bool is_full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
  throw Failure(is_full ? DLLM_RESOURCE_EXHAUSTED : DLLM_PERMISSION_DENIED,
                "cannot write " + path + ": " + std::strerror(reason),
                is_full ? "free space on the disk" : "");
}

void check_replaces(const std::string& path, const std::string& begin, const std::string& what,
                    const std::string& option) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    throw Failure(DLLM_NOT_FOUND,
                  "cannot write " + path + ": there is no folder " + folder.string(),
                  "make the folder, or choose another " + option);
  }
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::string found(begin.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(found.data(), static_cast<std::streamsize>(found.size()));
  found.resize(static_cast<size_t>(file.gcount()));
  if (found.empty() || found == begin) return;
  throw Failure(DLLM_ALREADY_EXISTS, path + " is there already, and it is not " + what,
                "choose another " + option + ", or remove the file");
}

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return read_file(path);
}

std::string read_utf8(const std::string& path) {
  std::string content = read_all(path);
  if (content.starts_with("\xFF\xFE") || content.starts_with("\xFE\xFF")) {
    throw Failure(DLLM_INVALID_ARGUMENT,
                  (path == "-" ? "standard input" : path) + " is UTF-16, not UTF-8",
                  "convert it: iconv -f UTF-16 -t UTF-8");
  }
  if (content.starts_with("\xEF\xBB\xBF")) content.erase(0, 3);
  return content;
}

} // namespace dllm::cli
