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

// Arguments that this run uses up.
std::vector<bool> donated(const Compiled& program, const abi::ExecuteOptions* options) {
  std::vector<bool> used;
  for (const Argument& argument : program.arguments) used.push_back(argument.result >= 0);
  for (size_t k = 0; options != nullptr && k < options->num_non_donatable_input_indices; ++k)
    used.at(static_cast<size_t>(options->non_donatable_input_indices[k])) = false;
  return used;
}

Error* check_donated_once(const std::vector<bool>& used, abi::Buffer* const* arguments) {
  for (size_t i = 0; i < used.size(); ++i) {
    for (size_t j = 0; j < used.size(); ++j) {
      if (!used[i] || i == j || arguments[i] != arguments[j]) continue;
      return invalid(
          "Attempt to use a buffer that was previously donated in the same call to Execute()");
    }
  }
  return nullptr;
}

// The argument whose content a result has; -1: zeros.
int64_t source_of(const Compiled& program, size_t result) {
  const auto count = static_cast<int64_t>(program.arguments.size());
  for (int64_t i = 0; i < count; ++i)
    if (program.arguments[i].result == static_cast<int64_t>(result)) return i;
  for (int64_t i = 0; i < count; ++i)
    if (program.arguments[i] == program.results[result]) return i;
  return -1;
}

// The memory of each result, before any argument is consumed.
Error* make_results(const Compiled& program, const std::vector<bool>& used,
                    abi::Buffer* const* arguments, abi::Device* device,
                    std::vector<std::shared_ptr<Storage>>* out) {
  for (size_t r = 0; r < program.results.size(); ++r) {
    const int64_t source = source_of(program, r);
    const auto from = source < 0 ? nullptr : arguments[source]->storage;
    if (from != nullptr && from->filled != nullptr) from->filled->wait();
    const bool takes_over = source >= 0 && used[source] && program.arguments[source].result >= 0 &&
                            static_cast<size_t>(program.arguments[source].result) == r;
    // Borrowed memory of the host is not written to: such a result gets memory of its own.
    if (takes_over && from->own != nullptr) {
      out->push_back(from);
      continue;
    }
    out->emplace_back();
    if (Error* full = allocate(device, program.results[r].bytes(), &out->back())) return full;
    if (from != nullptr) std::memcpy(out->back()->data, from->data, out->back()->size);
  }
  return nullptr;
}

// When this run will have ended on the device, and how: an argument that failed fails the run.
std::shared_ptr<Moment> start(abi::Device* device, abi::Buffer* const* arguments, size_t count) {
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
  for (size_t i = 0; i < count && code == 0; ++i) {
    code = arguments[i]->ready->code();
    message = arguments[i]->ready->message();
  }
  moment->finish(code, message, end);
  return moment;
}

void consume(const std::vector<bool>& used, abi::Buffer* const* arguments) {
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) arguments[i]->storage = nullptr;
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
  const std::vector<bool> used = donated(program, args->options);
  std::vector<std::vector<std::shared_ptr<Storage>>> results(args->num_devices);
  for (size_t d = 0; d < args->num_devices; ++d) {
    abi::Buffer* const* arguments = args->num_args > 0 ? args->argument_lists[d] : nullptr;
    if (Error* e = check_arguments(program, arguments, args->num_args, executable.devices[d]))
      return e;
    if (Error* e = check_donated_once(used, arguments)) return e;
    if (Error* e = make_results(program, used, arguments, executable.devices[d], &results[d]))
      return e;
  }
  if (Error* e = executable.client->nodes.meet()) return e;
  for (size_t d = 0; d < args->num_devices; ++d) {
    const std::shared_ptr<Moment> ready =
        start(executable.devices[d], args->num_args > 0 ? args->argument_lists[d] : nullptr,
              args->num_args);
    if (args->num_args > 0) consume(used, args->argument_lists[d]);
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
    consume(donated(*args->executable->compiled, args->options), args->argument_lists[d]);
}

} // namespace fake
