#pragma once
// Owners for the handles of the C ABI, and failures as exceptions inside this program.

#include "dllm/dllm.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dllm::cli {

struct Release {
  void operator()(dllm_buffer* p) const { dllm_buffer_release(p); }
  void operator()(dllm_options* p) const { dllm_options_release(p); }
  void operator()(dllm_task* p) const { dllm_task_release(p); }
  void operator()(dllm_engine* p) const { dllm_engine_release(p); }
  void operator()(dllm_tensor* p) const { dllm_tensor_release(p); }
  void operator()(dllm_batch* p) const { dllm_batch_release(p); }
  void operator()(dllm_model* p) const { dllm_model_release(p); }
  void operator()(dllm_tokenizer* p) const { dllm_tokenizer_release(p); }
  void operator()(dllm_dataset* p) const { dllm_dataset_release(p); }
  void operator()(dllm_loader* p) const { dllm_loader_release(p); }
  void operator()(dllm_schedule* p) const { dllm_schedule_release(p); }
  void operator()(dllm_objective* p) const { dllm_objective_release(p); }
  void operator()(dllm_trainer* p) const { dllm_trainer_release(p); }
  void operator()(dllm_decoder* p) const { dllm_decoder_release(p); }
  void operator()(dllm_checkpoint* p) const { dllm_checkpoint_release(p); }
  void operator()(dllm_lua* p) const { dllm_lua_release(p); }
};
template <class T> using Owned = std::unique_ptr<T, Release>;

// A call that failed: status, message and hint as the library gave them.
class Failure : public std::runtime_error {
 public:
  Failure(dllm_status status, const std::string& message, std::string hint = {})
      : std::runtime_error(message), status_(status), hint_(std::move(hint)) {}
  dllm_status status() const { return status_; }
  const std::string& hint() const { return hint_; }

 private:
  dllm_status status_;
  std::string hint_;
};

// call([&](dllm_error* err) { return dllm_x(..., err); }) throws Failure unless the status is DLLM_OK.
template <class F>
void call(F&& f) {
  struct Error {
    dllm_error* handle = dllm_error_new();
    ~Error() { dllm_error_release(handle); }
  } err;
  const dllm_status status = f(err.handle);
  if (status == DLLM_OK) return;
  throw Failure(status, dllm_error_message(err.handle), dllm_error_hint(err.handle));
}

// make<dllm_engine>([&](dllm_engine** out, dllm_error* err) { return dllm_engine_new(opts, out, err); })
template <class T, class F>
Owned<T> make(F&& f) {
  T* out = nullptr;
  call([&](dllm_error* err) { return f(&out, err); });
  return Owned<T>(out);
}

// text([&](dllm_buffer* out, dllm_error* err) { return dllm_model_config(model, out, err); })
template <class F>
std::string text(F&& f) {
  const Owned<dllm_buffer> buffer(dllm_buffer_new());
  call([&](dllm_error* err) { return f(buffer.get(), err); });
  return {static_cast<const char*>(dllm_buffer_data(buffer.get())),
          static_cast<size_t>(dllm_buffer_size(buffer.get()))};
}

}  // namespace dllm::cli
