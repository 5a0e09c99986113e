// Running programs. A result that takes an argument's place has its content and its memory; another
// is a copy of the first argument of its type, or zeros.

#include "calls.h"
#include "guard.h"

namespace fake {
namespace {

std::string number(size_t n) {
  return std::to_string(n);
}

// What real plugins check, in their words; bytes alone, neither type nor shape.
Error* check_arguments(const Compiled& program, abi::Buffer* const* arguments, size_t count,
                       abi::Device* device) {
  if (count != program.arguments.size()) {
    return invalid("Execution supplied " + number(count) +
                   " arguments but compiled program expected " + number(program.arguments.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string which = "Invalid buffer passed to Execute() as argument " + number(i) + ": ";
    if (!State::get().check("buffer", arguments[i], "PJRT_LoadedExecutable_Execute"))
      return invalid(which + "it does not live");
    const abi::Buffer& buffer = *arguments[i];
    if (buffer.storage == nullptr) return invalid(which + "Buffer has been deleted or donated.");
    if (buffer.device != device) return invalid(which + "it is on another device");
    if (buffer.type.bytes() != program.arguments[i].bytes()) {
      return invalid("expected parameter " + number(i) + " of size " +
                     number(program.arguments[i].bytes()) +
                     " but got buffer with incompatible size " + number(buffer.type.bytes()));
    }
    if (!(buffer.type == program.arguments[i]))
      State::get().violation("PJRT_LoadedExecutable_Execute: argument " + number(i) +
                             " has the wrong type or shape, its bits would be reinterpreted");
  }
  return nullptr;
}

Error* check_donated_once(const Compiled& program, abi::Buffer* const* arguments) {
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    if (program.arguments[i].result < 0) continue;
    for (size_t j = 0; j < program.arguments.size(); ++j) {
      if (i == j || arguments[i] != arguments[j]) continue;
      return invalid(
          "Attempt to use a buffer that was previously donated in the same call to Execute()");
    }
  }
  return nullptr;
}

// The memory of each result, before any argument is consumed.
Error* make_results(const Compiled& program, abi::Buffer* const* arguments, abi::Device* device,
                    std::vector<std::shared_ptr<Storage>>* out) {
  out->resize(program.results.size());
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const auto& filled = arguments[i]->storage->filled;
    if (filled) filled->wait();
    if (program.arguments[i].result >= 0)
      (*out)[program.arguments[i].result] = arguments[i]->storage;
  }
  for (size_t r = 0; r < program.results.size(); ++r) {
    if ((*out)[r] != nullptr) continue;
    if (Error* full = allocate(device, program.results[r].bytes(), &(*out)[r])) return full;
    for (size_t i = 0; i < program.arguments.size(); ++i) {
      if (!(program.arguments[i] == program.results[r])) continue;
      std::memcpy((*out)[r]->data, arguments[i]->storage->data, (*out)[r]->size);
      break;
    }
  }
  return nullptr;
}

// When this run will have ended on the device, and how.
std::shared_ptr<Moment> start(abi::Device* device) {
  State& state = State::get();
  auto moment = std::make_shared<Moment>();
  int32_t code = 0;
  std::string message;
  Clock::time_point end;
  {
    const std::lock_guard lock(state.mutex);
    const Clock::time_point now = Clock::now();
    while (!device->ends.empty() && device->ends.front() <= now) device->ends.pop_front();
    end = std::max(now, device->busy_until) + std::chrono::milliseconds(state.settings.run_ms);
    device->busy_until = end;
    device->ends.push_back(end);
    state.most_in_flight = std::max<int64_t>(state.most_in_flight, device->ends.size());
    ++state.poison.seen;
    if (state.poison.nth == 0 || state.poison.nth == state.poison.seen) {
      code = state.poison.code;
      message = state.poison.message;
    }
  }
  moment->finish(code, message, end);
  return moment;
}

void consume(const Compiled& program, abi::Buffer* const* arguments) {
  for (size_t i = 0; i < program.arguments.size(); ++i)
    if (program.arguments[i].result >= 0) arguments[i]->storage = nullptr;
}

void check_options(const abi::LoadedExecutableExecuteArgs& args) {
  if (args.options == nullptr) {
    State::get().violation("PJRT_LoadedExecutable_Execute: options is null");
    return;
  }
  check_struct(*args.options);
  if (args.options->num_send_ops != 0 || args.options->num_recv_ops != 0 ||
      args.options->context != nullptr)
    State::get().violation("PJRT_LoadedExecutable_Execute: options are not zero");
}

} // namespace

Error* loaded_executable_execute(abi::LoadedExecutableExecuteArgs* args) {
  if (!State::get().check("loaded executable", args->executable, "PJRT_LoadedExecutable_Execute"))
    return invalid("no executable");
  check_options(*args);
  const abi::LoadedExecutable& executable = *args->executable;
  const Compiled& program = *executable.compiled;
  if (executable.deleted) return invalid("the executable was deleted");
  if (args->num_devices != executable.devices.size())
    return invalid("num_devices is " + number(args->num_devices) + ", expected " +
                   number(executable.devices.size()));
  std::vector<std::vector<std::shared_ptr<Storage>>> results(args->num_devices);
  for (size_t d = 0; d < args->num_devices; ++d) {
    abi::Buffer* const* arguments = args->num_args > 0 ? args->argument_lists[d] : nullptr;
    if (Error* e = check_arguments(program, arguments, args->num_args, executable.devices[d]))
      return e;
    if (Error* e = check_donated_once(program, arguments)) return e;
    if (Error* e = make_results(program, arguments, executable.devices[d], &results[d])) return e;
  }
  for (size_t d = 0; d < args->num_devices; ++d) {
    const std::shared_ptr<Moment> ready = start(executable.devices[d]);
    if (args->num_args > 0) consume(program, args->argument_lists[d]);
    for (size_t r = 0; r < program.results.size(); ++r) {
      args->output_lists[d][r] = make_buffer(
          {executable.client, executable.devices[d], program.results[r], results[d][r], ready});
    }
    if (args->device_complete_events != nullptr)
      args->device_complete_events[d] = make_event(ready);
  }
  return nullptr;
}

void consume_anyway(abi::LoadedExecutableExecuteArgs* args) {
  {
    const std::lock_guard lock(State::get().mutex);
    if (State::get().settings.consumes_on_failure == 0 || args->num_args == 0) return;
  }
  for (size_t d = 0; d < args->num_devices; ++d)
    consume(*args->executable->compiled, args->argument_lists[d]);
}

} // namespace fake
