#pragma once
// The requests for text of one command: what the user typed as settings of a request, the picture
// of the canvas, and the answers. For the commands generate, infill and chat.

#include "../../command.h"
#include "decoding.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace dllm::cli {

class TextRun {
public:
  // Makes a generator. Prints which policy decodes the model if the user typed none, unless option
  // quiet or json is set. slots: most requests at a time; trace: every step is recorded.
  TextRun(Context& context, const Session& session, int64_t slots, bool trace);

  // Adds a request with these settings (kind "request") and those that the user typed; null leaves
  // out what the user typed. Prints the settings of generation_config.json once.
  int64_t add(nlohmann::ordered_json settings, dllm_task* task);
  // Steps until no request is open. Shows a picture of `shown` in a terminal, unless option quiet
  // or json is set. The picture leaves out the first `hidden` positions. Fails with cancelled.
  void run(int64_t shown, size_t hidden, dllm_task* task);
  // Takes one step of every open request. Returns the number of open requests.
  int64_t step(dllm_task* task);
  bool is_over(int64_t number) const;
  // Returns dllm_generator_describe of a request.
  nlohmann::ordered_json describe(int64_t number) const;
  std::string text(int64_t number, const char* part) const;
  void remove(int64_t number);

  // Returns the settings that the user typed for every request of a command.
  static nlohmann::ordered_json settings(const Context& context);

  // Its slots have the numbers of the requests.
  const dllm_decoder* decoder() const { return decoder_.get(); }

private:
  void say(const std::string& line) const; // prints a line unless the command is quiet
  void say_settings(int64_t number);

  Context& context_;
  const Session& session_;
  std::string policy_; // of requests that name none
  nlohmann::ordered_json typed_;
  bool said_settings_ = false;
  Owned<dllm_generator> generator_;
  Owned<dllm_decoder> decoder_;
};

// Returns the command with an argument for each constraint of a request (regex, choices ...), which
// TextRun reads.
Command with_forms(Command command);
// Returns the command with an argument for each rule that ends an answer by its text (until ...),
// which TextRun reads.
Command with_ends(Command command);

} // namespace dllm::cli
