// The C++ headers (dllm/dllm.hpp) as another program uses them: a tokenizer, a model, training and
// decoding through owners; failures as exceptions and as results; callbacks that throw; objects
// destroyed in any order.

#include "check.h"

#include "dllm/dllm.hpp"

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

namespace {

namespace fs = std::filesystem;

// A copy would release a handle twice.
template <class... Owners>
constexpr bool kOnlyMoved = ((!std::is_copy_constructible_v<Owners> &&
                              !std::is_copy_assignable_v<Owners> &&
                              std::is_nothrow_move_constructible_v<Owners> &&
                              std::is_nothrow_move_assignable_v<Owners>)&&...);
static_assert(kOnlyMoved<dllm::Answer, dllm::Batch, dllm::Checkpoint, dllm::Dataset, dllm::Decoder,
                         dllm::Engine, dllm::Generator, dllm::Loader, dllm::Lua, dllm::Model,
                         dllm::Objective, dllm::Options, dllm::Schedule, dllm::Source, dllm::Task,
                         dllm::Tensor, dllm::Tokenizer, dllm::Trainer>);

// Of the many lives of test_growth only failures are printed.
void check_quiet(bool good, const char* what, int line) {
  if (!good) check_line(0, what, __FILE__, line);
}

struct Scene {
  dllm::Engine engine{{{"threads", 2}}};
  dllm::Tokenizer tokenizer = tokenizer_of(documents(nullptr));
  dllm::Dataset data = documents(&tokenizer);
  dllm::Model model = model_of(engine, tokenizer);

  static dllm::Dataset documents(const dllm::Tokenizer* tokenizer) {
    dllm::Dataset data(tokenizer);
    for (int i = 0; i < 24; ++i) {
      data.add_text("the cat sat on the mat and the \"dog\" sat on the log\n");
      data.add_text("the rain in the plain falls on the cat and the dog");
    }
    return data;
  }
  static dllm::Tokenizer tokenizer_of(const dllm::Dataset& text) {
    return dllm::Tokenizer::train(text, {{"vocab_size", 290}});
  }
  static dllm::Model model_of(const dllm::Engine& engine, const dllm::Tokenizer& tokenizer) {
    return dllm::Model::from_config(
        engine,
        R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
                    "tie_word_embeddings": true, "vocab_size": )" +
            std::to_string(tokenizer.size()) +
            R"(, "dllm": {"attention": "bidirectional", "mask_token_id": )" +
            std::to_string(tokenizer.id("mask")) + "}}",
        {{"seed", 3}});
  }
};

// The error that f throws; status DLLM_OK when it throws none.
template <class F> dllm::Error error_of(F&& f) {
  auto result = dllm::attempt(std::forward<F>(f));
  return result ? dllm::Error(DLLM_OK, "") : result.error();
}

void test_library() {
  CHECK(dllm::abi_version() == 1);
  CHECK(dllm::version() == dllm_version());
  CHECK(dllm::build_info().find("\"pjrt\"") != std::string_view::npos);
  CHECK(!dllm::has_feature("teleport"));
  CHECK(dllm::status_name(DLLM_NOT_FOUND) == "not_found");
  bool has_mdlm = false;
  for (const std::string& name : dllm::registry("objective")) has_mdlm = has_mdlm || name == "mdlm";
  CHECK(has_mdlm);
  CHECK(dllm::registry("no such table").empty());
  dllm::log_config(DLLM_LOG_INFO, DLLM_SINK_QUEUE);
  CHECK(!dllm::log_next());
  dllm::log_config(DLLM_LOG_INFO, DLLM_SINK_NONE);
}

void test_options(const Scene& scene) {
  dllm::Options options(
      "decoder", {{"steps", 9}, {"temperature", 0.5}, {"policy", "random"}, {"trace", true}});
  const std::string json = options.to_json();
  CHECK(json.find("\"steps\":9") != std::string::npos ||
        json.find("\"steps\": 9") != std::string::npos);
  CHECK(json.find("random") != std::string::npos);
  CHECK(dllm::Options::schema("slot").find("\"stop\"") != std::string::npos);
  // A list, and a text that JSON has to escape.
  dllm::Options slot("slot", {{"stop", std::vector<int32_t>{4, 5}}});
  CHECK(slot.to_json().find("4") != std::string::npos);
  CHECK(dllm::Value::quoted("a\"b\\c\n\x01") == "\"a\\\"b\\\\c\\u000a\\u0001\"");
  // A wrong key names the nearest one; the object lives on.
  const dllm::Error wrong = error_of([&] { options.set("stepz", 3); });
  CHECK(wrong.status() == DLLM_NOT_FOUND);
  CHECK(std::string(wrong.what()).find("stepz") != std::string::npos);
  CHECK(wrong.hint().find("steps") != std::string::npos);
  CHECK(error_of([&] { options.set("steps", "many"); }).status() == DLLM_INVALID_ARGUMENT);
  CHECK(error_of([] { dllm::Options unknown("decodr"); }).hint().find("decoder") !=
        std::string::npos);
  CHECK(error_of([&] {
          dllm::Decoder decoder(scene.model, "{\"steps\": 4, \"x\": 1}");
        }).status() == DLLM_NOT_FOUND);
  // All forms of settings reach the call.
  for (const dllm::Settings& settings :
       {dllm::Settings({{"steps", 3}, {"gen_length", 8}}),
        dllm::Settings(R"({"steps": 3, "gen_length": 8})"),
        dllm::Settings(options.set("steps", 3).set("gen_length", 8))}) {
    dllm::Decoder decoder(scene.model, settings);
    decoder.start({});
    int steps = 0;
    for ([[maybe_unused]] const int64_t active : decoder.steps()) ++steps;
    CHECK(steps == 3);
  }
}

void test_results(const Scene& scene) {
  auto model = dllm::attempt([&] { return dllm::Model::load(scene.engine, "/nothing/here"); });
  CHECK(!model);
  CHECK(model.error().status() == DLLM_NOT_FOUND);
  bool thrown = false;
  try {
    model.value();
  } catch (const dllm::Error& error) {
    thrown = error.status() == DLLM_NOT_FOUND;
  }
  CHECK(thrown);
  auto config = dllm::attempt([&] { return scene.model.config(); });
  CHECK(config && config->find("hidden_size") != std::string::npos);
  CHECK(dllm::attempt([&] { scene.model.save(std::string_view("a\0b", 3)); }).error().status() ==
        DLLM_INVALID_ARGUMENT);
  // An exception of another kind is not an error of the library.
  bool passed = false;
  try {
    CHECK(!dllm::attempt([]() -> int { throw 7; }));
  } catch (int seven) {
    passed = seven == 7;
  }
  CHECK(passed);
}

void test_arrays(Scene& scene) {
  const dllm::Tensor tensor({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(tensor.dtype() == dllm::DType::f32 && tensor.dims() == std::vector<int64_t>({2, 3}) &&
        tensor.size() == 6);
  CHECK(tensor.data<float>()[5] == 6);
  CHECK(tensor.read<int32_t>() == std::vector<int32_t>({1, 2, 3, 4, 5, 6}));
  CHECK(error_of([&] { tensor.data<double>(); }).status() == DLLM_INVALID_ARGUMENT);
  // A span that is too short is refused before anything reads it.
  CHECK(error_of([] {
          dllm::Tensor bad({2, 4}, std::vector<float>{1, 2, 3});
        }).status() == DLLM_INVALID_ARGUMENT);
  CHECK(error_of([] {
          dllm::Tensor bad({INT64_MAX, INT64_MAX}, std::vector<float>{1});
        }).status() == DLLM_INVALID_ARGUMENT);
  dllm::Batch batch;
  batch.set("ids", {1, 4}, std::vector<int32_t>{5, 6, 7, 8});
  CHECK(batch.names() == std::vector<std::string>{"ids"});
  const dllm::Batch out = scene.model.forward(batch);
  const dllm::Tensor logits = out.array("logits");
  CHECK(logits.dims().back() == scene.model.vocab());
  CHECK(std::isfinite(logits.data<float>()[0]));
  CHECK(error_of([&] { out.array("logitz"); }).hint().find("logits") != std::string::npos);
  CHECK(scene.model.params() > 10000 && scene.model.layers() == 2 && scene.model.hidden() == 32);
  CHECK(scene.model.param(scene.model.param_names().front()).size() > 0);
}

void test_text(const Scene& scene, const fs::path& folder) {
  const std::string words = "the cat sat on the log";
  const std::vector<int32_t> ids = scene.tokenizer.encode(words);
  CHECK(!ids.empty() && scene.tokenizer.decode(ids) == words);
  CHECK(scene.tokenizer.encode("").empty());
  const dllm::Task task;
  CHECK(scene.tokenizer.encode(words, task) == ids);
  const auto streamed = scene.tokenizer.decode_stream(ids);
  CHECK(streamed.used == ids.size() && streamed.text == words);
  dllm::Answer answer(scene.tokenizer,
                      {{"begin", 1}, {"stop_texts", std::vector<std::string>{"log"}}});
  std::vector<uint8_t> states(ids.size(), DLLM_MASKED);
  std::string shown;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    states[i] = DLLM_FINAL;
    const int32_t end = answer.update(ids, states);
    shown += answer.next();
    CHECK(end == (i + 1 == ids.size() ? DLLM_ANSWER_STOP_TEXT : DLLM_ANSWER_OPEN));
  }
  const std::string said = scene.tokenizer.decode(std::span(ids).first(1)) + shown;
  CHECK(said == "the cat sat on the " && answer.text() == shown);
  std::string drawn;
  for (const std::string& cell : answer.cells()) drawn += cell;
  CHECK(drawn == words && answer.cells().size() == ids.size());
  CHECK(error_of([&] { answer.update(ids, std::vector<uint8_t>(2)); }).status() ==
        DLLM_INVALID_ARGUMENT);
  const dllm::Batch chat = scene.tokenizer.chat(
      R"([{"role": "user", "content": "the cat"}])",
      {{"template", "{% for m in messages %}{{ m.content }}{% endfor %}"}}, &task);
  CHECK(scene.tokenizer.decode(chat.array("ids").data<int32_t>()) == "the cat");
  scene.tokenizer.save((folder / "tokenizer.json").string());
  CHECK(dllm::Tokenizer::load((folder / "tokenizer.json").string()).size() ==
        scene.tokenizer.size());
  dllm::Loader loader(scene.data, {{"batch", 2}, {"length", 16}, {"epochs", 1}});
  int batches = 0;
  while (loader.next()) ++batches;
  CHECK(batches > 2);
  loader.seek(0);
  CHECK(loader.position() == 0);
}

void test_training(Scene& scene, const fs::path& folder) {
  dllm::Loader loader(scene.data, {{"batch", 4}, {"length", 32}, {"epochs", 0}});
  const dllm::Schedule schedule("cosine");
  CHECK(schedule.eval(std::array{0.0, 1.0}).alpha[0] > 0.99);
  dllm::Objective objective("mdlm", {}, &schedule);
  dllm::Trainer trainer(scene.model, objective, {{"lr", 1e-3}, {"ema", 0.9}});
  double loss = 0;
  for (int step = 0; step < 10; ++step) loss = trainer.step(*loader.next());
  CHECK(std::isfinite(loss) && trainer.metric("step") == 10);
  int events = 0;
  trainer.run(loader, 5, [&](const dllm::Event& event) {
    if (event.kind() == DLLM_EVENT_TRAIN_STEP && std::isfinite(event.f64("loss"))) ++events;
    return events == 3 ? dllm::Next::stop : dllm::Next::go_on;
  });
  CHECK(events == 3 && trainer.metric("step") == 13);
  const std::string saved = trainer.save((folder / "run").string(), &loader);
  CHECK(dllm::Checkpoint::latest((folder / "run").string()) == saved);
  CHECK(!dllm::Checkpoint::latest((folder / "no_run").string()));
  const dllm::Checkpoint checkpoint(saved);
  checkpoint.verify();
  CHECK(checkpoint.describe().find("tensors") != std::string::npos);
  trainer.step(*loader.next());
  trainer.restore(saved, &loader);
  CHECK(trainer.metric("step") == 13);
  CHECK(trainer.model("ema").params() == scene.model.params());
  CHECK(dllm::Model::load(scene.engine, saved).params() == scene.model.params());
}

struct Interrupted {
  int step;
};

void test_decoding(Scene& scene) {
  const std::vector<int32_t> prompt = scene.tokenizer.encode("the cat");
  const auto size = prompt.size() + 24;
  dllm::Decoder decoder(scene.model, {{"steps", 6}, {"gen_length", 24}, {"trace", true}});
  decoder.start(prompt, 7);
  int events = 0;
  decoder.run([&](const dllm::Event& event) {
    if (event.kind() != DLLM_EVENT_DECODE_STEP) return;
    ++events;
    CHECK(event.i32s("ids").size() == size && event.f32s("confidence").size() == size);
    CHECK(event.i32s("nothing").data() == nullptr && event.i64("step") >= 0);
    CHECK(event.describe().find("decode_step") != std::string::npos);
  });
  CHECK(events == 6 && decoder.metric("open") == 0);
  const std::vector<int32_t> ids = decoder.ids();
  CHECK(ids.size() == size && decoder.states().front() == DLLM_FIXED &&
        decoder.confidence().size() == size);
  CHECK(!decoder.trace().empty());
  // Step by step the same; in a loop of the language.
  decoder.start(prompt, 7);
  int64_t last = -1;
  for (const int64_t active : decoder.steps()) last = active;
  CHECK(last == 0 && decoder.ids() == ids);
  // What a callback throws comes out as it is, and the decoder goes on from there.
  decoder.start(prompt, 7);
  int thrown_at = 0;
  try {
    decoder.run([step = 0](const dllm::Event&) mutable {
      if (++step == 2) throw Interrupted{step};
    });
  } catch (const Interrupted& thrown) {
    thrown_at = thrown.step;
  }
  CHECK(thrown_at == 2 && decoder.metric("open") > 0);
  const std::function<void(const dllm::Event&)> nothing = [](const dllm::Event&) {};
  decoder.run(nothing);
  CHECK(decoder.ids() == ids);
  // A slot with holes of one's own.
  dllm::Decoder infill(scene.model, {{"steps", 4}});
  std::vector<uint8_t> fixed(prompt.size(), 1);
  fixed.back() = 0;
  const int64_t slot = infill.add(prompt, fixed, {{"seed", 5}});
  infill.run();
  CHECK(infill.states(slot).back() == DLLM_FINAL && infill.ids(slot).front() == prompt.front());
  CHECK(error_of([&] { infill.add(prompt, std::vector<uint8_t>{1}); }).status() ==
        DLLM_INVALID_ARGUMENT);
  infill.remove(slot);
  CHECK(error_of([&] { infill.ids(slot); }).status() == DLLM_NOT_FOUND);
  // The host decides.
  dllm::Decoder mine(scene.model, {{"steps", 4}, {"gen_length", 8}});
  mine.start(prompt, 1);
  mine.predict();
  const std::vector<int32_t> positions = mine.statistics().array("positions").read<int32_t>();
  mine.commit(0, std::array{int64_t{positions[0]}}, std::array{int32_t{9}});
  CHECK(mine.ids()[static_cast<std::size_t>(positions[0])] == 9);
}

void test_json() {
  const dllm::JsonText all(
      R"( {"a\"b": [1, -2,{"x": "]"}, []], "text": "q\"\\\n\u00e9\ud83d\ude00","holes":["", "x,y"], "n" : -7, "e": {}} )");
  CHECK(all["a\"b"].items().size() == 4 && all["a\"b"].items()[1].whole() == -2);
  CHECK(all["a\"b"].items()[2]["x"].text() == "]" && all["a\"b"].items()[3].items().empty());
  CHECK(all["text"].text() == "q\"\\\n\u00e9\U0001F600");
  CHECK(all["holes"].items().size() == 2 && all["holes"].items()[1].text() == "x,y");
  CHECK(all["n"].whole() == -7 && all["e"].items().empty() && all["nothing"].written().empty());
  CHECK(dllm::JsonText("[]").items().empty() && dllm::JsonText("").items().empty());
}

void test_generator(const Scene& scene) {
  dllm::Generator generator(scene.model, scene.tokenizer, {{"slots", 2}});
  const auto open = [&] { return dllm::JsonText(generator.describe())["requests"].whole(); };
  std::string pieces;
  const auto more = [&](std::string_view piece) { pieces += piece; };
  const dllm::Generation made =
      generator.generate("the cat", {{"length", 8}, {"steps", 4}, {"seed", -3}}, more);
  CHECK(made.text == pieces && made.whole == "the cat" + made.text && made.finish == "full");
  CHECK(made.seed == -3 && made.steps == 4 && made.nfe == 4 && made.completion_tokens == 8);
  CHECK(made.policy == "low_confidence" && made.holes.empty());
  CHECK(made.ids.size() == static_cast<std::size_t>(made.prompt_tokens) + 8);
  CHECK(made.confidence.size() == made.ids.size() && made.confidence.front() == 1);
  const dllm::Generation filled =
      generator.infill("the<mask:3> sat on<mask:2> mat", {{"steps", 2}});
  CHECK(filled.holes.size() == 2 && filled.whole == filled.text);
  CHECK(filled.text == "the" + filled.holes[0] + " sat on" + filled.holes[1] + " mat");
  // More prompts than slots; one of them fails alone.
  const std::vector<dllm::Setting> brief = {{"length", 8}, {"steps", 4}, {"seed", 5}};
  const dllm::Prompt hole = dllm::Prompt::infill("no hole <mask:x>");
  const std::string chat = R"([{"role": "user", "content": "Hi"}])";
  auto results =
      generator.batch({"the cat", hole, "the dog", "the rain", dllm::Prompt::chat(chat)}, brief);
  CHECK(results.size() == 5 && results[1].error().status() == DLLM_INVALID_ARGUMENT);
  CHECK(results[4].error().status() == DLLM_FAILED_PRECONDITION);
  const char* prompts[] = {"the cat", "", "the dog", "the rain"};
  for (const std::size_t at : {0u, 2u, 3u}) {
    const auto seed = static_cast<int64_t>(5 + at);
    const dllm::Generation alone =
        generator.generate(prompts[at], {{"length", 8}, {"steps", 4}, {"seed", seed}});
    CHECK(results[at] && results[at]->text == alone.text && results[at]->seed == seed);
  }
  CHECK(generator.batch({}).empty() && open() == 0);
  const auto wrong = error_of([&] { (void)generator.batch({"a"}, {{"temprature", 1}}); });
  CHECK(wrong.status() == DLLM_NOT_FOUND && wrong.hint().find("temperature") != std::string::npos);
  const std::vector<std::string> stop = {"x\u00e9\U0001F600", "a\u00e9\xed\xa0\x80"};
  const auto half = error_of([&] { generator.generate("a", {{"stop", stop}}); });
  CHECK(half.status() == DLLM_INVALID_ARGUMENT &&
        std::string(half.what()) == "stop, item 2: not UTF-8 at character 3");
  const auto nan = error_of([&] { generator.generate("a", {{"temperature", std::nan("")}}); });
  CHECK(std::string(nan.what()).find("temperature") != std::string::npos);
  const dllm::Task task;
  task.cancel();
  CHECK(error_of([&] { (void)generator.batch({"a"}, {}, &task); }).status() == DLLM_CANCELLED);
  CHECK(open() == 0);
}

void test_cancel(Scene& scene) {
  dllm::Decoder decoder(scene.model, {{"steps", 400}, {"gen_length", 400}});
  decoder.start({}, 1);
  const dllm::Task task;
  std::atomic<int> steps{0};
  std::thread other([&] {
    while (steps.load() < 2) std::this_thread::yield();
    task.cancel();
  });
  const dllm::Error error =
      error_of([&] { decoder.run([&](const dllm::Event&) { ++steps; }, &task); });
  other.join();
  CHECK(error.status() == DLLM_CANCELLED && task.is_cancelled());
  CHECK(decoder.metric("open") > 0);
  CHECK(task.progress().done >= 2);
}

void test_ownership(const Scene& scene) {
  // Parents first: children keep them.
  auto engine = std::make_unique<dllm::Engine>(dllm::Settings{{"threads", 1}});
  auto model = std::make_unique<dllm::Model>(Scene::model_of(*engine, scene.tokenizer));
  dllm::Decoder decoder(*model, {{"steps", 2}, {"gen_length", 4}});
  engine.reset();
  model.reset();
  decoder.start({}, 1);
  decoder.run();
  CHECK(decoder.metric("open") == 0);
  // Moved, closed twice, used after that: a failure, not a crash.
  dllm::Decoder moved = std::move(decoder);
  CHECK(moved && !decoder); // NOLINT(bugprone-use-after-move): a moved-from object is empty
  CHECK(error_of([&] { decoder.step(); }).status() == DLLM_INVALID_ARGUMENT);
  moved.reset();
  moved.reset();
  CHECK(!moved && error_of([&] { moved.run(); }).status() == DLLM_INVALID_ARGUMENT);
  // An absent task is allowed, an empty one is a mistake.
  dllm::Task task;
  task.reset();
  dllm::Decoder other(scene.model, {{"steps", 2}, {"gen_length", 4}});
  other.start({}, 1);
  CHECK(error_of([&] { other.step(&task); }).status() == DLLM_INVALID_ARGUMENT);
  dllm_decoder* raw = other.detach();
  CHECK(!other && raw != nullptr);
  dllm::Decoder again(raw);
  CHECK(again.step() >= 0);
}

void test_lua(const Scene& scene) {
  if (!dllm::has_feature("lua")) return;
  dllm::Lua lua;
  lua.set_json("x", "20");
  lua.set_object("model", scene.model);
  CHECK(lua.run_text("sum", "function twice(n) return 2 * n end return x + 1, model ~= nil") ==
        "[21,true]");
  CHECK(lua.call_function("twice", "[21]") == "[42]");
  CHECK(error_of([&] { lua.run_text("bad", "error('x')"); }).status() == DLLM_SCRIPT_FAILED);
}

// Many objects made, used and gone, with failures and exceptions among them: the heap does not
// grow.
void test_growth(Scene& scene) {
  const auto life = [&](int number) {
    dllm::Decoder decoder(scene.model, {{"steps", 2}, {"gen_length", 4}, {"policy", "random"}});
    decoder.start(std::array{5, 6}, number);
    try {
      decoder.run([&](const dllm::Event&) { throw Interrupted{number}; });
    } catch (const Interrupted&) {
      check_quiet(decoder.metric("open") >= 0, "a life", __LINE__);
    }
    dllm::Batch batch;
    batch.set("ids", {1, 2}, std::vector<int32_t>{1, 2});
    check_quiet(error_of([&] { decoder.metric("nothing"); }).status() == DLLM_NOT_FOUND, "a life",
                __LINE__);
    check_quiet(batch.array("ids").size() == 2, "a life", __LINE__);
  };
  for (int i = 0; i < 200; ++i) life(i);
  scene.engine.trim();
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) life(i);
  scene.engine.trim();
  const auto grown = static_cast<long long>(mallinfo2().uordblks) - static_cast<long long>(before);
  std::printf("# the heap grew by %lld bytes in 1000 lives\n", grown);
  CHECK(grown < 4096);
}

// malloc counts what its caches of freed pieces hold as used. Those caches are set once, when a
// process begins.
void start_again_without_caches(char** argv) {
  if (std::getenv("GLIBC_TUNABLES") != nullptr) return;
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
  ::execv("/proc/self/exe", argv);
}

} // namespace

int main(int, char** argv) {
  start_again_without_caches(argv);
  std::string pattern = "/tmp/dllm_cpp_XXXXXX";
  const fs::path folder = ::mkdtemp(pattern.data());
  test_library();
  test_json();
  {
    Scene scene;
    test_options(scene);
    test_results(scene);
    test_arrays(scene);
    test_text(scene, folder);
    test_decoding(scene);
    test_generator(scene);
    test_training(scene, folder);
    test_cancel(scene);
    test_ownership(scene);
    test_lua(scene);
    test_growth(scene);
  }
  fs::remove_all(folder);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
