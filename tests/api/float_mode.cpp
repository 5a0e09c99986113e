// The numbers are the same whatever mode of rounding the calling thread has set, and the thread has
// that mode afterwards.

#include "world.h"

#include "dllm/dllm.hpp"

#include <cfenv>
#include <vector>

namespace {

std::vector<float> decoded(const dllm::Model& model) {
  dllm::Decoder decoder(model, {{"steps", 4}, {"gen_length", 24}, {"temperature", 0.5}});
  const std::vector<int32_t> prompt = {5, 6, 7};
  decoder.start(prompt, 11);
  while (decoder.step() > 0) {
  }
  return decoder.confidence();
}

void test_modes(const dllm::Model& model) {
  const std::vector<float> expected = decoded(model);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CHECK(std::fesetround(mode) == 0);
    const std::vector<float> found = decoded(model);
    CHECK(std::fegetround() == mode);
    std::fesetenv(FE_DFL_ENV);
    CHECK(found == expected);
  }
}

} // namespace

int main() {
  for (const int64_t threads : {1, 2}) {
    world w{};
    open_world(&w, threads);
    {
      const dllm::Model model(make_model(w.engine, w.tok, 32, 2, w.err));
      test_modes(model);
    }
    close_world(&w);
  }
  return failures != 0;
}
