// dllm chat talks with a model, whose input is the whole conversation.

#include "../command.h"
#include "../process.h"
#include "decoding.h"
#include "generation_defaults.h"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace dllm::cli {
namespace {

// What the model says in one turn.
struct Reply {
  std::string text;
  int64_t prompt_tokens = 0, steps = 0, nfe = 0;
};

class Conversation {
public:
  // Uses the options of kinds chat, decoder and slot of the context. Fails without a chat template.
  Conversation(Context& context, Session& session);

  // Adds `message` to the conversation, renders it and decodes the answer. A failure, also Ctrl-C,
  // leaves the conversation unchanged.
  Reply say(const std::string& message);
  void reset(); // keeps the system message

private:
  struct Row {
    std::vector<int32_t> ids;
    std::vector<uint8_t> keep;
  };
  Row render(const nlohmann::ordered_json& messages, bool opens) const;
  int32_t find_end() const;
  Reply decode_reply(const std::vector<int32_t>& prompt);

  Context& context_;
  Session& session_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  std::vector<int32_t> ends_; // ids of the tokens that end an answer, with the template's end token
};

using Json = nlohmann::ordered_json;

template <class T>
std::vector<T> read_row(const dllm_batch* batch, const char* name, int32_t dtype) {
  const auto tensor = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<T> values(static_cast<size_t>(dllm_tensor_dim(tensor.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(tensor.get(), dtype, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(T)), err);
  });
  return values;
}

Json turn(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Conversation::Conversation(Context& context, Session& session)
    : context_(context), session_(session) {
  if (context.has("template")) {
    const std::string source = read_all(context.text("template"));
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("chat"), "template", source.c_str(), err);
    });
  }
  reset();
  const int32_t end = find_end();
  ends_ =
      choose_ends(context, session, end < 0 ? std::vector<int32_t>() : std::vector<int32_t>{end});
}

void Conversation::reset() {
  messages_ = Json::array();
  if (context_.has("system")) messages_.push_back(turn("system", context_.text("system")));
}

Conversation::Row Conversation::render(const Json& messages, bool opens) const {
  dllm_options* options = context_.options("chat");
  call([&](dllm_error* err) {
    return dllm_options_set_i64(options, "add_generation_prompt", opens ? 1 : 0, err);
  });
  const std::string json = messages.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto batch = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_tokenizer_chat(session_.tokenizer.get(), json.data(),
                               static_cast<int64_t>(json.size()), options, out, err);
  });
  return {read_row<int32_t>(batch.get(), "ids", DLLM_I32),
          read_row<uint8_t>(batch.get(), "keep", DLLM_U8)};
}

// Returns the last token of an answer of one word, or -1 when that token is the word.
int32_t Conversation::find_end() const {
  const std::string word = "word";
  const Row row = render({turn("user", word), turn("assistant", word)}, false);
  for (size_t i = row.ids.size(); i-- > 0;) {
    if (row.keep[i] != 0) continue;
    const std::string text = decode(session_.tokenizer.get(), {row.ids[i]});
    return word.find(text) == std::string::npos && text.find(word) == std::string::npos ? row.ids[i]
                                                                                        : -1;
  }
  return -1;
}

Reply Conversation::decode_reply(const std::vector<int32_t>& prompt) {
  const Owned<dllm_decoder> decoder = open_decoder(context_, session_, false);
  const int64_t slot = add_request(context_, decoder.get(), {prompt, {}});
  const Owned<dllm_task> task(dllm_task_new()); // of this answer alone
  const Interrupt interrupt(task.get());
  Answer answer =
      spoken_answer(session_.tokenizer.get(), static_cast<int64_t>(prompt.size()), ends_);
  LiveView view;
  const bool shown = !context_.flag("quiet") && !context_.json() && view.is_terminal();
  const int64_t planned = planned_steps(context_, progress_of(decoder.get(), slot).open);
  for (int64_t active = 1; active > 0;) {
    if (shown) {
      std::vector<TokenCell> cells = cells_of(answer, canvas_of(decoder.get(), slot));
      cells.erase(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
      Progress progress = progress_of(decoder.get(), slot);
      progress.planned = planned;
      view.show(cells, progress);
    }
    call([&](dllm_error* err) {
      return dllm_decoder_step(decoder.get(), task.get(), &active, err);
    });
  }
  if (shown) view.clear();
  const Canvas canvas = canvas_of(decoder.get(), slot);
  answer.update(canvas.ids, canvas.states);
  const auto metric = [&](const char* key) {
    return static_cast<int64_t>(decoder_metric(decoder.get(), slot, key));
  };
  return {answer.text(), static_cast<int64_t>(prompt.size()), metric("steps"), metric("nfe")};
}

Reply Conversation::say(const std::string& message) {
  Json messages = messages_;
  messages.push_back(turn("user", message));
  const Row row = render(messages, true);
  Reply reply = decode_reply(row.ids);
  messages.push_back(turn("assistant", reply.text));
  messages_ = std::move(messages);
  return reply;
}

constexpr const char* kHelp = "  /reset   start a new conversation\n"
                              "  /quit    exit, as at the end of the input\n"
                              "  /help    show this\n"
                              "Ctrl-C stops an answer; the conversation continues without it.\n";

void print(const Context& context, const Reply& reply) {
  if (!context.json()) {
    std::printf("%s\n", reply.text.c_str());
  } else {
    const Json line = {{"role", "assistant"},
                       {"content", reply.text},
                       {"prompt_tokens", reply.prompt_tokens},
                       {"steps", reply.steps},
                       {"nfe", reply.nfe}};
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  std::fflush(stdout);
}

// Returns false when the command ends the chat.
bool obey(Conversation& conversation, const std::string& word) {
  if (word == "/quit" || word == "/exit") return false;
  if (word == "/reset")
    conversation.reset();
  else if (word == "/help")
    std::fputs(kHelp, stderr);
  else
    std::fprintf(stderr, "there is no command %s\n%s", word.c_str(), kHelp);
  return true;
}

int talk(Context& context, Conversation& conversation) {
  const bool interactive = isatty(STDIN_FILENO) != 0;
  if (interactive) std::fputs("/help shows the commands\n", stderr);
  std::string line;
  for (;;) {
    if (interactive) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) return 0;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line[0] == '/') {
      if (!obey(conversation, line)) return 0;
      continue;
    }
    try {
      print(context, conversation.say(line));
    } catch (const Failure& failure) {
      // At a prompt the conversation continues after an error; a script must fail.
      const bool stopped = failure.status() == DLLM_CANCELLED;
      if (!stopped && !interactive) throw;
      std::fprintf(stderr, "%s\n", stopped ? "(stopped)" : failure.what());
      if (!stopped && !failure.hint().empty())
        std::fprintf(stderr, "      %s\n", failure.hint().c_str());
    }
  }
}

int chat(Context& context) {
  check_decoding(context, false);
  refuse_typed(context, "chat", "add_generation_prompt", "this command sets it itself");
  if (context.has("template")) {
    refuse_typed(context, "chat", "template", "--template names a file with the template");
    refuse_typed(context, "chat", "name", "--template has the template");
  }
  Session session(context);
  choose_policy(context, session);
  take_generation_defaults(context, session);
  Conversation conversation(context, session);
  std::signal(SIGINT, SIG_DFL); // Ctrl-C between two answers ends the program
  if (!context.has("message")) return talk(context, conversation);
  print(context, conversation.say(context.text("message")));
  return 0;
}

} // namespace

Command chat_command() {
  using Kind = Argument::Kind;
  return {"chat",
          "talk with a model",
          "dllm chat --model models/Qwen3-0.6B-diffusion --message \"Who was Ada Lovelace?\"",
          {{Kind::text, "model", "",
            "a model folder, a GGUF file or a run folder, with a chat template", true},
           {Kind::text, "message", "",
            "print the answer to this message and exit; else lines of standard input are read"},
           {Kind::text, "system", "", "a text for the model before the conversation"},
           {Kind::text, "template", "",
            "read the chat template from this file (as --chat.template has its text)"},
           {Kind::text, "policy", "low_confidence", policy_sentence()},
           {Kind::number, "length", "", "open positions of an answer (as --slot.gen-length)"},
           {Kind::flag, "quiet", "", "do not print the denoising"}},
          {"engine", "model", "decoder:policy", "slot", "chat"},
          chat,
          false,
          {},
          {"model", "message"}};
}

} // namespace dllm::cli
