#ifndef DLLM_CPP_GENERATE_HPP
#define DLLM_CPP_GENERATE_HPP
// The classes for text in and text out.
#include "dllm/cpp/decode.hpp"
#include "dllm/cpp/json.hpp"
#include "dllm/cpp/turns.hpp"

namespace dllm {
inline namespace api {

// The settings of one request, such as {{"length", 32}, {"stop", std::vector<std::string>{"\n"}}}.
// A setting "policy" gives the request the keys of that policy too.
class Request : public Options {
public:
  Request(std::initializer_list<Setting> settings = {})
      : Request(std::span<const Setting>(settings.begin(), settings.size())) {}
  explicit Request(std::span<const Setting> settings) : Options(kind_of(settings)) {
    for (const Setting& setting : settings) set(setting.key, setting.value);
  }

private:
  static std::string kind_of(std::span<const Setting> settings) {
    for (const Setting& setting : settings) {
      const std::optional<std::string> policy = setting.value.text();
      if (setting.key == "policy" && policy && *policy != "auto") return "request:" + *policy;
    }
    return "request";
  }
};

// The answer of a request that is over.
struct Generation {
  std::string text;   // the answer; of a text with holes: the whole text
  std::string whole;  // the prompt and the answer
  std::string finish; // full, end_token, stop_text or incomplete
  std::string policy;
  std::vector<std::string> holes; // the text of each hole of an infill
  std::vector<int32_t> ids;       // one token id per position, prompt included
  std::vector<float> confidence;  // a probability per position, 1 for a given one
  int64_t prompt_tokens = 0, completion_tokens = 0, steps = 0, nfe = 0, seed = 0;

  // Takes the counts, the holes and the reason of the end from the description of a request.
  void read_counts(const JsonText& about) {
    finish = about["finish"].text();
    policy = about["policy"].text();
    for (const JsonText& hole : about["holes"].items()) holes.push_back(hole.text());
    prompt_tokens = about["prompt_tokens"].whole();
    completion_tokens = about["completion_tokens"].whole();
    steps = about["steps"].whole();
    nfe = about["nfe"].whole();
    seed = about["seed"].whole();
  }
};

// What a request of a batch begins with: a text that the answer continues, a text with holes, or a
// conversation.
class Prompt {
public:
  Prompt(const char* text) : Prompt("prompt", text) {}
  Prompt(std::string_view text) : Prompt("prompt", text) {}
  Prompt(const std::string& text) : Prompt("prompt", text) {}
  // A text with holes: <mask:N> is N open tokens, <mask> is one.
  static Prompt infill(std::string_view text) { return {"infill", text}; }
  // A conversation, a JSON list of {"role", "content"}.
  static Prompt chat(std::string_view messages_json) { return {"messages", messages_json}; }

  // The name of the option that takes the text.
  const char* key() const noexcept { return key_; }
  const std::string& text() const noexcept { return text_; }

private:
  Prompt(const char* key, std::string_view text) : key_(key), text_(text) {}

  const char* key_;
  std::string text_;
};

// A model that turns text into text.
//
// Any thread may call a generator. Its calls run one after another, in the order in which they
// came. A task that ends also ends the wait for the turn. A callback may call text_of, describe and
// generation of its generator; other calls fail at once with DLLM_FAILED_PRECONDITION. A callback
// must not wait for a call of its generator on another thread: both would wait forever.
// decoder(), model() and tokenizer() do not wait. Move, reset and destroy a generator when no call
// of another thread runs or waits.
class Generator : public Handle<dllm_generator> {
public:
  using Handle::Handle;
  Generator(const Model& model, const Tokenizer& tokenizer, const Settings& settings = {})
      : Handle(settings.with("generator", [&](const dllm_options* opts) {
          return make<dllm_generator>([&](dllm_generator** out, dllm_error* err) {
            return dllm_generator_new(model.get(), tokenizer.get(), opts, out, err);
          });
        })) {}
  // Loads the model of a folder, a file, a run or a checkpoint, with its tokenizer. model_settings:
  // kind "model"; settings: kind "generator"; engine NULL: a new one.
  static Generator load(std::string_view path, const Settings& model_settings = {},
                        const Settings& settings = {}, const Engine* engine = nullptr,
                        const Task* task = nullptr) {
    return model_settings.with("model", [&](const dllm_options* model_opts) {
      return settings.with("generator", [&](const dllm_options* opts) {
        return Generator(make<dllm_generator>([&](dllm_generator** out, dllm_error* err) {
          return dllm_generator_load(zero_ended(path).c_str(), handle_of(engine), model_opts, opts,
                                     handle_of(task), out, err);
        }));
      });
    });
  }

  // Each of these three decodes one request and removes it. f, where it is given, is called with
  // every piece of final text.
  Generation generate(std::string_view prompt, Request request = {}, const Task* task = nullptr) {
    return answer(
        "prompt", prompt, request, [](std::string_view) {}, task);
  }
  template <std::invocable<std::string_view> F>
  Generation generate(std::string_view prompt, Request request, F&& f, const Task* task = nullptr) {
    return answer("prompt", prompt, request, f, task);
  }
  // Fills the holes of a text: <mask:N> is N open tokens, <mask> is one.
  Generation infill(std::string_view text, Request request = {}, const Task* task = nullptr) {
    return answer(
        "infill", text, request, [](std::string_view) {}, task);
  }
  // Continues a conversation, a JSON list of {"role", "content"}.
  Generation chat(std::string_view messages_json, Request request = {},
                  const Task* task = nullptr) {
    return answer(
        "messages", messages_json, request, [](std::string_view) {}, task);
  }
  template <std::invocable<std::string_view> F>
  Generation chat(std::string_view messages_json, Request request, F&& f,
                  const Task* task = nullptr) {
    return answer("messages", messages_json, request, f, task);
  }

#if defined(__cpp_exceptions)
  // Decodes several prompts together, as many at a time as the generator has slots. An error of one
  // prompt is its result and leaves the others alone. Prompt number i has the seed seed + i. Throws
  // what concerns all prompts: an unknown setting, a cancelled task.
  std::vector<Result<Generation>> batch(const std::vector<Prompt>& prompts,
                                        const std::vector<Setting>& settings = {},
                                        const Task* task = nullptr) {
    const Turns::Turn turn = take_turn(task);
    std::vector<Result<Generation>> results;
    while (results.size() < prompts.size()) decode_some(prompts, settings, results, task);
    return results;
  }
#endif

  // The functions below are for several requests at a time. add() returns the number of a request.
  int64_t add(const Request& request, const Task* task = nullptr) {
    const Turns::Turn turn = take_turn(task);
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_generator_add(get(), request.get(), handle_of(task), out, err);
    });
  }
  void remove(int64_t request) {
    const Turns::Turn turn = take_turn();
    call([&](dllm_error* err) { return dllm_generator_remove(get(), request, err); });
  }
  // Takes one denoising step of every open request. Returns the number of open requests.
  int64_t step(const Task* task = nullptr) {
    const Turns::Turn turn = take_turn(task);
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_generator_step(get(), handle_of(task), out, err);
    });
  }
  void run(const Task* task = nullptr) {
    const Turns::Turn turn = take_turn(task);
    call([&](dllm_error* err) {
      return dllm_generator_run(get(), nullptr, nullptr, handle_of(task), err);
    });
  }
  // Runs and calls f with every event. f returns nothing or a Next. An exception of f is rethrown.
  template <std::invocable<const Event&> F> void run(F&& f, const Task* task = nullptr) {
    const Turns::Turn turn = take_turn(task);
    call_with(f, [&](dllm_event_fn fn, void* data, dllm_error* err) {
      return dllm_generator_run(get(), fn, data, handle_of(task), err);
    });
  }
  // part: completion, text, next or canvas. Throws the error of a request that failed.
  std::string text_of(int64_t request, std::string_view part = "completion") {
    const Turns::Turn turn = take_turn();
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_generator_text(get(), request, zero_ended(part).c_str(), out, err);
    });
  }
  // Returns a request as JSON; -1: the generator.
  std::string describe(int64_t request = -1) {
    const Turns::Turn turn = take_turn();
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_generator_describe(get(), request, out, err);
    });
  }

  // Returns a request as it is now. Throws the error of a request that failed.
  Generation generation(int64_t request) {
    const Turns::Turn turn = take_turn();
    Generation made;
    made.text = text_of(request);
    made.whole = text_of(request, "text");
    const std::string described = describe(request);
    made.read_counts(JsonText(described));
    const Decoder decided = decoder();
    made.ids = decided.ids(request);
    made.confidence = decided.confidence(request);
    return made;
  }

  // Returns the decoder, for its readers; its slots have the numbers of the requests.
  Decoder decoder() const {
    return Decoder(make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
      return dllm_generator_decoder(get(), out, err);
    }));
  }
  Model model() const {
    return Model(make<dllm_model>(
        [&](dllm_model** out, dllm_error* err) { return dllm_generator_model(get(), out, err); }));
  }
  Tokenizer tokenizer() const {
    return Tokenizer(make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
      return dllm_generator_tokenizer(get(), out, err);
    }));
  }

private:
  // Waits until no call of another thread runs. An object without a handle has nothing to wait for.
  [[nodiscard]] Turns::Turn take_turn(const Task* task = nullptr) {
    return turns_ ? turns_->take(task) : Turns::Turn();
  }

  // Removes requests, also when their run fails.
  struct Added {
    dllm_generator* generator;
    std::vector<int64_t> numbers;
    ~Added() {
      for (const int64_t number : numbers) dllm_generator_remove(generator, number, nullptr);
    }
  };

  template <class F>
  Generation answer(std::string_view key, std::string_view given, Request& request, F&& f,
                    const Task* task) {
    request.set(key, given);
    const Turns::Turn turn = take_turn(task);
    const int64_t added = add(request, task);
    const Added removed_at_the_end{get(), {added}};
    run(
        [&](const Event& event) {
          const bool is_own = event.i64("request") == added && event.kind() == DLLM_EVENT_TEXT;
          if (is_own && !event.str("text").empty()) f(event.str("text"));
        },
        task);
    return generation(added);
  }

#if defined(__cpp_exceptions)
  // Returns the request of prompt number `at` of a batch.
  static Request request_of(const Prompt& prompt, const std::vector<Setting>& settings,
                            std::size_t at) {
    Request request{std::span<const Setting>(settings)};
    std::optional<int64_t> seed = 0;
    for (const Setting& setting : settings) {
      if (setting.key == "seed") seed = setting.value.whole(); // the library refuses another value
    }
    if (seed) request.set("seed", static_cast<int64_t>(static_cast<uint64_t>(*seed) + at));
    request.set(prompt.key(), std::string_view(prompt.text()));
    return request;
  }
  // Decodes the first prompts without a result, as many as there are slots.
  void decode_some(const std::vector<Prompt>& prompts, const std::vector<Setting>& settings,
                   std::vector<Result<Generation>>& results, const Task* task) {
    Added open{get(), {}};
    std::vector<Result<int64_t>> added;
    for (std::size_t at = results.size(); at < prompts.size(); ++at) {
      Result<int64_t> number =
          attempt([&] { return add(request_of(prompts[at], settings, at), task); });
      if (number) {
        open.numbers.push_back(*number);
      } else if (is_of_all(number.error().status())) {
        raise(number.error());
      } else if (number.error().status() == DLLM_RESOURCE_EXHAUSTED && !open.numbers.empty()) {
        break; // the slots of the requests before this one are free after the run
      }
      added.push_back(std::move(number));
    }
    run(task);
    for (Result<int64_t>& number : added) {
      results.push_back(number ? attempt([&] { return generation(*number); })
                               : Result<Generation>(number.error()));
    }
  }
  // Returns whether an error ends a whole batch.
  static bool is_of_all(dllm_status status) noexcept {
    return status == DLLM_NOT_FOUND || status == DLLM_CANCELLED || status == DLLM_DEADLINE_EXCEEDED;
  }
#endif

  std::unique_ptr<Turns> turns_ = std::make_unique<Turns>();
};

} // namespace api
} // namespace dllm
#endif
