// dllm chat: talk with a model; its input is the whole conversation.

#include "conversation.h"
#include "registry.h"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "  /reset   forget what was said\n"
    "  /quit    leave (so does the end of the input)\n"
    "  /help    show this\n"
    "Ctrl-C stops an answer; the conversation goes on without it.\n";

void print(const Context& context, const Answer& answer) {
  if (!context.json()) {
    std::printf("%s\n", answer.text.c_str());
  } else {
    const Json line = {{"role", "assistant"}, {"content", answer.text}, {"prompt_tokens", answer.prompt_tokens},
                       {"steps", answer.steps}, {"nfe", answer.nfe}};
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  std::fflush(stdout);
}

// False to leave.
bool obey(Conversation& conversation, const std::string& word) {
  if (word == "/quit" || word == "/exit") return false;
  if (word == "/reset") conversation.reset();
  else if (word == "/help") std::fputs(kHelp, stderr);
  else std::fprintf(stderr, "there is no command %s\n%s", word.c_str(), kHelp);
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
      // A person goes on with another message; a script has to know.
      const bool stopped = failure.status() == DLLM_CANCELLED;
      if (!stopped && !interactive) throw;
      std::fprintf(stderr, "%s\n", stopped ? "(stopped)" : failure.what());
      if (!stopped && !failure.hint().empty()) std::fprintf(stderr, "      %s\n", failure.hint().c_str());
    }
  }
}

int chat(Context& context) {
  Session session(context);
  choose_policy(context, session);
  Conversation conversation(context, session);
  std::signal(SIGINT, SIG_DFL);  // Ctrl-C between two answers ends the program
  if (!context.has("message")) return talk(context, conversation);
  print(context, conversation.say(context.text("message")));
  return 0;
}

}  // namespace

Command chat_command() {
  using Kind = Argument::Kind;
  return {"chat", "talk with a model",
          "dllm chat --model models/Qwen3-0.6B-diffusion --message \"Who was Ada Lovelace?\"",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder, with a chat template", true},
           {Kind::text, "message", "", "say this, print the answer and leave; else lines of standard input are read"},
           {Kind::text, "system", "", "a text for the model before the conversation"},
           {Kind::text, "template", "", "read the chat template from this file (as --chat.template has its text)"},
           {Kind::text, "policy", "low_confidence", policy_sentence()},
           {Kind::number, "length", "", "open positions of an answer (as --slot.gen_length)"},
           {Kind::flag, "quiet", "", "do not show the denoising"}},
          {"engine", "model", "decoder:policy", "slot", "chat"},
          chat,
          false,
          {},
          {"model", "message"}};
}

}  // namespace dllm::cli
