// Files that are not what they should be, or change while they are in use: every call returns a
// status. Nothing here ends the process, hangs, or touches a file that no save wrote.
#include "world.h"

#include "../unit/ckpt/gguf_builder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

namespace fs = std::filesystem;

// An alarm makes a hang a failure with a signal.
constexpr unsigned kPatience = 300;

struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "dllm-files-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void make_pipe(const std::string& path) {
  CHECK(::mkfifo(path.c_str(), 0600) == 0);
}

bool says(const dllm_error* err, const std::string& part) {
  const bool found = std::string(dllm_error_message(err)).find(part) != std::string::npos;
  if (!found) std::printf("# \"%s\" is not in \"%s\"\n", part.c_str(), dllm_error_message(err));
  return found;
}

dllm_status load(world& w, const std::string& path) {
  dllm_model* model = nullptr;
  const dllm_status status =
      dllm_model_load(w.engine, path.c_str(), nullptr, nullptr, &model, w.err);
  dllm_model_release(model);
  return status;
}

dllm_status save(world& w, const std::string& path, bool overwrite) {
  dllm_options* opts = make_options("save", overwrite ? "{\"overwrite\": true}" : "{}", w.err);
  const dllm_status status = dllm_model_save(w.model, path.c_str(), opts, nullptr, w.err);
  dllm_options_release(opts);
  return status;
}

void test_pipes_in_a_model_folder(world& w) {
  const Folder folder;
  NEED(dllm_model_set_tokenizer(w.model, w.tok, w.err), w.err);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const std::string place = folder / std::string("m-") + name;
    NEED(save(w, place, false), w.err);
    fs::remove(place + "/" + name);
    make_pipe(place + "/" + name);
    CHECK(load(w, place) == DLLM_INVALID_ARGUMENT);
    CHECK(says(w.err, std::string(name) + " is not a regular file: it is a pipe"));
  }
  make_pipe(folder / "m.gguf");
  CHECK(load(w, folder / "m.gguf") == DLLM_INVALID_ARGUMENT);
  CHECK(load(w, "/dev/zero") != DLLM_OK);
}

void test_pipes_elsewhere(world& w) {
  const Folder folder;
  make_pipe(folder / "pipe");
  const std::string pipe = folder / "pipe";
  dllm_dataset* data = nullptr;
  CHECK(dllm_dataset_open(pipe.c_str(), w.tok, nullptr, nullptr, &data, w.err) ==
        DLLM_INVALID_ARGUMENT);
  CHECK(says(w.err, "it is a pipe") &&
        std::strstr(dllm_error_hint(w.err), "file first") != nullptr);
  dllm_tokenizer* tok = nullptr;
  CHECK(dllm_tokenizer_load(pipe.c_str(), nullptr, &tok, w.err) == DLLM_INVALID_ARGUMENT);
  dllm_checkpoint* ckpt = nullptr;
  make_pipe(pipe + ".safetensors");
  CHECK(dllm_checkpoint_open((pipe + ".safetensors").c_str(), &ckpt, w.err) ==
        DLLM_INVALID_ARGUMENT);
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  CHECK(dllm_trainer_add_sink(trainer, "jsonl", pipe.c_str(), nullptr, w.err) ==
        DLLM_INVALID_ARGUMENT);
  dllm_trainer_release(trainer);
}

void test_an_open_checkpoint_that_is_cut(world& w) {
  const Folder folder;
  NEED(save(w, folder / "m", false), w.err);
  dllm_checkpoint* ckpt = nullptr;
  NEED(dllm_checkpoint_open((folder / "m").c_str(), &ckpt, w.err), w.err);
  dllm_tensor* tensor = nullptr;
  const char* name = dllm_model_param_name(w.model, 0);
  NEED(dllm_checkpoint_tensor(ckpt, name, &tensor, w.err), w.err);
  CHECK(::truncate((folder / "m/model.safetensors").c_str(), 4096) == 0);
  const auto* numbers = static_cast<const float*>(dllm_tensor_data(tensor));
  const int64_t count = dllm_tensor_dim(tensor, 0) * dllm_tensor_dim(tensor, 1);
  float top = 0; // a tensor that was read stays
  for (int64_t i = 0; i < count; ++i) top = numbers[i] > top ? numbers[i] : top;
  CHECK(dllm_tensor_rank(tensor) == 2 && top > 0);
  dllm_tensor_release(tensor);
  tensor = nullptr;
  CHECK(dllm_checkpoint_tensor(ckpt, name, &tensor, w.err) == DLLM_DATA_LOSS);
  CHECK(says(w.err, "model.safetensors changed while it was in use"));
  dllm_checkpoint_release(ckpt);
}

void test_data_that_changes(world& w) {
  const Folder folder;
  const std::string tokens = folder / "rows.tok", text = folder / "a.txt";
  NEED(dllm_dataset_save(w.data, tokens.c_str(), nullptr, nullptr, w.err), w.err);
  CHECK(dllm_dataset_save(w.data, tokens.c_str(), nullptr, nullptr, w.err) == DLLM_ALREADY_EXISTS);
  write(text, "the cat sat on the mat and the dog sat on the log\n");
  for (const std::string& path : {tokens, text}) {
    dllm_dataset* data = nullptr;
    NEED(dllm_dataset_open(path.c_str(), w.tok, nullptr, nullptr, &data, w.err), w.err);
    dllm_loader* loader = make_loader(data, "{\"length\": 8, \"batch\": 1, \"epochs\": 0}", w.err);
    dllm_batch* batch = nullptr;
    NEED(dllm_loader_next(loader, &batch, w.err), w.err);
    dllm_batch_release(batch);
    batch = nullptr;
    CHECK(::truncate(path.c_str(), 16) == 0);
    CHECK(dllm_loader_next(loader, &batch, w.err) == DLLM_DATA_LOSS);
    CHECK(says(w.err, path + " changed while it was in use"));
    dllm_loader_release(loader);
    dllm_dataset_release(data);
  }
}

void test_overwrite_keeps_other_files(world& w) {
  const Folder folder;
  write(folder / "thesis.txt", "mine");
  CHECK(save(w, folder.path.string(), true) == DLLM_ALREADY_EXISTS);
  CHECK(says(w.err, "no save wrote thesis.txt"));
  CHECK(save(w, folder / "thesis.txt", true) == DLLM_ALREADY_EXISTS);
  CHECK(dllm_tokenizer_save(w.tok, (folder / "thesis.txt").c_str(), w.err) == DLLM_ALREADY_EXISTS);
  fs::create_directories(folder / "run/step_000000.partial");
  write(folder / "run/step_000000.partial/thesis.txt", "mine");
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  CHECK(dllm_checkpoint_save(trainer, nullptr, (folder / "run").c_str(), nullptr, nullptr, nullptr,
                             w.err) == DLLM_ALREADY_EXISTS);
  dllm_trainer_release(trainer);
  CHECK(read(folder / "run/step_000000.partial/thesis.txt") == "mine");
  CHECK(read(folder / "thesis.txt") == "mine");
  NEED(save(w, folder / "m", true), w.err);
  NEED(save(w, folder / "m", true), w.err);
}

void test_the_size_limit_of_files(world& w) {
  const Folder folder;
  NEED(save(w, folder / "m", false), w.err);
  const std::string before = read(folder / "m/model.safetensors");
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{4096, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool refused = save(w, folder / "m", true) == DLLM_RESOURCE_EXHAUSTED;
    ::_exit(refused && says(w.err, "cannot write") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(read(folder / "m/model.safetensors") == before);
  CHECK(!fs::exists(folder / "m.partial"));
}

void test_a_config_that_does_not_fit(world& w) {
  const std::string config = "{\"model_type\": \"llama\", \"vocab_size\": 16777216, "
                             "\"hidden_size\": 1048576, \"intermediate_size\": 1048576,"
                             " \"num_hidden_layers\": 4096, \"num_attention_heads\": 4, "
                             "\"num_key_value_heads\": 2, \"head_dim\": 262144}";
  dllm_model* model = nullptr;
  CHECK(dllm_model_new(w.engine, config.data(), static_cast<int64_t>(config.size()), nullptr,
                       nullptr, &model, w.err) == DLLM_RESOURCE_EXHAUSTED);
  CHECK(says(w.err, "parameters") && says(w.err, "GiB"));
}

// A llama of one layer, width 8, 4 tokens, whose tokenizer is of an unknown kind.
std::string model_with_a_broken_tokenizer() {
  constexpr uint32_t kU32 = 4, kF32 = 6;
  dllm::test::GgufBuilder file;
  file.header(11, 9)
      .text_value("general.architecture", "llama")
      .text_value("tokenizer.ggml.model", "magic");
  for (const auto& [key, value] :
       {std::pair("embedding_length", 8u), std::pair("block_count", 1u),
        std::pair("feed_forward_length", 8u), std::pair("attention.head_count", 2u),
        std::pair("attention.head_count_kv", 2u), std::pair("context_length", 16u)}) {
    file.scalar(std::string("llama.") + key, kU32, value);
  }
  file.scalar("llama.attention.layer_norm_rms_epsilon", kF32, 1e-5f);
  uint64_t at = 0;
  const auto put = [&](const std::string& name, std::initializer_list<uint64_t> dims) {
    uint64_t bytes = 4;
    for (const uint64_t extent : dims) bytes *= extent;
    file.tensor(name, dims, 0, at);
    at += (bytes + 31) / 32 * 32;
  };
  put("token_embd.weight", {8, 4});
  put("output_norm.weight", {8});
  put("blk.0.attn_norm.weight", {8});
  put("blk.0.ffn_norm.weight", {8});
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    put(std::string("blk.0.") + name + ".weight", {8, 8});
  file.align();
  return file.bytes + std::string(at, '\0');
}

void test_a_broken_tokenizer_is_reported(world& w) {
  const Folder folder;
  const std::string place = folder / "t.gguf";
  write(place, model_with_a_broken_tokenizer());
  dllm_tokenizer* tok = nullptr;
  CHECK(dllm_tokenizer_load(place.c_str(), nullptr, &tok, w.err) != DLLM_OK);
  const std::string reason = dllm_error_message(w.err);
  dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_QUEUE);
  dllm_model* model = nullptr;
  NEED(dllm_model_load(w.engine, place.c_str(), nullptr, nullptr, &model, w.err), w.err);
  dllm_buffer* line = dllm_buffer_new();
  std::string lines;
  while (dllm_log_next(line, nullptr) == 1)
    lines += static_cast<const char*>(dllm_buffer_data(line));
  CHECK(!reason.empty() && lines.find("the tokenizer is left out: " + reason) != std::string::npos);
  dllm_log_config(DLLM_LOG_INFO, DLLM_SINK_NONE);
  dllm_buffer_release(line);
  dllm_model_release(model);
}

// A row from memory is an argument, not a file: what is wrong with it is no loss of data.
void test_a_document_that_is_none(world& w) {
  dllm_dataset* data = nullptr;
  NEED(dllm_dataset_new(nullptr, nullptr, &data, w.err), w.err);
  for (const std::string json :
       {"[]", "[{\"text\": \"a\"}, {}]", "{}", "{\"text\": 1}", "nonsense", ""}) {
    CHECK(dllm_dataset_add(data, json.data(), static_cast<int64_t>(json.size()), w.err) ==
          DLLM_INVALID_ARGUMENT);
    CHECK(says(w.err, "row 0"));
  }
  CHECK(dllm_dataset_size(data) == 0);
  dllm_dataset_release(data);
}

} // namespace

int main() {
  ::alarm(kPatience);
  world w;
  open_world(&w, 1);
  test_pipes_in_a_model_folder(w);
  test_pipes_elsewhere(w);
  test_an_open_checkpoint_that_is_cut(w);
  test_data_that_changes(w);
  test_overwrite_keeps_other_files(w);
  test_the_size_limit_of_files(w);
  test_a_config_that_does_not_fit(w);
  test_a_broken_tokenizer_is_reported(w);
  test_a_document_that_is_none(w);
  close_world(&w);
  return failures != 0;
}
