// Answers over the canvases of every policy, and calls of a host that are wrong.

#include "world.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRoom = 64;

struct Canvas {
  std::vector<int32_t> ids;
  std::vector<uint8_t> states;
  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

Canvas canvas_of(const dllm_decoder* decoder, dllm_error* err) {
  Canvas canvas{std::vector<int32_t>(kRoom), std::vector<uint8_t>(kRoom)};
  int64_t count = 0;
  NEED(dllm_decoder_ids(decoder, 0, canvas.ids.data(), kRoom, &count, err), err);
  NEED(dllm_decoder_states(decoder, 0, canvas.states.data(), kRoom, &count, err), err);
  canvas.ids.resize(static_cast<size_t>(count));
  canvas.states.resize(static_cast<size_t>(count));
  return canvas;
}

std::string content(const dllm_buffer* buffer) {
  return {static_cast<const char*>(dllm_buffer_data(buffer)),
          static_cast<size_t>(dllm_buffer_size(buffer))};
}

dllm_answer* make_answer(const world& w, const char* json) {
  dllm_answer* answer = nullptr;
  dllm_options* opts = make_options("answer", json, w.err);
  NEED(dllm_answer_new(w.tok, opts, &answer, w.err), w.err);
  dllm_options_release(opts);
  return answer;
}

// A final or fixed position keeps its token, as dllm/answer.h says.
void check_final(const Canvas& before, const Canvas& now) {
  CHECK(before.size() == now.size());
  for (size_t i = 0; i < before.ids.size() && i < now.ids.size(); ++i) {
    if (before.states[i] < DLLM_FINAL) continue;
    CHECK(now.states[i] >= DLLM_FINAL && now.ids[i] == before.ids[i]);
  }
}

void follow_policy(const world& w, const std::string& policy) {
  dllm_decoder* decoder = nullptr;
  const std::string json =
      "{\"steps\": 8, \"gen_length\": 16, \"block_length\": 8, \"temperature\": 1}";
  dllm_options* opts = make_options(("decoder:" + policy).c_str(), json.c_str(), w.err);
  NEED(dllm_decoder_new(w.model, opts, &decoder, w.err), w.err);
  const std::array<int32_t, 2> prompt{260, 261};
  NEED(dllm_decoder_start(decoder, prompt.data(), 2, 3, w.err), w.err);
  dllm_answer* answer = make_answer(w, R"({"begin": 2, "end_tokens": false})");
  dllm_buffer* text = dllm_buffer_new();
  std::string shown;
  int32_t end = DLLM_ANSWER_OPEN;
  Canvas canvas = canvas_of(decoder, w.err);
  for (int64_t active = 1; active > 0;) {
    NEED(dllm_decoder_step(decoder, nullptr, &active, w.err), w.err);
    const Canvas before = canvas;
    canvas = canvas_of(decoder, w.err);
    check_final(before, canvas);
    NEED(dllm_answer_update(answer, canvas.ids.data(), canvas.states.data(), canvas.size(), &end,
                            w.err),
         w.err);
    NEED(dllm_answer_next(answer, text, w.err), w.err);
    shown += content(text);
  }
  CHECK(end == DLLM_ANSWER_FULL);
  NEED(dllm_answer_text(answer, text, w.err), w.err);
  CHECK(shown == content(text) && !shown.empty());
  if (shown != content(text)) std::printf("# %s\n", policy.c_str());
  dllm_buffer_release(text);
  dllm_answer_release(answer);
  dllm_decoder_release(decoder);
  dllm_options_release(opts);
}

void test_policies(const world& w) {
  int64_t followed = 0;
  for (int64_t i = 0; const char* name = dllm_registry_name("policy", i); ++i) {
    const std::string policy = name;
    const auto models_of_their_own = {"cola", "diffusion_gemma", "editflow", "embedding", "latent"};
    if (std::ranges::find(models_of_their_own, policy) != models_of_their_own.end()) continue;
    follow_policy(w, policy);
    ++followed;
  }
  CHECK(followed > 20);
}

void test_cells(const world& w) {
  dllm_answer* answer = make_answer(w, R"({"begin": -1})");
  dllm_buffer* text = dllm_buffer_new();
  const std::array<int32_t, 4> ids{'a', 0xC3, 0xA9, 'b'}; // ids of bytes in a trained tokenizer
  std::array<int32_t, 4> own{};
  const char* words[] = {"a", "\xC3\xA9", "b"};
  int64_t used = 0;
  for (const char* word : words) {
    int64_t count = 0;
    NEED(dllm_tokenizer_encode(w.tok, word, static_cast<int64_t>(std::strlen(word)),
                               own.data() + used, 4 - used, &count, w.err),
         w.err);
    used += count;
  }
  CHECK(used == static_cast<int64_t>(ids.size()));
  const std::array<uint8_t, 4> states{DLLM_FIXED, DLLM_FINAL, DLLM_PROVISIONAL, DLLM_MASKED};
  NEED(dllm_answer_update(answer, own.data(), states.data(), 4, nullptr, w.err), w.err);
  std::array<int64_t, 4> ends{};
  int64_t count = 0;
  CHECK(dllm_answer_cells(answer, text, ends.data(), 3, &count, w.err) == DLLM_OUT_OF_RANGE);
  CHECK(count == 4 && content(text).empty());
  NEED(dllm_answer_cells(answer, text, ends.data(), 4, &count, w.err), w.err);
  CHECK(content(text) == "a\xC3\xA9");
  CHECK((ends == std::array<int64_t, 4>{1, 3, 3, 3}));
  dllm_buffer_release(text);
  dllm_answer_release(answer);
}

void test_wrong_calls(const world& w) {
  dllm_answer* answer = make_answer(w, R"({"begin": 1})");
  dllm_buffer* text = dllm_buffer_new();
  const std::array<int32_t, 2> ids{260, 261};
  const std::array<uint8_t, 2> states{DLLM_FIXED, DLLM_FINAL}, bad{DLLM_FIXED, 4};
  const auto update = [&](const uint8_t* how, int64_t count) {
    return dllm_answer_update(answer, ids.data(), how, count, nullptr, w.err);
  };
  CHECK(update(nullptr, 2) == DLLM_INVALID_ARGUMENT);
  CHECK(update(states.data(), -1) == DLLM_INVALID_ARGUMENT);
  CHECK(update(bad.data(), 2) == DLLM_INVALID_ARGUMENT);
  CHECK(std::string(dllm_error_message(w.err)) == "states[1] is 4");
  NEED(update(states.data(), 2), w.err);
  // A call without a buffer takes no text.
  CHECK(dllm_answer_next(answer, nullptr, w.err) == DLLM_INVALID_ARGUMENT);
  NEED(dllm_answer_next(answer, text, w.err), w.err);
  CHECK(dllm_buffer_size(text) > 0);
  NEED(dllm_answer_next(answer, text, w.err), w.err);
  CHECK(dllm_buffer_size(text) == 0);
  dllm_answer* other = nullptr;
  dllm_options* opts = make_options("tokenizer", nullptr, w.err);
  CHECK(dllm_answer_new(w.tok, opts, &other, w.err) == DLLM_INVALID_ARGUMENT);
  dllm_options_release(opts);
  CHECK(dllm_answer_new(nullptr, nullptr, &other, w.err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_answer_new(w.tok, nullptr, nullptr, w.err) == DLLM_INVALID_ARGUMENT);
  CHECK(other == nullptr);
  dllm_answer_release(answer);
  dllm_answer_release(nullptr);
  dllm_buffer_release(text);
}

// An answer keeps its tokenizer.
void test_lifetime(world& w) {
  dllm_answer* answer = make_answer(w, nullptr);
  dllm_buffer* text = dllm_buffer_new();
  int32_t id = -1;
  const uint8_t state = DLLM_FINAL;
  NEED(dllm_tokenizer_id(w.tok, "a", &id, w.err), w.err);
  dllm_tokenizer_release(w.tok);
  w.tok = nullptr;
  NEED(dllm_answer_update(answer, &id, &state, 1, nullptr, w.err), w.err);
  NEED(dllm_answer_text(answer, text, w.err), w.err);
  CHECK(content(text) == "a");
  dllm_buffer_release(text);
  dllm_answer_release(answer);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  test_policies(w);
  test_cells(w);
  test_wrong_calls(w);
  test_lifetime(w);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
