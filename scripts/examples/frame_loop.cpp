// A frame loop that decodes: each frame spends a budget of milliseconds on the model, then draws. At the end it prints by
// how much the longest slice went over the budget, and whether the tokens are those of a run without slices.
//
//   c++ -std=c++20 frame_loop.cpp $(pkg-config --cflags --libs dllm) -o frame_loop           draws into the terminal
//   c++ -std=c++20 -DFRAME_LOOP_SDL frame_loop.cpp $(pkg-config --cflags --libs dllm sdl2) -o frame_loop      in a window
//   ./frame_loop [BUDGET_MS [MODEL]]     default: 2 ms and a small model with random weights
#include <dllm/dllm.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef FRAME_LOOP_SDL
#include <SDL.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// What the events have said: a token for each decided position, -1 for an open one.
using Canvas = std::vector<int32_t>;

#ifdef FRAME_LOOP_SDL
class Screen {
public:
  Screen() {
    if (SDL_Init(SDL_INIT_VIDEO) != 0) fail();
    window_ =
        SDL_CreateWindow("dllm", SDL_WINDOWPOS_UNDEFINED, SDL_WINDOWPOS_UNDEFINED, 800, 200, 0);
    if (window_ == nullptr) fail();
    renderer_ = SDL_CreateRenderer(window_, -1, 0);
    if (renderer_ == nullptr) fail();
  }
  ~Screen() {
    SDL_DestroyRenderer(renderer_);
    SDL_DestroyWindow(window_);
    SDL_Quit();
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // A square for each position: grey while it is open, then in the colour of its token. False: the window was closed.
  bool draw(const Canvas& canvas) {
    for (SDL_Event event; SDL_PollEvent(&event) != 0;)
      if (event.type == SDL_QUIT) return false;
    SDL_SetRenderDrawColor(renderer_, 20, 20, 30, 255);
    SDL_RenderClear(renderer_);
    for (int i = 0; i < static_cast<int>(canvas.size()); ++i) {
      const uint32_t mixed = static_cast<uint32_t>(canvas[static_cast<size_t>(i)]) * 2654435761U;
      const bool open = canvas[static_cast<size_t>(i)] < 0;
      const auto part = [&](int shift) {
        return open ? Uint8{70} : static_cast<Uint8>(mixed >> shift | 64);
      };
      SDL_SetRenderDrawColor(renderer_, part(8), part(16), part(24), 255);
      const SDL_Rect square = {10 + i % 32 * 24, 10 + i / 32 * 24, 20, 20};
      SDL_RenderFillRect(renderer_, &square);
    }
    SDL_RenderPresent(renderer_);
    return true;
  }
  void wait() { SDL_Delay(8); } // the rest of the frame

private:
  [[noreturn]] static void fail() {
    std::fprintf(stderr, "SDL: %s\n", SDL_GetError());
    std::exit(1);
  }
  SDL_Window* window_ = nullptr;
  SDL_Renderer* renderer_ = nullptr;
};
#else
class Screen {
public:
  bool draw(const Canvas& canvas) {
    const auto open = std::count(canvas.begin(), canvas.end(), -1);
    if (open == last_) return true;
    last_ = open;
    for (const int32_t token : canvas) std::putchar(token < 0 ? '.' : '#');
    std::putchar('\n');
    return true;
  }
  void wait() {} // a game draws and waits for the display here

private:
  std::ptrdiff_t last_ = -1;
};
#endif

constexpr char kSmall[] =
    R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 384,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128,
  "dllm": {"attention": "bidirectional", "mask_token_id": 3}})";

dllm::Decoder start(const dllm::Model& model) {
  dllm::Decoder decoder(model, {{"steps", 16}, {"gen_length", 64}, {"temperature", 0.7}});
  decoder.start({}, 7);
  return decoder;
}

void redraw(const dllm::Event& event, Canvas& canvas) {
  if (event.kind() != DLLM_EVENT_DECODE_STEP) return;
  const auto ids = event.i32s("ids");
  canvas.resize(ids.size(), -1);
  for (const int32_t at : event.i32s("changed")) {
    const auto i = static_cast<size_t>(at);
    canvas[i] = ids[i];
  }
}

int play(double budget, const dllm::Model& model) {
  dllm::Decoder decoder = start(model);
  Screen screen;
  Canvas canvas(decoder.ids().size(), -1);
  double longest = 0;
  int64_t frames = 0;
  for (int64_t active = 1; active > 0; ++frames) {
    const auto begin = Clock::now();
    active = decoder.step_for(Milliseconds(budget),
                              [&](const dllm::Event& event) { redraw(event, canvas); });
    longest = std::max(longest, Milliseconds(Clock::now() - begin).count());
    if (!screen.draw(canvas)) return 0; // the decoder may be destroyed in the middle of a step
    screen.wait();
  }
  dllm::Decoder whole = start(model);
  whole.run();
  const bool same = whole.ids() == decoder.ids() && canvas == decoder.ids();
  std::printf("%d frames with %.2f ms each; the longest slice took %.2f ms, %.2f over the budget\n",
              static_cast<int>(frames), budget, longest, std::max(0.0, longest - budget));
  std::puts(same ? "the tokens are those of a run without slices"
                 : "the tokens differ from those of a run without slices");
  return same ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 2.0;
  try {
    const dllm::Engine engine;
    return play(budget, argc > 2 ? dllm::Model::load(engine, argv[2])
                                 : dllm::Model::from_config(engine, kSmall));
  } catch (const dllm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
