#pragma once
// A ticket is a request of a queue, as the threads see it that ask for its text.

#include "base/error.h"
#include "base/json.h"
#include "decode/trace/published.h"
#include "generate/request_text.h"
#include "generate/text_request.h"
#include "text/tokenizer.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace dllm::generate {

enum class TicketPhase { waiting, decoding, over };

// The lock of the queue guards all members but `text`.
struct Ticket {
  using Clock = std::chrono::steady_clock;

  Ticket(const std::shared_ptr<const text::Tokenizer>& tokenizer,
         std::shared_ptr<const TextRequest> what, int64_t mask);

  bool is_open() const { return phase != TicketPhase::over; }
  bool is_late(Clock::time_point now) const { return deadline && now >= *deadline; }
  double seconds_waited() const; // before its first step
  double seconds() const;        // from the submission to the end, or until now
  Json describe() const;         // these numbers, phase, version, priority and client

  std::shared_ptr<const TextRequest> request;
  TicketPhase phase = TicketPhase::waiting;
  int64_t version = 0;
  std::string client;
  int64_t priority = 0;
  Clock::time_point submitted = Clock::now();
  std::optional<Clock::time_point> deadline, began, first_text, ended;
  double timeout = 0;                   // seconds; 0: none
  decode::RequestCopyRef copy;          // of the last complete step
  std::shared_ptr<const Error> failure; // null: none

  std::mutex text_mutex; // of text; taken before the lock of the queue
  RequestText text;
};

// Returns the seconds between two times.
double between(Ticket::Clock::time_point from, Ticket::Clock::time_point to);

} // namespace dllm::generate
