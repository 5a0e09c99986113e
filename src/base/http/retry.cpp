#include "base/http/retry.h"

#include "base/random.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace dllm::http {

bool is_passing_status(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

double pause_seconds(int attempt, std::string_view name, int64_t process) {
  constexpr double kFirst = 0.25, kLongest = 20;
  Key key = make_key(static_cast<uint64_t>(process));
  for (const char c : name) key = fold_in(key, static_cast<unsigned char>(c));
  const double share = uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(attempt)));
  return std::min(kLongest, kFirst * std::exp2(attempt)) * (0.5 + 0.5 * share);
}

void wait(double seconds, const Task* task) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    check_task(task);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

} // namespace dllm::http
