#pragma once
// Chooses the request of a queue that is decoded next, so that no client waits for another one's
// many requests.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dllm::generate {

// The highest priority goes first. Within a priority the clients share the decoder by cost: the
// client whose requests had the least so far is next, and its oldest request is taken (start-time
// fair queueing, Goyal, Vin and Cheng 1996). A client that was idle gets no credit for that time.
class FairOrder {
public:
  // cost: what decoding takes, in any unit. REQUIRES: numbers grow from call to call.
  void add(int64_t number, int64_t priority, const std::string& client, double cost);
  // Returns false if the request does not wait.
  bool remove(int64_t number);
  // Removes the next request and returns its number; nothing if none waits.
  std::optional<int64_t> take();
  size_t size() const { return waiting_.size(); }

private:
  struct Waiting {
    int64_t priority;
    std::string client;
    double cost;
  };
  // Returns the time at which the next request of a client starts, in units of cost.
  double start_of(const std::string& client) const;
  void forget_idle();

  std::map<int64_t, Waiting> waiting_; // by number, so the oldest comes first
  std::map<std::string, double> busy_until_;
  double now_ = 0; // start of the request that was taken last
};

} // namespace dllm::generate
