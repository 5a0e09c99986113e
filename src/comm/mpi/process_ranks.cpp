#include "comm/mpi/process_ranks.h"

#include "comm/message_ranks.h"
#include "comm/mpi/library.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace dllm::comm {
namespace {

// The machine, process and processors of a rank.
struct Place {
  std::array<char, 64> host{};
  int64_t process = 0;
  cpu_set_t processors{};
};

Place own_place() {
  Place place;
  ::gethostname(place.host.data(), place.host.size() - 1);
  place.process = ::getpid();
  CPU_ZERO(&place.processors);
  ::sched_getaffinity(0, sizeof place.processors, &place.processors);
  return place;
}

std::vector<Place> all_places(Communicator& communicator) {
  std::vector<int64_t> ranks(static_cast<size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), int64_t{0});
  std::vector<Place> places(ranks.size());
  const Place own = own_place();
  communicator.all_gather(ranks, &own, places.data(), sizeof own, nullptr);
  return places;
}

bool exists(int64_t process) {
  return ::kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

// Returns the other ranks of this machine whose processes are visible. A process in another
// container is not visible.
std::vector<size_t> seen_from_here(const std::vector<Place>& places, int64_t rank) {
  std::vector<size_t> seen;
  for (size_t r = 0; r < places.size(); ++r) {
    const bool here = places[r].host == places[static_cast<size_t>(rank)].host;
    if (here && static_cast<int64_t>(r) != rank && exists(places[r].process)) seen.push_back(r);
  }
  return seen;
}

int64_t on_same_processors(const std::vector<Place>& places, int64_t rank) {
  const Place& own = places[static_cast<size_t>(rank)];
  return std::ranges::count_if(places, [&](const Place& place) {
    return place.host == own.host && CPU_EQUAL(&place.processors, &own.processors) != 0;
  });
}

} // namespace

std::shared_ptr<Communicator> make_process_rank() {
  return make_process_link().communicator;
}

ProcessLink make_process_link() {
  static std::atomic<int32_t> channels{0};
  const int32_t channel = channels.fetch_add(2);
  auto rank = std::make_shared<MessageRank>(open_mpi(), channel);
  const std::vector<Place> places = all_places(*rank);
  const auto find_ended = [places, seen = seen_from_here(places, rank->rank())]() -> std::string {
    const auto gone =
        std::ranges::find_if(seen, [&](size_t r) { return !exists(places[r].process); });
    if (gone == seen.end()) return "";
    return fmt::format("rank {} (process {} on {}) has ended, and other ranks wait for it", *gone,
                       places[*gone].process, places[*gone].host.data());
  };
  rank->watch_processes(find_ended);
  if (on_same_processors(places, rank->rank()) >
      CPU_COUNT(&places[static_cast<size_t>(rank->rank())].processors))
    rank->share_processor();
  return {rank, std::make_shared<KeyValueStore>(open_mpi(), channel + 1, find_ended)};
}

int64_t processes_on_same_processors(Communicator& communicator) {
  return on_same_processors(all_places(communicator), communicator.rank());
}

} // namespace dllm::comm
