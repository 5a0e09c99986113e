#ifndef DLLM_CPP_QUEUE_HPP
#define DLLM_CPP_QUEUE_HPP
// The class for requests of many threads that one model answers.
#include "dllm/cpp/generate.hpp"

#include <chrono>

namespace dllm {
inline namespace api {

// A model that decodes the requests of many threads, on a thread of its own. Any thread may call
// any member, several at a time. Move, reset and destroy a queue when no call of it runs.
class Queue : public Handle<dllm_queue> {
public:
  using Handle::Handle;
  Queue(const Model& model, const Tokenizer& tokenizer, const Settings& settings = {})
      : Handle(settings.with("queue", [&](const dllm_options* opts) {
          return make<dllm_queue>([&](dllm_queue** out, dllm_error* err) {
            return dllm_queue_new(model.get(), tokenizer.get(), opts, out, err);
          });
        })) {}
  // Loads the model of a folder, a file, a run or a checkpoint, with its tokenizer. model_settings:
  // kind "model"; settings: kind "queue"; engine NULL: a new one.
  static Queue load(std::string_view path, const Settings& model_settings = {},
                    const Settings& settings = {}, const Engine* engine = nullptr,
                    const Task* task = nullptr) {
    return model_settings.with("model", [&](const dllm_options* model_opts) {
      return settings.with("queue", [&](const dllm_options* opts) {
        return Queue(make<dllm_queue>([&](dllm_queue** out, dllm_error* err) {
          return dllm_queue_load(zero_ended(path).c_str(), handle_of(engine), model_opts, opts,
                                 handle_of(task), out, err);
        }));
      });
    });
  }

  // Returns the number of a request. settings: kind "submission", such as {{"client", "ann"}}.
  int64_t submit(const Request& request, const Settings& settings = {},
                 const Task* task = nullptr) const {
    return settings.with("submission", [&](const dllm_options* opts) {
      return number<int64_t>([&](int64_t* out, dllm_error* err) {
        return dllm_queue_submit(get(), request.get(), opts, handle_of(task), out, err);
      });
    });
  }
  struct Progress {
    int64_t version = 0; // grows at each step and at the end
    bool is_over = false;
  };
  // Waits until the version of a request is above `seen`, the request is over, or the time is up.
  // -1: any request.
  Progress wait(int64_t request, int64_t seen, std::chrono::milliseconds most,
                const Task* task = nullptr) const {
    int64_t version = seen, over = 0;
    call([&](dllm_error* err) {
      return dllm_queue_wait(get(), request, most.count(), handle_of(task), &version, &over, err);
    });
    return {version, over != 0};
  }
  void wait_for_end(int64_t request, const Task* task = nullptr) const {
    for (Progress now; !now.is_over;)
      now = wait(request, now.version, std::chrono::minutes(1), task);
  }
  // part: completion, text, next or canvas. Throws the error of a request that failed.
  std::string text_of(int64_t request, std::string_view part = "completion") const {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_queue_text(get(), request, zero_ended(part).c_str(), out, err);
    });
  }
  // Returns a request as JSON; -1: the queue.
  std::string describe(int64_t request = -1) const {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_queue_describe(get(), request, out, err);
    });
  }
  // Returns a request as it is now. Throws the error of a request that failed.
  Generation generation(int64_t request) const {
    Generation made;
    made.text = text_of(request);
    const std::string described = describe(request);
    const JsonText about(described);
    made.whole = about["text"].text();
    made.read_counts(about);
    for (const JsonText& id : about["ids"].items())
      made.ids.push_back(static_cast<int32_t>(id.whole()));
    for (const JsonText& value : about["confidence"].items())
      made.confidence.push_back(static_cast<float>(value.number()));
    return made;
  }
  // Decodes one request together with the requests of other threads, and removes it.
  Generation generate(std::string_view prompt, Request request = {}, const Settings& settings = {},
                      const Task* task = nullptr) const {
    request.set("prompt", prompt);
    const Submitted submitted{get(), submit(request, settings, task)};
    wait_for_end(submitted.number, task);
    return generation(submitted.number);
  }

  void cancel(int64_t request) const {
    call([&](dllm_error* err) { return dllm_queue_cancel(get(), request, err); });
  }
  void remove(int64_t request) const {
    call([&](dllm_error* err) { return dllm_queue_remove(get(), request, err); });
  }
  // Takes no further requests, and waits until all are over.
  void drain(const Task* task = nullptr) const {
    call([&](dllm_error* err) { return dllm_queue_drain(get(), handle_of(task), err); });
  }

  Model model() const {
    return Model(make<dllm_model>(
        [&](dllm_model** out, dllm_error* err) { return dllm_queue_model(get(), out, err); }));
  }
  Tokenizer tokenizer() const {
    return Tokenizer(make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
      return dllm_queue_tokenizer(get(), out, err);
    }));
  }

private:
  // Removes a request, also when the wait for it fails.
  struct Submitted {
    dllm_queue* queue;
    int64_t number;
    ~Submitted() { dllm_queue_remove(queue, number, nullptr); }
  };
};

} // namespace api
} // namespace dllm
#endif
