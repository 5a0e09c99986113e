#pragma once
// A Job answers one HTTP request whose texts a queue decodes.

#include "../http/http_server.h"
#include "answers.h"
#include "asked.h"
#include "model_shelf.h"

#include "dllm/dllm.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace dllm::cli {

// All calls are on the thread of the server.
class Job {
public:
  // numbers: the requests of the model's queue, which the job removes at its end.
  Job(ShelvedModelRef model, HttpExchangeRef exchange, AnswerHead head, Asked asked,
      std::vector<int64_t> numbers);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Sends what is new. Returns false when the answer is sent, or the client is gone.
  bool advance();
  // Ends the answer with an error. A stream has it as its last event.
  void fail(const Failure& failure);

private:
  struct Text {
    int64_t number;
    Queue::Progress seen = {};
    nlohmann::ordered_json about = nullptr; // when it is over
    bool has_prompt = false;                // whether a stream with an echo has sent the prompt
  };

  bool update(size_t index); // returns false after an error, whose answer is sent
  void take_calls(nlohmann::ordered_json& about, size_t index) const;
  void begin_stream();
  std::string prompt_of(const Text& text) const;
  void send_piece(size_t index);
  void send_canvas(size_t index);
  // Returns the text of each position of the canvas that `about` describes.
  std::vector<std::string> cells_of(const nlohmann::ordered_json& about) const;
  std::vector<std::vector<std::string>> likely_cells(const nlohmann::ordered_json& about) const;
  void finish();
  bool is_over() const;
  std::vector<nlohmann::ordered_json> abouts() const;

  const ShelvedModelRef model_;
  const Queue& queue_; // of the model
  HttpExchangeRef exchange_;
  AnswerHead head_;
  Asked asked_;
  std::vector<Text> texts_;
  bool is_begun_ = false;
};

} // namespace dllm::cli
