#ifndef DLLM_DLLM_HPP
#define DLLM_DLLM_HPP
// dllm/dllm.hpp -- the C ABI for C++20: owning classes, exceptions, spans. Header-only; link libdllm.
//
//     dllm::Engine engine({{"threads", 4}});
//     dllm::Model model = dllm::Model::load(engine, "SmolLM2-135M");
//     dllm::Tokenizer tokenizer = dllm::Tokenizer::load("SmolLM2-135M");
//     dllm::Decoder decoder(model, {{"steps", 32}, {"gen_length", 64}, {"policy", "low_confidence"}});
//     decoder.start(tokenizer.encode("Once upon a time"), 7);
//     for (int64_t active : decoder.steps()) show(active, decoder.ids());
//
// Ownership  every class owns one handle, moves and does not copy; the destructor releases it. Objects may be destroyed
//            in any order: the library keeps what is still in use. get() returns the handle, for direct calls of C functions.
// Failure    a call that fails throws dllm::Error with status, message and hint. Where an exception is not wanted,
//            dllm::attempt(f) calls f and returns a dllm::Result: the value or the Error. Without exceptions
//            (-fno-exceptions) a failed call ends the program with its message: there, call the C functions for what may
//            fail, with get() of these classes.
// Options    every parameter `settings` takes {{"key", value}, ...}, a JSON text, an Options object or nothing.
//            Keys of one policy or objective need the kind that has them: Options("decoder:spd", {{"spd.k", 4}}).
// Callbacks  any callable with a dllm::Event; it returns nothing (continue) or a dllm::Next. An exception it throws ends
//            the call and is rethrown by it. It never passes through the C functions.
// Arrays     come in as std::span and std::string_view, go out as std::vector and std::string.
// Tasks      a long call takes `const Task*`: cancel() from any thread ends it with DLLM_CANCELLED.
// Threads    as the C functions; see the C header of each call.
#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "dllm/dllm.hpp needs C++20: compile with -std=c++20, or link dllm::cpp in CMake"
#else
#include "dllm/cpp/data.hpp"
#include "dllm/cpp/decode.hpp"
#include "dllm/cpp/event.hpp"
#include "dllm/cpp/handle.hpp"
#include "dllm/cpp/library.hpp"
#include "dllm/cpp/model.hpp"
#include "dllm/cpp/options.hpp"
#include "dllm/cpp/text.hpp"
#include "dllm/cpp/train.hpp"
#endif
#endif
