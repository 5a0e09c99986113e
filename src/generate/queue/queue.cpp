#include "generate/queue/queue.h"

#include "base/error.h"
#include "base/threads/float_mode.h"
#include "base/threads/forked_thread.h"
#include "decode/trace/published.h"
#include "generate/generator.h"
#include "generate/queue/durations.h"
#include "generate/queue/fair_order.h"
#include "generate/queue/ticket.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace dllm::generate {
namespace {

using Clock = Ticket::Clock;
using TicketRef = std::shared_ptr<Ticket>;
constexpr std::chrono::milliseconds kCheck{10}; // between two looks at the task of a waiting call
// How long an idle queue waits for requests that join the first one: this part of the time that the
// last request was decoded, and at most so long. Clients that got their answers together ask again
// together, and a request that begins a step late needs passes of its own to its end.
constexpr int kGatheredPart = 64;
constexpr Clock::duration kMostGather = std::chrono::milliseconds(5);

std::shared_ptr<const Error> late_error(double seconds) {
  return std::make_shared<const Error>(
      Code::deadline_exceeded,
      fmt::format("the request was not over after its timeout of {} seconds", seconds),
      "set a longer timeout, or a smaller length");
}

} // namespace

// The state is on the heap, because a forked child must not destroy it: the thread of the parent
// may hold its lock.
struct Queue::State {
  // Counts of all requests since the queue was made.
  struct Totals {
    int64_t submitted = 0, completed = 0, failed = 0, cancelled = 0, late = 0;
    int64_t prompt_tokens = 0, completion_tokens = 0, nfe = 0; // of requests that are over
    int64_t steps = 0;                                         // of all requests together
    double seconds = 0;                                        // in these steps
    // Of requests that are over, since they were submitted: until the first step, until the first
    // final text, until the end.
    Durations waiting, first_text, whole;

    void count_end(const Ticket& ticket);
    Json to_json() const;
    Json durations() const;
  };

  State(std::shared_ptr<model::Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
        const Options& options, Around given)
      : generator(std::move(model), std::move(tokenizer), generator_options(options)),
        reader(generator.reader()), slots(options.i64("slots")),
        most_waiting(options.i64("waiting")), most_kept(options.i64("kept")),
        around(std::move(given)) {}

  // The calls of the queue.
  int64_t submit(const Options& request, const Options& how, const Task* task);
  Progress wait(int64_t number, int64_t seen, std::chrono::milliseconds most, const Task* task);
  TicketRef find(int64_t number);
  // Takes the last canvas into the text of a ticket, and returns the keys of a ticket as they were
  // with that canvas. REQUIRES: the lock of its text.
  Json follow(Ticket& ticket);
  Json describe(Ticket& ticket, int64_t number);
  Json describe();
  void cancel(int64_t number);
  void remove(int64_t number);
  void drain(const Task* task);

  // The thread of the queue. The calls below without a comment REQUIRE the lock.
  void stop_late();
  int64_t open_count() const { return std::ssize(tickets) - std::ssize(over); }
  void end(int64_t number, std::shared_ptr<const Error> error); // null: it was decoded
  Clock::duration gather_time() const;
  bool all_are_over() const; // of the requests that are decoded
  void cut_step();           // cancels the step when all of its requests are over
  std::vector<std::pair<int64_t, TicketRef>> take_waiting();
  std::optional<int64_t> last_deadline() const;
  // These take the lock themselves:
  void work();
  bool wait_for_work(); // returns false when the queue is destroyed
  void turn();
  void leave_slots();
  void join(const std::vector<std::pair<int64_t, TicketRef>>& joining);
  void take_step();
  void publish();
  void fail_all(const std::shared_ptr<const Error>& error);

  Generator generator; // of the thread alone
  const std::shared_ptr<const RequestReader> reader;
  const int64_t slots, most_waiting, most_kept;
  const Around around;                // may be empty
  std::map<int64_t, int64_t> slot_of; // of the thread alone: ticket to number in the generator

  std::mutex mutex;
  std::condition_variable wake, changed;
  std::map<int64_t, TicketRef> tickets;
  FairOrder order;
  std::vector<int64_t> over; // oldest first
  int64_t next_number = 0, changes = 0;
  bool is_draining = false, is_stopping = false;
  Task* step_task = nullptr;        // of the step that runs
  Clock::duration last_decoding{0}; // of the last request that was decoded to its end
  Totals totals;

  const pid_t process = ::getpid();
  std::thread thread; // the last member
};

void Queue::State::Totals::count_end(const Ticket& ticket) {
  waiting.add(ticket.seconds_waited());
  if (ticket.first_text) first_text.add(between(ticket.submitted, *ticket.first_text));
  whole.add(ticket.seconds());
  const Error* error = ticket.failure.get();
  if (error == nullptr)
    ++completed;
  else if (error->code() == Code::cancelled)
    ++cancelled;
  else if (error->code() == Code::deadline_exceeded)
    ++late;
  else
    ++failed;
}

Json Queue::State::Totals::to_json() const {
  return {{"submitted", submitted},
          {"completed", completed},
          {"failed", failed},
          {"cancelled", cancelled},
          {"late", late},
          {"prompt_tokens", prompt_tokens},
          {"completion_tokens", completion_tokens},
          {"nfe", nfe},
          {"steps", steps},
          {"step_seconds", seconds}};
}

Json Queue::State::Totals::durations() const {
  return {{"waiting", waiting.to_json()},
          {"first_text", first_text.to_json()},
          {"whole", whole.to_json()}};
}

int64_t Queue::State::submit(const Options& request, const Options& how, const Task* task) {
  const auto read = reader->read(request, task);
  const auto ticket =
      std::make_shared<Ticket>(reader->tokenizer(), read, reader->model()->config().mask_token_id);
  ticket->client = how.str("client");
  ticket->priority = how.i64("priority");
  ticket->timeout = how.f64("timeout");
  if (ticket->timeout > 0) {
    ticket->deadline = ticket->submitted + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(ticket->timeout));
  }
  const std::lock_guard lock(mutex);
  if (is_draining || is_stopping) fail(Code::unavailable, "the queue takes no further requests");
  if (open_count() >= most_waiting + slots) {
    fail_with_hint("try again later, or set option waiting to a larger number",
                   Code::resource_exhausted, "{} requests are not over, and the queue takes {}",
                   open_count(), most_waiting + slots);
  }
  const int64_t number = next_number++;
  ticket->version = 1;
  tickets.emplace(number, ticket);
  order.add(number, ticket->priority, ticket->client, static_cast<double>(1 + ticket->copy->open));
  ++totals.submitted;
  ++changes;
  wake.notify_all();
  changed.notify_all();
  return number;
}

TicketRef Queue::State::find(int64_t number) {
  const auto found = tickets.find(number);
  if (found == tickets.end()) fail(Code::not_found, "there is no request {}", number);
  return found->second;
}

Queue::Progress Queue::State::wait(int64_t number, int64_t seen, std::chrono::milliseconds most,
                                   const Task* task) {
  const auto until = Clock::now() + most;
  std::unique_lock lock(mutex);
  for (;;) {
    const TicketRef ticket = number == -1 ? nullptr : find(number);
    const int64_t version = ticket == nullptr ? changes : ticket->version;
    const bool is_last = ticket != nullptr && !ticket->is_open();
    const auto now = Clock::now();
    if (version > seen || is_last || now >= until) return {version, is_last};
    changed.wait_until(lock, std::min(until, now + kCheck));
    check_task(task);
  }
}

Json Queue::State::follow(Ticket& ticket) {
  Json now;
  decode::RequestCopyRef copy;
  std::shared_ptr<const Error> failure;
  {
    const std::lock_guard lock(mutex);
    copy = ticket.copy;
    failure = ticket.failure;
    now = ticket.describe();
  }
  ticket.text.update(std::move(copy));
  if (failure != nullptr) ticket.text.fail(std::move(failure));
  return now;
}

Json Queue::State::describe(Ticket& ticket, int64_t number) {
  const std::lock_guard text_lock(ticket.text_mutex);
  const Json now = follow(ticket);
  Json made = ticket.text.describe(number);
  made.update(now);
  return made;
}

Json Queue::State::describe() {
  const std::shared_ptr<decode::Decoder>& decoder = generator.decoder();
  Json made{{"policy", reader->choice().policy},
            {"reason", reader->choice().reason},
            {"own_policy", choose_policy(*reader->model()).policy},
            {"slots", slots},
            {"cache_bytes", static_cast<int64_t>(decoder->metric(-1, "cache_bytes"))},
            {"launches", static_cast<int64_t>(decoder->metric(-1, "launches"))},
            {"computed", static_cast<int64_t>(decoder->metric(-1, "computed"))},
            {"reused", static_cast<int64_t>(decoder->metric(-1, "reused"))}};
  const std::lock_guard lock(mutex);
  made["waiting"] = order.size();
  made["over"] = over.size();
  made["decoding"] = tickets.size() - order.size() - over.size();
  made["version"] = changes;
  made["totals"] = totals.to_json();
  made["durations"] = totals.durations();
  return made;
}

// A request that is over leaves the decoder before the next step, if it is there.
void Queue::State::end(int64_t number, std::shared_ptr<const Error> error) {
  Ticket& ticket = *tickets.at(number);
  order.remove(number);
  ticket.failure = std::move(error);
  ticket.phase = TicketPhase::over;
  ticket.ended = Clock::now();
  if (ticket.began && ticket.failure == nullptr) last_decoding = *ticket.ended - *ticket.began;
  ++ticket.version;
  ++changes;
  totals.count_end(ticket);
  over.push_back(number);
  if (std::ssize(over) > most_kept) {
    tickets.erase(over.front());
    over.erase(over.begin());
  }
  changed.notify_all();
}

Clock::duration Queue::State::gather_time() const {
  return std::min(kMostGather, last_decoding / kGatheredPart);
}

bool Queue::State::all_are_over() const {
  return std::ranges::none_of(
      tickets, [](const auto& row) { return row.second->phase == TicketPhase::decoding; });
}

void Queue::State::cut_step() {
  if (step_task != nullptr && all_are_over()) step_task->cancel();
}

void Queue::State::cancel(int64_t number) {
  const std::lock_guard lock(mutex);
  if (!find(number)->is_open()) return;
  end(number, std::make_shared<const Error>(Code::cancelled, "the request was cancelled"));
  cut_step();
  wake.notify_all();
}

void Queue::State::remove(int64_t number) {
  cancel(number);
  const std::lock_guard lock(mutex);
  tickets.erase(number);
  std::erase(over, number);
}

void Queue::State::drain(const Task* task) {
  std::unique_lock lock(mutex);
  is_draining = true;
  while (open_count() > 0) {
    changed.wait_for(lock, kCheck);
    check_task(task);
  }
}

void Queue::State::stop_late() {
  const auto now = Clock::now();
  std::vector<int64_t> late;
  for (const auto& [number, ticket] : tickets) {
    if (ticket->is_open() && ticket->is_late(now)) late.push_back(number);
  }
  for (const int64_t number : late) end(number, late_error(tickets.at(number)->timeout));
}

std::vector<std::pair<int64_t, TicketRef>> Queue::State::take_waiting() {
  std::vector<std::pair<int64_t, TicketRef>> taken;
  while (std::ssize(slot_of) + std::ssize(taken) < slots) {
    const auto number = order.take();
    if (!number) break;
    const TicketRef ticket = find(*number);
    ticket->phase = TicketPhase::decoding;
    ticket->began = Clock::now();
    taken.emplace_back(*number, ticket);
  }
  return taken;
}

void Queue::State::leave_slots() {
  std::vector<int64_t> leaving;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [number, slot] : slot_of) {
      const auto found = tickets.find(number);
      if (found == tickets.end() || !found->second->is_open()) leaving.push_back(number);
    }
  }
  for (const int64_t number : leaving) {
    generator.remove(slot_of.at(number));
    slot_of.erase(number);
  }
}

void Queue::State::join(const std::vector<std::pair<int64_t, TicketRef>>& joining) {
  for (const auto& [number, ticket] : joining) {
    try {
      slot_of.emplace(number, generator.add(ticket->request));
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      if (ticket->is_open()) end(number, std::make_shared<const Error>(error));
    }
  }
}

// Ends the requests that are decoded, also one that did not get as far as the generator.
void Queue::State::fail_all(const std::shared_ptr<const Error>& error) {
  const std::lock_guard lock(mutex);
  std::vector<int64_t> failed;
  for (const auto& [number, ticket] : tickets) {
    if (ticket->phase == TicketPhase::decoding) failed.push_back(number);
  }
  for (const int64_t number : failed) end(number, error);
}

void Queue::State::take_step() {
  Task task;
  {
    const std::lock_guard lock(mutex);
    step_task = &task;
    if (const auto until = last_deadline()) task.set_deadline(*until);
    if (is_stopping) task.cancel();
    cut_step(); // all may be over since they were taken
  }
  const auto begin = Clock::now();
  std::shared_ptr<const Error> error;
  try {
    generator.step(&task);
  } catch (const Error& caught) {
    error = std::make_shared<const Error>(caught);
  }
  {
    const std::lock_guard lock(mutex);
    step_task = nullptr;
    ++totals.steps;
    totals.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  // A step that was cut has no error of its own: its requests are over.
  if (error != nullptr && !should_stop(&task)) fail_all(error);
}

// Returns the milliseconds until no request that is decoded has time left; nothing if one of them
// has no deadline.
std::optional<int64_t> Queue::State::last_deadline() const {
  std::optional<int64_t> last;
  const auto now = Clock::now();
  for (const auto& [number, ticket] : tickets) {
    if (ticket->phase != TicketPhase::decoding) continue;
    if (!ticket->deadline) return std::nullopt;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*ticket->deadline - now);
    last = std::max<int64_t>({last.value_or(0), left.count(), 0});
  }
  return last;
}

void Queue::State::publish() {
  for (const auto& [number, slot] : slot_of) {
    RequestText& text = generator.request(slot);
    const int64_t tokens = text.is_over() ? text.completion_tokens() : 0;
    const bool has_text = text.has_final_text();
    const std::lock_guard lock(mutex);
    const auto found = tickets.find(number);
    if (found == tickets.end() || !found->second->is_open()) continue;
    Ticket& ticket = *found->second;
    ticket.copy = text.copy_ref();
    if (!ticket.first_text && has_text) ticket.first_text = Clock::now();
    if (text.is_over()) {
      totals.prompt_tokens += text.prompt_tokens();
      totals.completion_tokens += tokens;
      totals.nfe += ticket.copy->nfe;
      end(number, text.failure());
    } else {
      ++ticket.version;
      ++changes;
    }
  }
  changed.notify_all();
}

void Queue::State::turn() {
  leave_slots();
  std::vector<std::pair<int64_t, TicketRef>> joining;
  {
    const std::lock_guard lock(mutex);
    joining = take_waiting();
  }
  join(joining);
  if (slot_of.empty()) return;
  take_step();
  publish();
}

bool Queue::State::wait_for_work() {
  std::unique_lock lock(mutex);
  wake.wait(lock, [&] { return is_stopping || order.size() > 0 || !slot_of.empty(); });
  if (slot_of.empty()) {
    wake.wait_for(lock, gather_time(),
                  [&] { return is_stopping || static_cast<int64_t>(order.size()) >= slots; });
  }
  stop_late();
  return !is_stopping;
}

void Queue::State::work() {
  const FloatMode mode;
  while (wait_for_work()) {
    try {
      if (around)
        around([&] { turn(); });
      else
        turn();
    } catch (const Error& error) {
      fail_all(std::make_shared<const Error>(error));
    } catch (const std::exception& error) { // the memory is used up
      fail_all(std::make_shared<const Error>(Code::resource_exhausted, error.what()));
    }
  }
}

Queue::Queue(std::shared_ptr<model::Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
             const Options& options, Around around)
    : state_(std::make_unique<State>(std::move(model), std::move(tokenizer), options,
                                     std::move(around))) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

Queue::~Queue() {
  if (::getpid() != state_->process) {
    forget_thread(state_->thread);
    state_.release(); // the parent's thread may hold its lock
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    if (state_->step_task != nullptr) state_->step_task->cancel();
    state_->wake.notify_all();
  }
  state_->thread.join();
}

Queue::State& Queue::own() const {
  if (::getpid() != state_->process) {
    fail_with_hint("make a queue in this process", Code::failed_precondition,
                   "the thread of the queue is in the process that this one was forked from");
  }
  return *state_;
}

int64_t Queue::submit(const Options& request, const Options& submission, const Task* task) {
  return own().submit(request, submission, task);
}

Queue::Progress Queue::wait(int64_t number, int64_t seen, std::chrono::milliseconds most,
                            const Task* task) const {
  return own().wait(number, seen, most, task);
}

std::string Queue::text(int64_t number, TextPart part) {
  State& state = own();
  const TicketRef ticket = [&] {
    const std::lock_guard lock(state.mutex);
    return state.find(number);
  }();
  const std::lock_guard lock(ticket->text_mutex);
  state.follow(*ticket);
  return ticket->text.text(part);
}

Json Queue::describe(int64_t number) {
  State& state = own();
  const TicketRef ticket = [&] {
    const std::lock_guard lock(state.mutex);
    return state.find(number);
  }();
  return state.describe(*ticket, number);
}

Json Queue::describe() const {
  return own().describe();
}

void Queue::cancel(int64_t number) {
  own().cancel(number);
}

void Queue::remove(int64_t number) {
  own().remove(number);
}

void Queue::drain(const Task* task) {
  own().drain(task);
}

const std::shared_ptr<model::Model>& Queue::model() const {
  return own().reader->model();
}

const std::shared_ptr<const text::Tokenizer>& Queue::tokenizer() const {
  return own().reader->tokenizer();
}

} // namespace dllm::generate
