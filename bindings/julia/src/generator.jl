# Text in, text out.

@managed Generator dllm_generator_release """
    Generator(path; engine, task, ...)
    Generator(model, tokenizer; ...)

Takes requests for text and returns text: a model, its tokenizer and a decoder. `path` is a model folder, a GGUF file, a run
or a checkpoint. `engine` is an `Engine`, or a named tuple of its keywords. Any task of Julia may call a generator: its calls
and the steps of its streams run one after another, and a `task` ends the wait too. A callback may call `request_text` and
`describe` of its generator; other calls throw `:failed_precondition`. It must not wait for a call of another task.

    Generator("runs/first") do generator
        println(generate(generator, "The wise man"; length = 32))
    end

A failed call throws a `DLLMError`. Keywords of a generator:

$(KEYWORDS.generator)
Keywords of its model, with `path`:

$(KEYWORDS.model)"""

Generator(path::AbstractString; settings...) =
    load_with_tokenizer(Generator, "generator", C.dllm_generator_load, path; settings...)

# An object of a type, of a model with its tokenizer.
function load_with_tokenizer(type, kind, f, path; engine = default_engine(), task = nothing, settings...)
    if !(engine isa Engine)
        return with(made -> load_with_tokenizer(type, kind, f, path; engine = made, task = task, settings...), engine_of(engine))
    end
    mine, others = divided(kind, settings)
    its_model = keys_of("model")
    for name in keys(others)
        name in its_model || throw(unknown_of_load(kind, name, [keys_of(kind); its_model; :engine; :task]))
    end
    return with_options(kind, mine) do opts
        with_options("model", others) do model_opts
            make(type, f, path, engine, model_opts, opts, maybe(task))
        end
    end
end

# The keywords of a kind, and the others.
function divided(kind, settings)
    own = keys_of(kind)
    return filter(pair -> pair[1] in own, Dict(settings)), filter(pair -> !(pair[1] in own), Dict(settings))
end

keys_of(kind) = [Symbol(key["name"]) for key in schema(kind)["keys"]]

# The hint of the library for an unknown keyword of a kind.
function hint_for(kind, name)
    try
        with(options -> "", Options(kind, Dict(name => 0)))
    catch problem
        problem isa DLLMError || rethrow()
        problem.hint
    end
end

# The error of a keyword that a load does not have: the nearest name of one of its kinds, or all its names.
function unknown_of_load(noun, name, names)
    near = filter(hint -> startswith(hint, "did you mean"), [hint_for(kind, name) for kind in (noun, "model")])
    hint = isempty(near) ? "the names are " * join(sort(string.(names)), ", ") : first(near)
    return DLLMError(:not_found, "there is no option named \"$name\" of kind model or $noun", hint)
end

engine_of(settings::NamedTuple) = Engine(; settings...)
engine_of(settings::AbstractDict) = Engine(; (Symbol(key) => value for (key, value) in settings)...)
engine_of(other) = throw(ArgumentError("engine is a $(typeof(other)); use an Engine or a named tuple of its keywords"))

Generator(model::Model, tokenizer::Tokenizer; settings...) = with_options("generator", settings) do opts
    make(Generator, C.dllm_generator_new, model, tokenizer, opts)
end

"""
    Infill(text)

A text with holes in the place of a prompt: `<mask:N>` is N open tokens, `<mask>` is one.
"""
struct Infill
    text::String
end

first_text(prompt::AbstractString) = :prompt => prompt
first_text(prompt::Infill) = :infill => prompt.text
first_text(prompt::AbstractVector) = :messages => prompt
first_text(prompt) = throw(ArgumentError("a prompt is a $(typeof(prompt)); use a text, an Infill or a list of messages"))

function request_of(prompt, settings)
    key, value = first_text(prompt)
    return merge(Dict{Symbol,Any}(settings), Dict{Symbol,Any}(key => value))
end

# A policy has keywords of its own.
function kind_of_request(request)
    policy = get(request, :policy, nothing)
    return policy in (nothing, "auto", :auto) ? "request" : "request:$policy"
end

"""
    add!(generator, prompt; task, ...)

Adds a request and returns its number. `prompt` is a text that the answer continues, an `Infill`, or a list of messages
`(role = "user", content = "Hi")`. It throws `:out_of_range` when prompt and answer are longer than the model allows,
`:resource_exhausted` when no slot is free, `:failed_precondition` for messages without a chat template. Keywords:

$(KEYWORDS.request)
$(KEYWORDS.policies)"""
function add!(generator::Generator, prompt; task = nothing, settings...)
    remove_left(generator)
    request = request_of(prompt, settings)
    return in_turn(generator, task) do
        with_options(kind_of_request(request), request) do opts
            Int(number(Int64, C.dllm_generator_add, generator, opts, maybe(task)))
        end
    end
end

"Removes a request, open or over; its number may be used again."
Base.delete!(generator::Generator, request::Integer) =
    in_turn(() -> call(C.dllm_generator_remove, generator, request), generator)

"""
    step!(generator; task)

One denoising step of every open request; returns how many requests are open. A request that fails is over: `request_text`
throws its error.
"""
step!(generator::Generator; task = nothing) =
    in_turn(() -> Int(number(Int64, C.dllm_generator_step, generator, maybe(task))), generator, task)

"""
    run!(generator; task) do event ... end

Steps until no request is open. The callback gets an event `:text` after each step of a request and `:answer` when it is
over. After a cancelled run the requests are open, and a later run continues.
"""
run!(callback, generator::Generator; task = nothing) = in_turn(generator, task) do
    run_with(callback, task) do fn, user_data
        C.dllm_generator_run(generator, fn, user_data, maybe(task), thread_error())
    end
end
run!(generator::Generator; task = nothing) = run!(nothing, generator; task = task)

"""
    request_text(generator, request, part = "completion")

A part of the text of a request: `completion`, `text` (prompt and answer), `next` (final text that was not returned before) or
`canvas` (`<mask:N>` for N open positions). It throws the error of a request that failed.
"""
request_text(generator::Generator, request::Integer, part = "completion") =
    in_turn(() -> text(C.dllm_generator_text, generator, request, string(part)), generator)

"A request as a `Dict`; -1: the generator."
describe(generator::Generator, request::Integer = -1) =
    parse_json(in_turn(() -> text(C.dllm_generator_describe, generator, request), generator))

"The decoder, for what it reads: its slots have the numbers of the requests. Calls that change it throw."
decoder(generator::Generator) = make(Decoder, C.dllm_generator_decoder, generator)

"The model of a generator."
model(generator::Generator) = make(Model, C.dllm_generator_model, generator)

"The tokenizer of a generator."
tokenizer(generator::Generator) = make(Tokenizer, C.dllm_generator_tokenizer, generator)
