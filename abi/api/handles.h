#pragma once
// The struct of each handle, and how a call reads arguments of that kind.

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/store/objects.h"
#include "base/task.h"
#include "decode/decoder/decoder.h"
#include "dllm/adapter.h"
#include "dllm/answer.h"
#include "dllm/batch.h"
#include "dllm/buffer.h"
#include "dllm/dataset.h"
#include "dllm/decoder.h"
#include "dllm/engine.h"
#include "dllm/event.h"
#include "dllm/generator.h"
#include "dllm/loader.h"
#include "dllm/model.h"
#include "dllm/objective.h"
#include "dllm/options.h"
#include "dllm/queue.h"
#include "dllm/schedule.h"
#include "dllm/source.h"
#include "dllm/task.h"
#include "dllm/tensor.h"
#include "dllm/tokenizer.h"
#include "dllm/trainer.h"
#include "generate/generator.h"
#include "generate/queue/queue.h"
#include "graph/engine.h"
#include "guard.h"
#include "hub/pull.h"
#include "model/model.h"
#include "noise/objective.h"
#include "noise/schedules/schedule.h"
#include "tensor/batch.h"
#include "tensor/tensor.h"
#include "text/answer/answer.h"
#include "text/data/dataset.h"
#include "text/data/loader.h"
#include "text/tokenizer.h"
#include "train/trainer.h"

#include <vector>

struct dllm_buffer : dllm::abi::Handle<dllm::abi::Kind::buffer> {
  std::string content;
};

struct dllm_task : dllm::abi::Handle<dllm::abi::Kind::task> {
  dllm::Task object;
};

struct dllm_event : dllm::abi::Handle<dllm::abi::Kind::event> {
  explicit dllm_event(const dllm::Event& seen) : object(seen) {}
  const dllm::Event& object;
};

struct dllm_options : dllm::abi::Handle<dllm::abi::Kind::options> {
  explicit dllm_options(const dllm::Schema& schema) : object(schema) {}
  dllm::Options object;
};

struct dllm_tensor : dllm::abi::Handle<dllm::abi::Kind::tensor> {
  explicit dllm_tensor(dllm::Tensor held) : object(std::move(held)) {}
  dllm::Tensor object;
};

struct dllm_batch : dllm::abi::Handle<dllm::abi::Kind::batch> {
  dllm_batch() = default;
  explicit dllm_batch(dllm::Batch held) : object(std::move(held)) {}
  dllm::Batch object;
};

struct dllm_source : dllm::abi::Handle<dllm::abi::Kind::source> {
  std::shared_ptr<dllm::MemorySource> object = std::make_shared<dllm::MemorySource>();
};

struct dllm_engine : dllm::abi::Handle<dllm::abi::Kind::engine> {
  explicit dllm_engine(std::shared_ptr<dllm::graph::Engine> made) : object(std::move(made)) {
    for (int64_t i = 0; i < object->device_count(); ++i)
      device_names.push_back(object->device_name(i));
  }
  std::shared_ptr<dllm::graph::Engine> object;
  std::vector<std::string> device_names; // returned by dllm_engine_device_name
};

struct dllm_model : dllm::abi::Handle<dllm::abi::Kind::model> {
  explicit dllm_model(std::shared_ptr<dllm::model::Model> held) : object(std::move(held)) {}
  std::shared_ptr<dllm::model::Model> object;
};

struct dllm_tokenizer : dllm::abi::Handle<dllm::abi::Kind::tokenizer> {
  explicit dllm_tokenizer(std::shared_ptr<const dllm::text::Tokenizer> held)
      : object(std::move(held)) {}
  std::shared_ptr<const dllm::text::Tokenizer> object;
};

struct dllm_answer : dllm::abi::Handle<dllm::abi::Kind::answer> {
  dllm_answer(std::shared_ptr<const dllm::text::Tokenizer> tokenizer, const dllm::Options& options)
      : object(std::move(tokenizer), options) {}
  dllm::text::Answer object;
};

struct dllm_dataset : dllm::abi::Handle<dllm::abi::Kind::dataset> {
  explicit dllm_dataset(std::shared_ptr<dllm::text::Dataset> held) : object(std::move(held)) {}
  std::shared_ptr<dllm::text::Dataset> object;
};

struct dllm_loader : dllm::abi::Handle<dllm::abi::Kind::loader> {
  dllm_loader(std::shared_ptr<const dllm::text::Dataset> data, const dllm::Options& options)
      : object(std::move(data), options) {}
  dllm::text::Loader object;
};

struct dllm_schedule : dllm::abi::Handle<dllm::abi::Kind::schedule> {
  explicit dllm_schedule(dllm::noise::ScheduleRef held) : object(std::move(held)) {}
  dllm::noise::ScheduleRef object;
};

struct dllm_objective : dllm::abi::Handle<dllm::abi::Kind::objective> {
  explicit dllm_objective(dllm::noise::ObjectiveRef held) : object(std::move(held)) {}
  dllm::noise::ObjectiveRef object;
};

struct dllm_trainer : dllm::abi::Handle<dllm::abi::Kind::trainer> {
  dllm_trainer(std::shared_ptr<dllm::model::Model> model, dllm::noise::ObjectiveRef objective,
               const dllm::Options& options)
      : object(std::move(model), std::move(objective), options) {}
  dllm::train::Trainer object;
};

struct dllm_decoder : dllm::abi::Handle<dllm::abi::Kind::decoder> {
  dllm_decoder(std::shared_ptr<dllm::model::Model> model, const dllm::Options& options)
      : object(std::make_shared<dllm::decode::Decoder>(std::move(model), options)) {}
  // The decoder of a generator, which only its readers may see.
  explicit dllm_decoder(std::shared_ptr<dllm::decode::Decoder> held)
      : object(std::move(held)), is_read_only(true) {}
  std::shared_ptr<dllm::decode::Decoder> object;
  bool is_read_only = false;
};

struct dllm_generator : dllm::abi::Handle<dllm::abi::Kind::generator> {
  dllm_generator(std::shared_ptr<dllm::model::Model> model,
                 std::shared_ptr<const dllm::text::Tokenizer> tokenizer,
                 const dllm::Options& options)
      : object(std::move(model), std::move(tokenizer), options) {}
  dllm::generate::Generator object;
};

struct dllm_queue : dllm::abi::Handle<dllm::abi::Kind::queue> {
  // A step of the queue counts as a call, so that a fork in the middle of it is noticed.
  dllm_queue(std::shared_ptr<dllm::model::Model> model,
             std::shared_ptr<const dllm::text::Tokenizer> tokenizer, const dllm::Options& options)
      : object(std::move(model), std::move(tokenizer), options, [](const std::function<void()>& f) {
          const dllm::abi::CallScope scope;
          f();
        }) {}
  dllm::generate::Queue object;
};

namespace dllm::abi {

// Replaces the content of the caller's buffer. A call does this last.
inline void fill(dllm_buffer* out, std::string text, const char* name = "out") {
  need(out, name).content = std::move(text);
}

// Replaces the content by JSON text. Bytes of foreign files that are not UTF-8 become U+FFFD.
void fill_json(dllm_buffer* out, const Json& json, const char* name = "out");

inline Task* task_of(dllm_task* task) {
  dllm_task* living = optional(task, "task");
  return living == nullptr ? nullptr : &living->object;
}

// The task of a call that reads files. Reads from object stores check it too. The constructor
// throws when the task is cancelled or late, so that the call does not begin.
class FileTask {
public:
  explicit FileTask(dllm_task* task) : task_(task_of(task)), transfers_(task_) {
    check_task(task_);
  }
  Task* get() const { return task_; }

private:
  Task* task_;
  store::TransferTask transfers_;
};

// Returns the path of a file or folder to read. A name of the hub becomes its path in the cache.
inline std::string need_place(const char* path) {
  return hub::local_path(need_text(path, "path"));
}

// Returns the C callback as a function of the core. The result is empty when fn is NULL.
inline EventFn event_fn(dllm_event_fn fn, void* user_data) {
  if (fn == nullptr) return {};
  return [fn, user_data](const Event& event) {
    const dllm_event handle(event);
    const int32_t answer = fn(&handle, user_data);
    if (answer == DLLM_CONTINUE) return Answer::go_on;
    return answer == DLLM_STOP ? Answer::stop : Answer::fail;
  };
}

// Returns the schema of a kind of options, from the table in options.cpp. Fails with not_found and
// the nearest kind.
const Schema& schema_of(std::string_view kind);
// Returns "threshold is an option of policy threshold: name the policy" for a key of kinds next to
// `kind`, such as "decoder:threshold" next to "decoder". Returns "" for other keys.
std::string owners_of(std::string_view kind, std::string_view key);
const char* option_kind_name(int64_t index); // null past the end

// Returns a copy of the caller's options, or the defaults for NULL. Options of "decoder:<policy>"
// are accepted where `kind` is "decoder". Any other kind is refused.
Options options_of(const dllm_options* opts, std::string_view kind);

// Returns a checked copy of a caller's array.
Tensor tensor_from(int32_t dtype, const int64_t* dims, int64_t rank, const void* data);

} // namespace dllm::abi
