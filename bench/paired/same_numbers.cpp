// Two builds of the library in one process: whether they make the same numbers to the last bit.
// same_numbers OLD/libdllm.so NEW/libdllm.so MODEL...
// Loads each model folder by both. Compares logits, the tokens of every policy with two seeds, the
// losses of every objective over three training steps, and the weights after them. The names of
// policies and objectives are those of the old library. Prints a line for each difference and the
// counts; exits with 1 when a number differs.

#include "library.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kRows = 2, kLength = 16;

// FNV-1a, 64 bits.
class Hash {
public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 1099511628211u;
  }
  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
    return text;
  }

private:
  uint64_t value_ = 14695981039346656037u;
};

// Releases a handle of one library at the end of a block.
template <class T> class Owned {
public:
  Owned(T* handle, void (*release)(T*)) : handle_(handle), release_(release) {}
  ~Owned() { release_(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* get() const { return handle_; }

private:
  T* handle_;
  void (*release_)(T*);
};
#define OWNED(kind, handle)                                                                        \
  Owned<kind>(handle, library_.function<decltype(kind##_release)>(#kind "_release"))

// One build with an engine of two threads. Each method returns a hash, or the code of its error.
class Build {
public:
  explicit Build(const char* path) : library_(path) {
    CALL(dllm_engine_new, options("engine", R"({"threads": 2})"), &engine_);
  }

  std::vector<std::string> names(const char* kind) {
    std::vector<std::string> found;
    const auto name = library_.function<decltype(dllm_registry_name)>("dllm_registry_name");
    for (int64_t i = 0; name(kind, i) != nullptr; ++i) found.emplace_back(name(kind, i));
    return found;
  }

  std::string logits(const std::string& model) {
    return outcome([&](Hash& hash) {
      const auto loaded = OWNED(dllm_model, load(model));
      const auto given = OWNED(dllm_batch, batch(loaded.get()));
      dllm_batch* out = nullptr;
      CALL(dllm_model_forward, loaded.get(), given.get(), nullptr, nullptr, &out);
      const auto made = OWNED(dllm_batch, out);
      const auto count =
          library_.function<decltype(dllm_batch_count)>("dllm_batch_count")(made.get());
      for (int64_t i = 0; i < count; ++i) {
        dllm_tensor* array = nullptr;
        CALL(dllm_batch_array, made.get(),
             library_.function<decltype(dllm_batch_name)>("dllm_batch_name")(made.get(), i),
             &array);
        add(hash, OWNED(dllm_tensor, array).get());
      }
    });
  }

  std::string tokens(const std::string& model, const std::string& policy, uint64_t seed) {
    return outcome([&](Hash& hash) {
      const auto loaded = OWNED(dllm_model, load(model));
      const std::string settings =
          R"({"gen_length": 16, "steps": 8, "temperature": 0.7, "policy": ")" + policy + "\"}";
      dllm_decoder* made = nullptr;
      CALL(dllm_decoder_new, loaded.get(), options("decoder", settings), &made);
      const auto decoder = OWNED(dllm_decoder, made);
      const std::vector<int32_t> prompt = {5, 9, 2, 7, 11, 3};
      CALL(dllm_decoder_start, decoder.get(), prompt.data(), static_cast<int64_t>(prompt.size()),
           seed);
      int64_t active = 1;
      for (int step = 0; active != 0 && step < 1000; ++step)
        CALL(dllm_decoder_step, decoder.get(), nullptr, &active);
      std::vector<int32_t> ids(1024);
      int64_t count = 0;
      CALL(dllm_decoder_ids, decoder.get(), int64_t{0}, ids.data(),
           static_cast<int64_t>(ids.size()), &count);
      hash.add(ids.data(), static_cast<size_t>(count) * sizeof ids[0]);
    });
  }

  // Hashes the losses of three steps, and the weights after them.
  std::string training(const std::string& model, const std::string& name) {
    return outcome([&](Hash& hash) {
      const auto loaded = OWNED(dllm_model, load(model));
      dllm_objective* objective = nullptr;
      dllm_options* settings = options("objective:" + name, "{}");
      // Objectives without blocks refuse this option.
      library_.function<decltype(dllm_options_set_i64)>("dllm_options_set_i64")(
          settings, "block_length", 8, library_.error());
      CALL(dllm_objective_new, name.c_str(), nullptr, settings, &objective);
      const auto held = OWNED(dllm_objective, objective);
      dllm_trainer* made = nullptr;
      CALL(dllm_trainer_new, loaded.get(), held.get(), nullptr, &made);
      const auto trainer = OWNED(dllm_trainer, made);
      const auto given = OWNED(dllm_batch, batch(loaded.get()));
      for (int step = 0; step < 3; ++step) {
        double loss = 0;
        CALL(dllm_trainer_step, trainer.get(), given.get(), nullptr, &loss);
        hash.add(&loss, sizeof loss);
      }
      const auto count =
          library_.function<decltype(dllm_model_param_count)>("dllm_model_param_count");
      const auto param =
          library_.function<decltype(dllm_model_param_name)>("dllm_model_param_name");
      for (int64_t i = 0; i < count(loaded.get()); ++i) {
        dllm_tensor* weight = nullptr;
        CALL(dllm_model_param, loaded.get(), param(loaded.get(), i), &weight);
        add(hash, OWNED(dllm_tensor, weight).get());
      }
    });
  }

private:
  std::string outcome(const std::function<void(Hash&)>& work) {
    Hash hash;
    try {
      work(hash);
    } catch (const std::exception&) {
      return "error " + std::to_string(library_.function<decltype(dllm_error_code)>(
                            "dllm_error_code")(library_.error()));
    }
    return hash.text();
  }
  dllm_options* options(const std::string& kind, const std::string& json) {
    dllm_options* made = nullptr;
    CALL(dllm_options_new, kind.c_str(), &made);
    CALL(dllm_options_set_json, made, json.data(), static_cast<int64_t>(json.size()));
    return made; // one of a few hundred, freed by the end of the process
  }
  // A model without a mask token gets the last token of its vocabulary.
  dllm_model* load(const std::string& path) {
    dllm_model* model = nullptr;
    CALL(dllm_model_load, engine_, path.c_str(), nullptr, nullptr, &model);
    int64_t mask = 0;
    const auto number = library_.function<decltype(dllm_model_i64)>("dllm_model_i64");
    if (number(model, "mask_id", &mask, library_.error()) == DLLM_OK) return model;
    const int64_t last = vocabulary(model) - 1;
    library_.function<decltype(dllm_model_release)>("dllm_model_release")(model);
    CALL(dllm_model_load, engine_, path.c_str(),
         options("model", R"({"mask_token": ")" + std::to_string(last) + "\"}"), nullptr, &model);
    return model;
  }
  int64_t vocabulary(dllm_model* model) {
    int64_t count = 0;
    CALL(dllm_model_i64, model, "vocab", &count);
    return count;
  }
  dllm_batch* batch(dllm_model* model) {
    const int64_t most = vocabulary(model) - 2;
    std::vector<int32_t> ids(kRows * kLength);
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(most));
    const int64_t dims[] = {kRows, kLength};
    dllm_batch* made = nullptr;
    CALL(dllm_batch_new, &made);
    CALL(dllm_batch_set, made, "ids", DLLM_I32, dims, int64_t{2}, ids.data());
    return made;
  }
  void add(Hash& hash, const dllm_tensor* tensor) {
    int64_t count = 1;
    const auto rank = library_.function<decltype(dllm_tensor_rank)>("dllm_tensor_rank")(tensor);
    for (int64_t i = 0; i < rank; ++i)
      count *= library_.function<decltype(dllm_tensor_dim)>("dllm_tensor_dim")(tensor, i);
    std::vector<float> values(static_cast<size_t>(count));
    CALL(dllm_tensor_read, tensor, DLLM_F32, values.data(), count * int64_t{sizeof(float)});
    hash.add(values.data(), values.size() * sizeof(float));
  }

  Library library_;
  dllm_engine* engine_ = nullptr;
};

// Counts what is equal, and prints what is not.
class Table {
public:
  void compare(const std::string& what, const std::string& of, const std::string& before,
               const std::string& after) {
    Counts& counts = counts_[what];
    const bool is_error = before.starts_with("error");
    if (before == after) return void(++(is_error ? counts.refused : counts.equal));
    ++counts.differ;
    std::printf("%-9s %-40s %s  %s\n", what.c_str(), of.c_str(), before.c_str(), after.c_str());
  }
  // Prints the counts and returns true when everything is equal.
  bool finish() const {
    bool is_equal = true;
    for (const auto& [what, counts] : counts_) {
      std::printf("%-9s %4d equal, %4d refused by both, %4d differ\n", what.c_str(), counts.equal,
                  counts.refused, counts.differ);
      is_equal = is_equal && counts.differ == 0;
    }
    return is_equal;
  }

private:
  struct Counts {
    int equal = 0, refused = 0, differ = 0;
  };
  std::map<std::string, Counts> counts_;
};

int run(int count, char** words) {
  if (count < 4) {
    std::fprintf(stderr, "same_numbers OLD/libdllm.so NEW/libdllm.so MODEL...\n");
    return 2;
  }
  Build before(words[1]), after(words[2]);
  Table table;
  const std::vector<std::string> policies = before.names("policy");
  const std::vector<std::string> objectives = before.names("objective");
  for (int i = 3; i < count; ++i) {
    const std::string model = words[i], name = model.substr(model.find_last_of('/') + 1);
    table.compare("logits", name, before.logits(model), after.logits(model));
    for (const std::string& policy : policies) {
      for (const uint64_t seed : {1u, 2u})
        table.compare("tokens", name + " " + policy, before.tokens(model, policy, seed),
                      after.tokens(model, policy, seed));
    }
    for (const std::string& objective : objectives)
      table.compare("training", name + " " + objective, before.training(model, objective),
                    after.training(model, objective));
  }
  return table.finish() ? 0 : 1;
}

} // namespace

int main(int count, char** words) {
  try {
    return run(count, words);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "same_numbers: %s\n", problem.what());
    return 1;
  }
}
