#pragma once
// The shared library's C functions as C++: handles that release themselves, and a refusal as an
// exception, so that a program says in a few lines what a reader goes through.

#include "dllm/dllm.h"
#include "harness.h"

#include <memory>
#include <string>

namespace dllm::hostile {

struct Refusal {
  int32_t status;
  std::string message;
};

inline dllm_error* shared_error() {
  struct Release {
    void operator()(dllm_error* err) const { dllm_error_release(err); }
  };
  static const std::unique_ptr<dllm_error, Release> err(dllm_error_new());
  return err.get();
}

// must(dllm_x(..., shared_error()))
inline void must(dllm_status status) {
  if (status != DLLM_OK) throw Refusal{status, dllm_error_message(shared_error())};
}

template <auto kRelease> struct Releaser {
  template <class T> void operator()(T* handle) const { kRelease(handle); }
};
template <class T, auto kRelease> using Owned = std::unique_ptr<T, Releaser<kRelease>>;
using Engine = Owned<dllm_engine, dllm_engine_release>;
using Buffer = Owned<dllm_buffer, dllm_buffer_release>;
using Options = Owned<dllm_options, dllm_options_release>;
using Source = Owned<dllm_source, dllm_source_release>;
using Model = Owned<dllm_model, dllm_model_release>;
using Tokenizer = Owned<dllm_tokenizer, dllm_tokenizer_release>;
using Dataset = Owned<dllm_dataset, dllm_dataset_release>;
using Loader = Owned<dllm_loader, dllm_loader_release>;
using Batch = Owned<dllm_batch, dllm_batch_release>;
using Tensor = Owned<dllm_tensor, dllm_tensor_release>;
using Checkpoint = Owned<dllm_checkpoint, dllm_checkpoint_release>;

// make<Engine>([&](auto** out) { return dllm_engine_new(opts, out, shared_error()); })
template <class Handle, class F> Handle make(F&& call) {
  typename Handle::pointer made = nullptr;
  must(call(&made));
  return Handle(made);
}

template <class F> Outcome outcome(F&& body) {
  try {
    body();
  } catch (const Refusal& refusal) {
    return {refusal.status, refusal.message};
  }
  return {};
}

inline int64_t size_of(const std::string& text) {
  return static_cast<int64_t>(text.size());
}

// A folder of this process that is removed with it. In memory where the system has such a file
// system.
class Folder {
public:
  Folder();
  ~Folder();
  std::string path(const std::string& name = {}) const {
    return name.empty() ? path_ : path_ + "/" + name;
  }
  std::string write(const std::string& name, const std::string& bytes) const; // the path

private:
  std::string path_;
};

std::string read_bytes(const std::string& path);

// A llama of one layer: width 16, 40 ids.
extern const char* const kTinyConfig;
Engine small_engine();
Model tiny_model(dllm_engine* engine);
// A byte-level BPE tokenizer.json of 290 tokens, with a mask token.
std::string tiny_tokenizer_json();
Tokenizer tokenizer_of(const std::string& json);
Options options_of(const char* kind, const std::string& json);

// Opens weights, describes them, reads every tensor and verifies all.
void read_weights(const std::string& path);

} // namespace dllm::hostile
