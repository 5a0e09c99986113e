#include "generate/queue/ticket.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace dllm::generate {
namespace {

// Returns the canvas of a request before its first step. mask: the id at open positions.
decode::RequestCopyRef first_copy(const TextRequest& request, int64_t mask) {
  const Prompt& prompt = request.prompt;
  const auto made = std::make_shared<decode::RequestCopy>();
  made->ids = prompt.canvas;
  made->states.assign(prompt.canvas.size(), decode::State::fixed);
  for (size_t i = 0; i < prompt.fixed.size(); ++i) {
    if (prompt.fixed[i] == 0) made->states[i] = decode::State::masked;
  }
  if (prompt.fixed.empty()) {
    const size_t length =
        made->ids.size() + static_cast<size_t>(request.decoding.i64("gen_length"));
    made->ids.resize(length);
    made->states.resize(length, decode::State::masked);
  }
  made->confidence.assign(made->ids.size(), 1);
  for (size_t i = 0; i < made->ids.size(); ++i) {
    if (made->states[i] != decode::State::masked) continue;
    made->ids[i] = static_cast<int32_t>(mask);
    made->confidence[i] = 0;
    ++made->open;
  }
  return made;
}

const char* phase_name(TicketPhase phase) {
  switch (phase) {
  case TicketPhase::waiting: return "waiting";
  case TicketPhase::decoding: return "decoding";
  case TicketPhase::over: break;
  }
  return "over";
}

} // namespace

double between(Ticket::Clock::time_point from, Ticket::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Ticket::Ticket(const std::shared_ptr<const text::Tokenizer>& tokenizer,
               std::shared_ptr<const TextRequest> what, int64_t mask)
    : request(std::move(what)), copy(first_copy(*request, mask)), text(tokenizer, request) {}

double Ticket::seconds_waited() const {
  return between(submitted, began ? *began : ended ? *ended : Clock::now());
}

double Ticket::seconds() const {
  return between(submitted, ended ? *ended : Clock::now());
}

Json Ticket::describe() const {
  return {{"phase", phase_name(phase)},
          {"version", version},
          {"priority", priority},
          {"client", client},
          {"seconds_waited", seconds_waited()},
          {"seconds", seconds()}};
}

} // namespace dllm::generate
