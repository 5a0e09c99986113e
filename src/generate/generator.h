#pragma once
// A Generator turns requests for text into text. It has a decoder, whose slots are the requests,
// and the text of each of them.

#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/decoder/decoder.h"
#include "generate/request_reader.h"
#include "generate/request_text.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace dllm::generate {

const Schema& generator_schema(); // options of kind "generator"

// One call at a time. Keeps the model and the tokenizer alive.
class Generator {
public:
  // tokenizer: encodes prompts with its own options. Fails as decode::Decoder.
  Generator(std::shared_ptr<model::Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
            const Options& options);

  // add(), remove(), step() and run() fail with failed_precondition inside a callback of run().
  // Adds a request of kind "request" or "request:<policy>", and returns its number. Nothing changes
  // when it fails.
  int64_t add(const Options& request, const Task* task = nullptr);
  // Adds a request that a reader of this model and tokenizer has read.
  int64_t add(std::shared_ptr<const TextRequest> request);
  void remove(int64_t number); // fails with not_found
  // Takes one denoising step of every open request. Returns the number of open requests. An error
  // of one request ends that request alone; text() and describe() have the error.
  int64_t step(Task* task = nullptr);
  // Takes steps until no request is open. Sends the event text for each request after each of its
  // steps, and answer when it is over. Returns false if the callback stopped it.
  bool run(const EventFn& fn = nullptr, Task* task = nullptr);

  int64_t open_count() const;
  // Returns a part of the text of a request. Fails with the error of a request that failed.
  std::string text(int64_t number, TextPart part);
  Json describe(int64_t number);
  Json describe() const; // of the generator

  // Returns the text of a request as of the last step. Fails with not_found.
  RequestText& request(int64_t number) { return at(number).text; }

  const std::shared_ptr<const RequestReader>& reader() const { return reader_; }
  // The slots have the numbers of the requests. Only its readers may be called.
  const std::shared_ptr<decode::Decoder>& decoder() const { return decoder_; }

private:
  struct Entry {
    RequestText text;
    bool is_sent = false; // the event answer was sent
  };

  void need_idle() const; // fails with failed_precondition inside a callback of run()
  Entry& at(int64_t number);
  bool need_stops() const;
  // Takes the canvas of a request, and ends the request at a stop text.
  void follow(int64_t number, RequestText& text);
  void follow_all();
  int64_t take_step(Task* task);
  // Each returns false if the callback stops.
  bool run_step(const EventFn& fn, Task* task);
  bool run_decoder(const EventFn& fn, Task* task);
  bool send_text(const EventFn& fn, int64_t number);
  bool send_answers(const EventFn& fn); // of requests that are over and were not sent

  bool is_running_ = false; // a callback of run() may be on the stack
  std::shared_ptr<const RequestReader> reader_;
  std::map<int64_t, Entry> entries_;
  std::shared_ptr<decode::Decoder> decoder_;
};

} // namespace dllm::generate
