#ifndef DLLM_CPP_TEXT_HPP
#define DLLM_CPP_TEXT_HPP
// The classes for tokenizers, answers, datasets and loaders.
#include "dllm/cpp/data.hpp"
#include "dllm/cpp/options.hpp"

namespace dllm {
inline namespace api {

class Tokenizer;

// A dataset holds documents as ids. A dataset made without a tokenizer holds raw text.
class Dataset : public Handle<dllm_dataset> {
public:
  using Handle::Handle;
  // Makes an empty dataset, which add() fills.
  explicit Dataset(const Tokenizer* tokenizer = nullptr, const Settings& settings = {});
  // Opens a file, all files of a folder, or a mixture of such parts.
  static Dataset open(std::string_view path, const Tokenizer* tokenizer = nullptr,
                      const Settings& settings = {}, const Task* task = nullptr);
  // Adds a document as a JSON object: {"text"}, {"prompt", "response"}, {"messages"} or {"ids"}.
  Dataset& add(std::string_view json) {
    call([&](dllm_error* err) {
      return dllm_dataset_add(get(), json.data(), size_of(json.size()), err);
    });
    return *this;
  }
  Dataset& add_text(std::string_view document) {
    return add("{\"text\":" + Value::quoted(document) + "}");
  }
  int64_t size() const noexcept { return dllm_dataset_size(get()); }
  void save(std::string_view path, const Settings& settings = {},
            const Task* task = nullptr) const {
    settings.with("save", [&](const dllm_options* opts) {
      call([&](dllm_error* err) {
        return dllm_dataset_save(get(), zero_ended(path).c_str(), opts, handle_of(task), err);
      });
    });
  }
};

class Tokenizer : public Handle<dllm_tokenizer> {
public:
  using Handle::Handle;
  static Tokenizer load(std::string_view path, const Settings& settings = {},
                        const Task* task = nullptr) {
    return from("tokenizer", settings,
                [&](const dllm_options* opts, dllm_tokenizer** out, dllm_error* err) {
                  return dllm_tokenizer_load_task(zero_ended(path).c_str(), opts, handle_of(task),
                                                  out, err);
                });
  }
  static Tokenizer load(const Source& source, const Settings& settings = {}) {
    return from("tokenizer", settings,
                [&](const dllm_options* opts, dllm_tokenizer** out, dllm_error* err) {
                  return dllm_tokenizer_load_source(source.get(), opts, out, err);
                });
  }
  static Tokenizer train(const Dataset& text, const Settings& settings = {},
                         const Task* task = nullptr) {
    return from("tokenizer_train", settings,
                [&](const dllm_options* opts, dllm_tokenizer** out, dllm_error* err) {
                  return dllm_tokenizer_train(text.get(), opts, handle_of(task), out, err);
                });
  }
  void save(std::string_view path) const {
    call(
        [&](dllm_error* err) { return dllm_tokenizer_save(get(), zero_ended(path).c_str(), err); });
  }

  int64_t size() const noexcept { return dllm_tokenizer_size(get()); }
  // Returns the id of a token by its text, or by "mask" "bos" "eos" "pad".
  int32_t id(std::string_view name) const {
    return number<int32_t>([&](int32_t* out, dllm_error* err) {
      return dllm_tokenizer_id(get(), zero_ended(name).c_str(), out, err);
    });
  }
  std::vector<int32_t> encode(std::string_view words) const {
    return array<int32_t>(
        [&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
          return dllm_tokenizer_encode(get(), words.data(), size_of(words.size()), dst, room, count,
                                       err);
        },
        words.size() / 2 + 8);
  }
  // Converts a long text to ids; the task can cancel the call.
  std::vector<int32_t> encode(std::string_view words, const Task& task) const {
    const Batch batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
      return dllm_tokenizer_encode_task(get(), words.data(), size_of(words.size()), task.get(), out,
                                        err);
    }));
    return batch.array("ids").read<int32_t>();
  }
  std::string decode(std::span<const int32_t> ids) const {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_tokenizer_decode(get(), ids.data(), size_of(ids.size()), out, err);
    });
  }
  // The text of the ids at the front that give whole characters. Keep the other ids for the next
  // call.
  struct Streamed {
    std::string text;
    std::size_t used = 0; // ids whose text is in `text`
  };
  Streamed decode_stream(std::span<const int32_t> ids) const {
    int64_t used = 0;
    std::string whole = text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_tokenizer_decode_stream(get(), ids.data(), size_of(ids.size()), out, &used, err);
    });
    return {std::move(whole), static_cast<std::size_t>(used)};
  }
  // Renders a conversation with a chat template. Returns the arrays "ids" and "keep".
  Batch chat(std::string_view messages_json, const Settings& settings = {},
             const Task* task = nullptr) const {
    return settings.with("chat", [&](const dllm_options* opts) {
      return Batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
        const char* first = messages_json.data();
        const int64_t size = size_of(messages_json.size());
        return task == nullptr
                   ? dllm_tokenizer_chat(get(), first, size, opts, out, err)
                   : dllm_tokenizer_chat_task(get(), first, size, opts, task->get(), out, err);
      }));
    });
  }

private:
  template <class F> static Tokenizer from(std::string_view kind, const Settings& settings, F&& f) {
    return settings.with(kind, [&](const dllm_options* opts) {
      return Tokenizer(make<dllm_tokenizer>(
          [&](dllm_tokenizer** out, dllm_error* err) { return f(opts, out, err); }));
    });
  }
};

// The text of a canvas while a decoder, or another loop, decides the canvas.
class Answer : public Handle<dllm_answer> {
public:
  using Handle::Handle;
  explicit Answer(const Tokenizer& tokenizer, const Settings& settings = {})
      : Handle(settings.with("answer", [&](const dllm_options* opts) {
          return make<dllm_answer>([&](dllm_answer** out, dllm_error* err) {
            return dllm_answer_new(tokenizer.get(), opts, out, err);
          });
        })) {}

  // Sets the canvas as it is now. Returns DLLM_ANSWER_OPEN, or why the answer is over.
  int32_t update(std::span<const int32_t> ids, std::span<const uint8_t> states) {
    if (states.size() != ids.size())
      raise(Error(DLLM_INVALID_ARGUMENT, "ids has " + std::to_string(ids.size()) +
                                             " positions, states has " +
                                             std::to_string(states.size())));
    return number<int32_t>([&](int32_t* out, dllm_error* err) {
      return dllm_answer_update(get(), ids.data(), states.data(), size_of(ids.size()), out, err);
    });
  }
  // Returns the text up to the first masked position or the end of the answer.
  std::string text() const {
    return api::text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_answer_text(get(), out, err); });
  }
  // Returns the final text that is new since the last call.
  std::string next() {
    return api::text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_answer_next(get(), out, err); });
  }
  // Returns one text per position of the canvas.
  std::vector<std::string> cells() const {
    std::vector<int64_t> ends;
    const std::string all = api::text([&](dllm_buffer* out, dllm_error*) {
      ends = array<int64_t>([&](int64_t* dst, int64_t room, int64_t* count, dllm_error* err) {
        return dllm_answer_cells(get(), out, dst, room, count, err);
      });
      return DLLM_OK;
    });
    std::vector<std::string> cells;
    std::size_t begin = 0;
    for (const int64_t end : ends) {
      cells.push_back(all.substr(begin, static_cast<std::size_t>(end) - begin));
      begin = static_cast<std::size_t>(end);
    }
    return cells;
  }
};

inline Dataset::Dataset(const Tokenizer* tokenizer, const Settings& settings)
    : Handle(settings.with("dataset", [&](const dllm_options* opts) {
        return make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
          return dllm_dataset_new(handle_of(tokenizer), opts, out, err);
        });
      })) {}

inline Dataset Dataset::open(std::string_view path, const Tokenizer* tokenizer,
                             const Settings& settings, const Task* task) {
  return settings.with("dataset", [&](const dllm_options* opts) {
    return Dataset(make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
      return dllm_dataset_open(zero_ended(path).c_str(), handle_of(tokenizer), opts,
                               handle_of(task), out, err);
    }));
  });
}

// A loader returns batches of a dataset in a reproducible order.
class Loader : public Handle<dllm_loader> {
public:
  using Handle::Handle;
  explicit Loader(const Dataset& data, const Settings& settings = {})
      : Handle(settings.with("loader", [&](const dllm_options* opts) {
          return make<dllm_loader>([&](dllm_loader** out, dllm_error* err) {
            return dllm_loader_new(data.get(), opts, out, err);
          });
        })) {}
  // Returns the next batch, or nothing at the end of the data.
  std::optional<Batch> next() {
    dllm_batch* out = nullptr;
    call([&](dllm_error* err) {
      const dllm_status status = dllm_loader_next(get(), &out, err);
      return status == DLLM_OUT_OF_RANGE ? DLLM_OK : status;
    });
    return out == nullptr ? std::optional<Batch>() : std::optional<Batch>(Batch(out));
  }
  void seek(int64_t position) {
    call([&](dllm_error* err) { return dllm_loader_seek(get(), position, err); });
  }
  int64_t position() const noexcept { return dllm_loader_position(get()); }
};

} // namespace api
} // namespace dllm
#endif
