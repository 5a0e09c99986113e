"""
Train and decode diffusion language models, over the C ABI of libdllm.

One file per noun, with the noun's C name; `include/dllm/<noun>.h` has the contracts. Settings are keywords, a failed call
throws a [`DLLMError`](@ref), `close` or a `do` block frees an object at once, else the collector does.
"""
module DLLM

include("capi.jl")
include("json.jl")
include("library.jl")
include("error.jl")
include("handle.jl")
include("options.jl")
include("settings.jl")
include("task.jl")
include("tensor.jl")
include("batch.jl")
include("event.jl")
include("engine.jl")
include("source.jl")
include("tokenizer.jl")
include("dataset.jl")
include("loader.jl")
include("model.jl")
include("schedule.jl")
include("objective.jl")
include("trainer.jl")
include("decoder.jl")
include("answer.jl")
include("generator.jl")
include("turns.jl")
include("generation.jl")
include("stream.jl")
include("queue.jl")
include("checkpoint.jl")
include("hub.jl")
include("lua.jl")

export Answer, Batch, Checkpoint, ClosedError, DLLMError, Dataset, Decoder, Engine, Event, Generation, Generator, Infill, Loader,
    Lua, Model, Objective, Piece, Queue, Schedule, Source, Tensor, Ticket, Tokenizer, Trainer
export STOP, MASKED, PROVISIONAL, FINAL, FIXED
export adapters, add!, add_adapter!, add_network!, answer_text, apply!, batch, cancel!, canvas!, cells, chat, commit!, confidence, decode,
    decode_stream, describe, drain!, encode, evaluate, forward, generate, generation, hub_describe, hub_list, hub_remove, hub_verify,
    ids, infill, latest, load_adapter!, loss, merge_adapter!, metric, next!, param, param_names, predict!, prepare, pull,
    remove_adapter!, remove_network!, request_text, restore!, row_losses, run!, save, save_adapter, set!, set_adapter_scale!, start!, states,
    statistics, step!, steps, stream, submit!, sync!, trace, update!

function __init__()
    TRAMPOLINE[] = @cfunction(trampoline, Int32, (Ptr{Cvoid}, Ref{Call}))
    empty!(ERRORS)
    append!(ERRORS, fill(C_NULL, Threads.nthreads()))
    empty!(RUNNING)
    append!(RUNNING, [ReentrantLock() for _ in 1:Threads.nthreads()])
    try
        load(candidates()...)
        atexit(release_errors)
    catch problem
        FAILURE[] = sprint(showerror, problem)
        @error "DLLM: $(FAILURE[])"
    end
end

end
