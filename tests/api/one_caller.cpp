// A decoder, a trainer, a loader and a Lua runner take one call at a time: a call on another thread
// while one is under way is refused and changes nothing. Every function of the manifest with
// Threads owner on these kinds is tried.

#include "world.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using Calls = std::map<std::string, std::function<dllm_status(dllm_error*)>>;

std::set<std::string> wanted, tried;

// Functions whose first handle of these kinds has an owner.
std::set<std::string> owner_functions() {
  const auto manifest = nlohmann::json::parse(std::ifstream(DLLM_MANIFEST));
  std::set<std::string> names;
  for (const auto& function : manifest.at("functions")) {
    const std::string threads = function.value("threads", "");
    const std::string noun =
        function.at("params").empty() ? "" : function.at("params")[0].value("handle", "");
    if (threads == "owner" && (noun == "decoder" || noun == "generator" || noun == "trainer" ||
                               noun == "loader" || noun == "lua"))
      names.insert(function.at("name"));
  }
  return names;
}

// All calls on a thread that does not have the object.
void expect_refused(const Calls& calls) {
  std::thread([&] {
    dllm_error* err = dllm_error_new();
    for (const auto& [name, call] : calls) {
      const dllm_status status = call(err);
      CHECK(status == DLLM_FAILED_PRECONDITION);
      if (status != DLLM_FAILED_PRECONDITION) std::printf("# %s: %d\n", name.c_str(), status);
      CHECK(std::string(dllm_error_message(err)).find("another thread") != std::string::npos);
      tried.insert(name);
    }
    dllm_error_release(err);
  }).join();
}

int32_t during(const dllm_event*, void* calls) {
  expect_refused(*static_cast<const Calls*>(calls));
  return DLLM_STOP;
}

void test_decoder(const world& w) {
  dllm_decoder* decoder = nullptr;
  dllm_options* opts = make_options("decoder", R"({"steps": 4, "gen_length": 8})", w.err);
  NEED(dllm_decoder_new(w.model, opts, &decoder, w.err), w.err);
  NEED(dllm_decoder_start(decoder, nullptr, 0, 1, w.err), w.err);
  const int32_t ids[1] = {5};
  const int64_t places[1] = {0};
  const Calls calls = {
      {"dllm_decoder_start",
       [&](dllm_error* e) { return dllm_decoder_start(decoder, ids, 1, 0, e); }},
      {"dllm_decoder_add",
       [&](dllm_error* e) {
         return dllm_decoder_add(decoder, ids, nullptr, 1, nullptr, nullptr, e);
       }},
      {"dllm_decoder_remove", [&](dllm_error* e) { return dllm_decoder_remove(decoder, 0, e); }},
      {"dllm_decoder_step",
       [&](dllm_error* e) { return dllm_decoder_step(decoder, nullptr, nullptr, e); }},
      {"dllm_decoder_step_for",
       [&](dllm_error* e) {
         return dllm_decoder_step_for(decoder, 1, nullptr, nullptr, nullptr, nullptr, e);
       }},
      {"dllm_decoder_run",
       [&](dllm_error* e) { return dllm_decoder_run(decoder, nullptr, nullptr, nullptr, e); }},
      {"dllmx_decoder_predict",
       [&](dllm_error* e) { return dllmx_decoder_predict(decoder, nullptr, e); }},
      {"dllmx_decoder_commit",
       [&](dllm_error* e) { return dllmx_decoder_commit(decoder, 0, places, ids, 1, e); }}};
  CHECK(dllm_decoder_run(decoder, during, const_cast<Calls*>(&calls), nullptr, w.err) == DLLM_OK);
  NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, w.err), w.err); // it goes on
  dllm_decoder_release(decoder);
  dllm_options_release(opts);
}

void test_generator(const world& w) {
  dllm_generator* generator = nullptr;
  dllm_options* request =
      make_options("request", R"({"steps": 4, "length": 8, "stop_ids": ["0"]})", w.err);
  NEED(dllm_generator_new(w.model, w.tok, nullptr, &generator, w.err), w.err);
  int64_t number = 0;
  NEED(dllm_generator_add(generator, request, nullptr, &number, w.err), w.err);
  const Calls calls = {
      {"dllm_generator_add",
       [&](dllm_error* e) {
         int64_t other = 0;
         return dllm_generator_add(generator, request, nullptr, &other, e);
       }},
      {"dllm_generator_remove",
       [&](dllm_error* e) { return dllm_generator_remove(generator, number, e); }},
      {"dllm_generator_step",
       [&](dllm_error* e) { return dllm_generator_step(generator, nullptr, nullptr, e); }},
      {"dllm_generator_run",
       [&](dllm_error* e) { return dllm_generator_run(generator, nullptr, nullptr, nullptr, e); }}};
  CHECK(dllm_generator_run(generator, during, const_cast<Calls*>(&calls), nullptr, w.err) ==
        DLLM_OK);
  NEED(dllm_generator_run(generator, nullptr, nullptr, nullptr, w.err), w.err); // it goes on
  dllm_generator_release(generator);
  dllm_options_release(request);
}

void test_trainer(const world& w) {
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  dllm_batch* batch = nullptr;
  NEED(dllm_batch_new(&batch, w.err), w.err);
  dllm_batch* next = nullptr;
  double loss = 0;
  int64_t chunks = 0;
  const Calls calls = {
      {"dllm_trainer_step",
       [&](dllm_error* e) { return dllm_trainer_step(trainer, batch, nullptr, &loss, e); }},
      {"dllm_trainer_accumulate",
       [&](dllm_error* e) { return dllm_trainer_accumulate(trainer, batch, nullptr, e); }},
      {"dllm_trainer_apply",
       [&](dllm_error* e) { return dllm_trainer_apply(trainer, nullptr, &loss, e); }},
      {"dllm_trainer_sync", [&](dllm_error* e) { return dllm_trainer_sync(trainer, e); }},
      {"dllm_trainer_run",
       [&](dllm_error* e) {
         return dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, e);
       }},
      {"dllm_trainer_eval",
       [&](dllm_error* e) { return dllm_trainer_eval(trainer, loader, 1, nullptr, &loss, e); }},
      {"dllm_trainer_add_sink",
       [&](dllm_error* e) { return dllm_trainer_add_sink(trainer, "console", "", nullptr, e); }},
      {"dllm_checkpoint_restore",
       [&](dllm_error* e) {
         return dllm_checkpoint_restore(trainer, loader, "nowhere", nullptr, e);
       }},
      {"dllm_loader_write_anchors",
       [&](dllm_error* e) {
         return dllm_loader_write_anchors(loader, w.model, "nowhere", nullptr, nullptr, &chunks, e);
       }},
      {"dllm_loader_next", [&](dllm_error* e) { return dllm_loader_next(loader, &next, e); }},
      {"dllm_loader_seek", [&](dllm_error* e) { return dllm_loader_seek(loader, 0, e); }}};
  dllm_trainer_run(trainer, loader, 2, during, const_cast<Calls*>(&calls), nullptr, w.err);
  NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
  dllm_batch_release(batch);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
}

void test_lua(dllm_error* err) {
  dllm_lua* lua = nullptr;
  NEED(dllm_lua_new(nullptr, &lua, err), err);
  dllm_task* task = dllm_task_new();
  const std::string code = "x = 0 while true do x = x + 1 end", empty = "return 1";
  std::atomic<dllm_status> ended{DLLM_OK};
  std::thread running([&] {
    do { // it is refused itself where one of the calls below is under way
      ended = dllm_lua_run_text(lua, "loop", code.data(), static_cast<int64_t>(code.size()), task,
                                nullptr, nullptr);
    } while (ended == DLLM_FAILED_PRECONDITION);
  });
  const auto text = [&](dllm_error* e) {
    return dllm_lua_run_text(lua, "t", empty.data(), static_cast<int64_t>(empty.size()), nullptr,
                             nullptr, e);
  };
  while (text(nullptr) == DLLM_OK) std::this_thread::yield();
  expect_refused(
      {{"dllm_lua_run_text", text},
       {"dllm_lua_run_file",
        [&](dllm_error* e) {
          return dllm_lua_run_file(lua, "x.lua", nullptr, 0, nullptr, nullptr, e);
        }},
       {"dllm_lua_call",
        [&](dllm_error* e) {
          return dllm_lua_call(lua, "print", nullptr, 0, nullptr, nullptr, e);
        }},
       {"dllm_lua_set_json", [&](dllm_error* e) { return dllm_lua_set_json(lua, "a", "1", 1, e); }},
       {"dllm_lua_set_object",
        [&](dllm_error* e) { return dllm_lua_set_object(lua, "a", "task", task, e); }}});
  dllm_task_cancel(task);
  running.join();
  CHECK(ended == DLLM_CANCELLED);
  CHECK(text(err) == DLLM_OK);
  dllm_task_release(task);
  dllm_lua_release(lua);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  wanted = owner_functions();
  test_decoder(w);
  test_generator(w);
  test_trainer(w);
  if (dllm_has_feature("lua") != 0) test_lua(w.err);
  for (const std::string& name : wanted) {
    const bool is_missing = !tried.contains(name) && !name.starts_with("dllm_lua_");
    if (is_missing) std::printf("# %s was not tried\n", name.c_str());
    CHECK(!is_missing);
  }
  CHECK(wanted.size() > 20);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
