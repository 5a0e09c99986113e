#ifndef DLLM_CPP_DECODE_HPP
#define DLLM_CPP_DECODE_HPP
// The class for decoders, which make text from prompts step by step.
#include "dllm/cpp/event.hpp"
#include "dllm/cpp/model.hpp"

#include <chrono>
#include <iterator>

namespace dllm {
inline namespace api {

class Decoder : public Handle<dllm_decoder> {
public:
  using Handle::Handle;
  explicit Decoder(const Model& model, const Settings& settings = {})
      : Handle(settings.with("decoder", [&](const dllm_options* opts) {
          return make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
            return dllm_decoder_new(model.get(), opts, out, err);
          });
        })) {}

  // Removes all slots and starts one request in slot 0.
  void start(std::span<const int32_t> prompt, int64_t seed = 0) {
    call([&](dllm_error* err) {
      return dllm_decoder_start(get(), prompt.data(), size_of(prompt.size()), seed, err);
    });
  }
  // Adds a request whose whole canvas is given, followed by gen_length open positions. Returns its
  // slot.
  int64_t add(std::span<const int32_t> canvas, const Settings& settings = {}) {
    return add(canvas, nullptr, settings);
  }
  // Adds a request with one number of `fixed` for each position of `canvas`. 1: given; 0: open.
  int64_t add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed,
              const Settings& settings = {}) {
    if (fixed.size() != canvas.size())
      raise(Error(DLLM_INVALID_ARGUMENT, "canvas has " + std::to_string(canvas.size()) +
                                             " positions, fixed has " +
                                             std::to_string(fixed.size())));
    static constexpr uint8_t none = 0; // NULL means that all positions are given
    return add(canvas, fixed.empty() ? &none : fixed.data(), settings);
  }
  void remove(int64_t slot) {
    call([&](dllm_error* err) { return dllm_decoder_remove(get(), slot, err); });
  }

  // Runs one denoising step of every active slot. Returns the number of slots with open positions.
  int64_t step(const Task* task = nullptr) {
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_decoder_step(get(), handle_of(task), out, err);
    });
  }
  void run(const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_decoder_run(get(), nullptr, nullptr, handle_of(task), err);
    });
  }
  // Runs and calls f with every event. f returns nothing or a Next. An exception of f is rethrown.
  template <std::invocable<const Event&> F> void run(F&& f, const Task* task = nullptr) {
    call_with(f, [&](dllm_event_fn fn, void* data, dllm_error* err) {
      return dllm_decoder_run(get(), fn, data, handle_of(task), err);
    });
  }

  // Runs steps within the budget. The budget may end inside a step; the next call continues that
  // step. Returns the number of slots with open positions.
  template <class Rep, class Period>
  int64_t step_for(std::chrono::duration<Rep, Period> budget, const Task* task = nullptr) {
    const std::chrono::duration<double, std::milli> ms = budget;
    return number<int64_t>([&](int64_t* out, dllm_error* err) {
      return dllm_decoder_step_for(get(), ms.count(), nullptr, nullptr, handle_of(task), out, err);
    });
  }
  template <class Rep, class Period, std::invocable<const Event&> F>
  int64_t step_for(std::chrono::duration<Rep, Period> budget, F&& f, const Task* task = nullptr) {
    const std::chrono::duration<double, std::milli> ms = budget;
    int64_t active = 0;
    call_with(f, [&](dllm_event_fn fn, void* data, dllm_error* err) {
      return dllm_decoder_step_for(get(), ms.count(), fn, data, handle_of(task), &active, err);
    });
    return active;
  }
  // Returns true while a step of step_for is suspended.
  bool is_suspended() const { return metric("suspended") != 0; }

  // Steps as a range: for (int64_t active : decoder.steps()). Each turn of the loop runs one step
  // first. The loop ends when no position is open.
  class Steps {
  public:
    class Iterator {
    public:
      using iterator_category = std::input_iterator_tag;
      using value_type = int64_t;
      using difference_type = std::ptrdiff_t;
      using pointer = const int64_t*;
      using reference = int64_t;
      Iterator(Decoder* decoder, const Task* task) : decoder_(decoder), task_(task) { take(); }
      int64_t operator*() const noexcept { return active_; }
      Iterator& operator++() {
        if (active_ == 0) {
          decoder_ = nullptr;
        } else {
          take();
        }
        return *this;
      }
      void operator++(int) { ++*this; }
      bool operator==(std::default_sentinel_t) const noexcept { return decoder_ == nullptr; }

    private:
      void take() { active_ = decoder_->step(task_); }
      Decoder* decoder_;
      const Task* task_;
      int64_t active_ = 0;
    };
    Steps(Decoder* decoder, const Task* task) : decoder_(decoder), task_(task) {}
    Iterator begin() const { return Iterator(decoder_, task_); }
    std::default_sentinel_t end() const noexcept { return {}; }

  private:
    Decoder* decoder_;
    const Task* task_;
  };
  Steps steps(const Task* task = nullptr) { return Steps(this, task); }

  std::vector<int32_t> ids(int64_t slot = 0) const {
    return array<int32_t>([&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
      return dllm_decoder_ids(get(), slot, dst, room, count, err);
    });
  }
  // Returns DLLM_MASKED to DLLM_FIXED for each position.
  std::vector<uint8_t> states(int64_t slot = 0) const {
    return array<uint8_t>([&](uint8_t* dst, int64_t room, int64_t* count, dllm_error* err) {
      return dllm_decoder_states(get(), slot, dst, room, count, err);
    });
  }
  std::vector<float> confidence(int64_t slot = 0) const {
    return array<float>([&](float* dst, int64_t room, int64_t* count, dllm_error* err) {
      return dllm_decoder_confidence(get(), slot, dst, room, count, err);
    });
  }
  double metric(std::string_view key, int64_t slot = -1) const {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_decoder_metric(get(), slot, zero_ended(key).c_str(), out, err);
    });
  }
  // Returns the trace as JSON lines. Needs option trace = 1.
  std::string trace(int64_t slot = 0) const {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_decoder_trace(get(), slot, out, err);
    });
  }
  std::string describe() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_decoder_describe(get(), out, err); });
  }

  // These three functions let the host decide: predict, then statistics and commit for each slot.
  // They are experimental and may change between versions.
  void predict(const Task* task = nullptr) {
    call([&](dllm_error* err) { return dllmx_decoder_predict(get(), handle_of(task), err); });
  }
  Batch statistics(int64_t slot = 0) const {
    return Batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
      return dllmx_decoder_statistics(get(), slot, out, err);
    }));
  }
  void commit(int64_t slot, std::span<const int64_t> positions, std::span<const int32_t> ids) {
    if (positions.size() != ids.size())
      raise(Error(DLLM_INVALID_ARGUMENT, std::to_string(positions.size()) + " positions and " +
                                             std::to_string(ids.size()) + " ids"));
    call([&](dllm_error* err) {
      return dllmx_decoder_commit(get(), slot, positions.data(), ids.data(), size_of(ids.size()),
                                  err);
    });
  }

private:
  int64_t add(std::span<const int32_t> canvas, const uint8_t* fixed, const Settings& settings) {
    return settings.with("slot", [&](const dllm_options* opts) {
      return number<int64_t>([&](int64_t* out, dllm_error* err) {
        return dllm_decoder_add(get(), canvas.data(), fixed, size_of(canvas.size()), opts, out,
                                err);
      });
    });
  }
};

} // namespace api
} // namespace dllm
#endif
