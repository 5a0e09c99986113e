// dllm chat talks with a model, whose input is the whole conversation.

#include "../../command.h"
#include "../../pictures/pictures.h"
#include "../../processes/process.h"
#include "../../run_settings.h"
#include "decoding.h"
#include "text_run.h"

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
  void use_template_of_run();
  nlohmann::ordered_json with_messages(const nlohmann::ordered_json& messages) const;
  Reply decode_reply(const nlohmann::ordered_json& messages);

  Context& context_;
  TextRun run_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

using Json = nlohmann::ordered_json;

Json turn(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

Conversation::Conversation(Context& context, Session& session)
    : context_(context), run_(context, session, 1, false) {
  set_template(context, "chat");
  use_template_of_run();
  reset();
  // A tokenizer without a chat template fails here, before a message is typed.
  run_.remove(run_.add(with_messages(Json::array({turn("user", "word")})), context.task()));
}

// The rows of a run may have another template than its tokenizer. Older runs on instructions are
// such runs, and adapters, which have the tokenizer of their base.
void Conversation::use_template_of_run() {
  const bool chosen = context_.typed("chat", "template") || context_.typed("chat", "name") ||
                      context_.has("template");
  const std::string& model = context_.text("model");
  const RowSettings rows = row_settings(context_);
  const std::string own = rows.chat_template();
  if (chosen || own.empty()) return;
  call([&](dllm_error* err) {
    return dllm_options_set_str(context_.options("chat"), "template", own.c_str(), err);
  });
  if (rows.form == "instructions" && !context_.flag("quiet") && !context_.json())
    std::fprintf(stderr, "%s was trained on instructions: --template alpaca\n", model.c_str());
}

// Returns the settings of a request that continues the messages.
Json Conversation::with_messages(const Json& messages) const {
  Json settings = {{"messages", messages}, {"seed", Json::parse(context_.option("slot", "seed"))}};
  const auto take = [&](const char* key, const char* own) {
    const Json value = Json::parse(context_.option("chat", key));
    if (value != "") settings[own] = value;
  };
  take("template", "template");
  take("name", "template_name");
  take("tools", "tools");
  take("variables", "variables");
  return settings;
}

void Conversation::reset() {
  messages_ = Json::array();
  if (context_.has("system")) messages_.push_back(turn("system", context_.text("system")));
}

Reply Conversation::decode_reply(const Json& messages) {
  const Owned<dllm_task> task(dllm_task_new()); // of this answer alone
  const Interrupt interrupt(task.get());
  const int64_t number = run_.add(with_messages(messages), task.get());
  try {
    const auto hidden = run_.describe(number).at("prompt_tokens").get<size_t>();
    run_.run(number, hidden, task.get());
    const std::string answer = run_.text(number, "completion");
    const Json about = run_.describe(number);
    run_.remove(number);
    return {answer, about.at("prompt_tokens"), about.at("steps"), about.at("nfe")};
  } catch (...) {
    run_.remove(number);
    throw;
  }
}

Reply Conversation::say(const std::string& message) {
  Json messages = messages_;
  messages.push_back(turn("user", message));
  Reply reply = decode_reply(messages);
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
    std::printf("%s\n", printed_text(reply.text, stdout).c_str());
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
  refuse_likely_tokens(context, "dllm generate --json prints them");
  refuse_typed(context, "chat", "add_generation_prompt", "this command sets it itself");
  if (context.has("template")) refuse_typed(context, "chat", "name", "--template has the template");
  Session session(context);
  Conversation conversation(context, session);
  std::signal(SIGINT, SIG_DFL); // Ctrl-C between two answers ends the program
  if (!context.has("message")) return talk(context, conversation);
  print(context, conversation.say(context.text("message")));
  return 0;
}

} // namespace

Command chat_command() {
  using Kind = Argument::Kind;
  return with_forms(with_ends(
      {"chat",
       "talk with a model",
       "dllm chat --model models/Qwen3-0.6B-diffusion --message \"Who was Ada Lovelace?\"",
       {{Kind::text, "model", "",
         "a model folder, a GGUF file or a run folder, with a chat template", true},
        {Kind::text, "message", "",
         "print the answer to this message and exit; else lines of standard input are read, where "
         "/reset starts a new conversation, /quit exits and /help shows the commands"},
        {Kind::text, "system", "", "a text for the model before the conversation"},
        {Kind::text, "template", "",
         "chat template: chatml, llama3, qwen, alpaca, or a file that holds one; default: the "
         "model's own, and alpaca for a run that was trained on instructions"},
        {Kind::text, "policy", "low_confidence", policy_sentence()},
        {Kind::number, "length", "", "open positions of an answer (as --slot.gen-length)"},
        {Kind::flag, "quiet", "", "do not print the denoising"}},
       {"engine", "model", "decoder:policy", "slot", "chat"},
       chat,
       false,
       {},
       {"model", "message"}}));
}

} // namespace dllm::cli
