#ifndef DLLM_DLLM_HPP
#define DLLM_DLLM_HPP
// dllm/dllm.hpp -- the C ABI for C++20: owning classes, exceptions, spans.
//
// These headers are the whole wrapper. Link libdllm.
//
//     dllm::Generator generator = dllm::Generator::load("SmolLM2-135M");
//     std::puts(generator.generate("Once upon a time", {{"length", 64}}).text.c_str());
//
// The same in steps, for a program that shows or changes the canvas:
//
//     dllm::Engine engine({{"threads", 4}});
//     dllm::Model model = dllm::Model::load(engine, "SmolLM2-135M");
//     dllm::Tokenizer tokenizer = dllm::Tokenizer::load("SmolLM2-135M");
//     dllm::Decoder decoder(
//         model, {{"steps", 32}, {"gen_length", 64}, {"policy", "low_confidence"}});
//     decoder.start(tokenizer.encode("Once upon a time"), 7);
//     for (int64_t active : decoder.steps()) show(active, decoder.ids());
//
// Ownership  Every class owns one handle, which its destructor releases. Objects can be moved and
//            cannot be copied. They may be destroyed in any order: the library keeps the objects
//            that are still in use. get() returns the handle, for direct calls of C functions.
// Failure    A call that fails throws dllm::Error with status, message and hint. In place of the
//            exception, dllm::attempt(f) calls f and returns a dllm::Result: the value or the
//            Error. Without exceptions (-fno-exceptions) a failed call ends the program with its
//            message. Such a program calls C functions, with get() of these classes, where a
//            call may fail.
// Options    Every parameter `settings` takes {{"key", value}, ...}, a JSON text, an Options object
//            or nothing. Keys of one policy or objective need the kind that has them:
//            Options("decoder:spd", {{"spd.k", 4}}).
// Callbacks  A callback is any callable with a dllm::Event. It returns nothing (continue) or a
//            dllm::Next. An exception of the callback ends the call, and the call rethrows it. The
//            exception never passes through the C functions.
// Arrays     Arrays are passed as std::span and std::string_view, and returned as std::vector and
//            std::string.
// Tasks      A long call takes `const Task*`: cancel() from any thread ends it with DLLM_CANCELLED.
// Threads    The C functions have the same rules; see the C header of each call. The calls of a
//            Generator wait for each other, so that several threads may share a generator.
#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "dllm/dllm.hpp needs C++20: compile with -std=c++20, or link dllm::cpp in CMake"
#else
#include "dllm/cpp/data.hpp"
#include "dllm/cpp/decode.hpp"
#include "dllm/cpp/event.hpp"
#include "dllm/cpp/generate.hpp"
#include "dllm/cpp/handle.hpp"
#include "dllm/cpp/hub.hpp"
#include "dllm/cpp/json.hpp"
#include "dllm/cpp/library.hpp"
#include "dllm/cpp/model.hpp"
#include "dllm/cpp/options.hpp"
#include "dllm/cpp/queue.hpp"
#include "dllm/cpp/text.hpp"
#include "dllm/cpp/train.hpp"
#include "dllm/cpp/turns.hpp"
#endif
#endif
