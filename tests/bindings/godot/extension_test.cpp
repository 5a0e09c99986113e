// Loads libdllm_godot.so as Godot does and calls its class as scripts do.   extension_test
// EXTENSION FOLDER README
//   FOLDER   a place for a model that the test makes
//   README   every method that its GDScript calls on `writer` must be registered

#include "bindings/godot/fake_godot.h"

#include <dllm/dllm.hpp>

#include <dlfcn.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <regex>
#include <sstream>

namespace {

int failures = 0;

void check(bool ok, const std::string& what) {
  std::cout << (ok ? "ok - " : "not ok - ") << what << "\n";
  if (!ok) ++failures;
}

// A small model with a tokenizer, in `folder`; returns what a run without slices writes behind "the
// cat".
std::string make_model(const std::string& folder) {
  dllm::Dataset sentences;
  for (int i = 0; i < 200; ++i)
    sentences.add_text("the cat sat on the mat and looked at the moon number " +
                       std::to_string(i % 7));
  const dllm::Tokenizer tokenizer = dllm::Tokenizer::train(sentences, {{"vocab_size", 300}});
  dllm::Model model = dllm::Model::from_config(
      dllm::Engine(),
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": )" +
          std::to_string(tokenizer.size()) +
          R"(, "dllm": {"attention": "bidirectional", "mask_token_id": )" +
          std::to_string(tokenizer.id("mask")) + "}}");
  model.set_tokenizer(tokenizer);
  model.save(folder, {{"overwrite", true}});
  dllm::Decoder decoder(model, {{"steps", 12}, {"gen_length", 12}});
  const std::vector<int32_t> prompt = tokenizer.encode("the cat");
  decoder.start(prompt, 7);
  decoder.run();
  const std::vector<int32_t> ids = decoder.ids();
  return tokenizer.decode(std::span(ids).subspan(prompt.size()));
}

constexpr char kClass[] = "DecodedText";
constexpr char kOptions[] = R"({"steps": 12, "gen_length": 12})";

// The result of a call that the method takes, as text: "true", "12", or the String itself.
std::string result_of(fake::Object* object, const std::string& method,
                      std::vector<fake::Variant> arguments) {
  GDExtensionCallError error{};
  fake::Variant result = fake::call(object, method, std::move(arguments), error);
  std::string text = "error " + std::to_string(error.error);
  if (error.error == GDEXTENSION_CALL_OK)
    text = result.type == GDEXTENSION_VARIANT_TYPE_STRING ? *result.text
           : result.yes                                   ? "true"
                                                          : "false";
  fake::destroy(result);
  return text;
}

void check_errors(fake::Object* writer) {
  check(result_of(writer, "say", {fake::variant("a"), fake::variant(int64_t{1})}) == "false" &&
            result_of(writer, "error", {}).find("call load()") != std::string::npos,
        "say before load fails with a hint");
  const size_t printed = fake::errors.size();
  check(result_of(writer, "load",
                  {fake::variant("no/such/folder"), fake::variant(int64_t{1}),
                   fake::variant("")}) == "false" &&
            result_of(writer, "error", {}).find("no/such/folder") != std::string::npos,
        "a folder that is missing is named");
  check(fake::errors.size() == printed + 1, "and is in Godot's list of errors");
  GDExtensionCallError error{};
  fake::call(writer, "say", {fake::variant("a"), fake::variant("b")}, error);
  check(error.error == GDEXTENSION_CALL_ERROR_INVALID_ARGUMENT && error.argument == 1 &&
            error.expected == GDEXTENSION_VARIANT_TYPE_INT,
        "an argument of another type is refused");
  fake::call(writer, "say", {fake::variant("a")}, error);
  check(error.error == GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS && error.expected == 2,
        "so is a missing one");
}

void check_decoding(fake::Object* writer, const std::string& folder, const std::string& expected) {
  check(result_of(writer, "load",
                  {fake::variant(folder.c_str()), fake::variant(int64_t{1}),
                   fake::variant(kOptions)}) == "true",
        "the model loads");
  check(result_of(writer, "say", {fake::variant("the cat"), fake::variant(int64_t{7})}) == "true" &&
            result_of(writer, "is_busy", {}) == "true",
        "a text begins");
  int64_t frames = 0;
  bool has_grown = false;
  for (; result_of(writer, "step_for", {fake::variant(0.05)}) == "true"; ++frames) {
    const std::string text = result_of(writer, "text", {});
    has_grown |= !text.empty() && text != expected;
  }
  check(frames > 3 && has_grown, "it is decoded over " + std::to_string(frames) + " frames");
  check(result_of(writer, "text", {}) == expected && result_of(writer, "is_busy", {}) == "false",
        "the text is that of a run without slices");
}

// Bare values, as from scripts with types. A whole number as the budget, Variants alone convert.
void check_values(fake::Object* writer, const std::string& expected) {
  const auto& methods = fake::classes.at(kClass).methods;
  const auto ptrcall = [&](const char* name, std::vector<const void*> arguments, void* result) {
    std::vector<GDExtensionConstTypePtr> places;
    for (const void* place : arguments)
      places.push_back(static_cast<GDExtensionConstTypePtr>(place));
    const fake::Method& method = methods.at(name);
    method.ptrcall(method.user_data, writer->instance, places.data(),
                   static_cast<GDExtensionTypePtr>(result));
  };
  fake::Text prompt("the cat"), text("before");
  const int64_t seed = 7;
  const double budget = 1000;
  GDExtensionBool ok = 0;
  ptrcall("say", {&prompt.content, &seed}, &ok);
  check(ok == 1, "a call with bare values");
  for (int frame = 0; ok == 1 && frame < 1000; ++frame) ptrcall("step_for", {&budget}, &ok);
  ptrcall("text", {}, &text.content);
  check(*text.content == expected, "returns the same text");
  check(result_of(writer, "say", {fake::variant("the"), fake::variant(int64_t{1})}) == "true" &&
            result_of(writer, "step_for", {fake::variant(int64_t{0})}) == "true",
        "a whole number is a budget too");
}

void check_readme(const char* path) {
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  const std::string text = page.str();
  const std::regex called("writer[.](\\w+)\\(");
  const auto& methods = fake::classes.at(kClass).methods;
  int64_t calls = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), called), end; i != end; ++i, ++calls) {
    const std::string name = (*i)[1];
    check(methods.count(name) == 1, "the method " + name + " of the README is registered");
  }
  check(calls > 3, "the README calls methods");
}

void run(GDExtensionInitializationFunction init, const std::string& folder, const char* readme) {
  GDExtensionInitialization levels{};
  fake::hidden = "classdb_register_extension_class2";
  check(init(fake::get_proc_address, nullptr, &levels) == 0, "a Godot before 4.2 is refused");
  fake::hidden.clear();
  check(init(fake::get_proc_address, nullptr, &levels) == 1, "the extension is loaded");
  for (int level = 0; level < GDEXTENSION_MAX_INITIALIZATION_LEVEL; ++level) {
    levels.initialize(levels.userdata, static_cast<GDExtensionInitializationLevel>(level));
    check((fake::classes.count(kClass) == 1) == (level >= GDEXTENSION_INITIALIZATION_SCENE),
          "level " + std::to_string(level));
  }
  check(fake::classes.at(kClass).parent == "RefCounted", "the class is counted");
  check(fake::classes.at(kClass).methods.at("load").parameters.size() == 3, "load has parameters");
  check_readme(readme);
  const std::string expected = make_model(folder);
  fake::Object* writer = fake::create(kClass);
  check(writer->base == "RefCounted" && writer->class_name == kClass, "an object is made");
  check_errors(writer);
  check_decoding(writer, folder, expected);
  check_values(writer, expected);
  fake::free_object(kClass, writer); // in the middle of a step
  for (int level = GDEXTENSION_MAX_INITIALIZATION_LEVEL - 1; level >= 0; --level)
    levels.deinitialize(levels.userdata, static_cast<GDExtensionInitializationLevel>(level));
  check(fake::classes.empty(), "the class is taken away");
  check(fake::live_strings == 0 && fake::live_objects == 0,
        std::to_string(fake::live_strings) + " strings and " + std::to_string(fake::live_objects) +
            " objects are left");
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::cout << "not ok - " << dlerror() << "\n";
    return 1;
  }
  void* entry = dlsym(library, "dllm_godot_init"); // entry_symbol of dllm.gdextension
  check(entry != nullptr, "the entry is exported");
  if (entry != nullptr)
    run(reinterpret_cast<GDExtensionInitializationFunction>(entry), argv[2], argv[3]);
  dlclose(library);
  std::cout << "# " << failures << " failures\n";
  return failures == 0 ? 0 : 1;
}
