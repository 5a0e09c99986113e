# The texts of requests that are over.

"""
The text of a request with what is known of it: `text` (the answer; of an `Infill` the whole text), `whole` (the prompt and the
answer), `finish` (`:full`, `:end_token`, `:stop_text`, `:incomplete`; `:open`: it is not over), `holes` (the texts in the holes of an
`Infill`), `prompt_tokens`, `completion_tokens`, `open` (positions), `steps` (of denoising), `nfe` (forward passes), `ids` and
`confidence` (one entry a position), `policy`, `seed`. `string(generation)` is its text.
"""
struct Generation
    text::String
    whole::String
    finish::Symbol
    holes::Vector{String}
    prompt_tokens::Int
    completion_tokens::Int
    open::Int
    steps::Int
    nfe::Int
    ids::Vector{Int32}
    confidence::Vector{Float32}
    policy::String
    seed::Int
end

Base.print(io::IO, made::Generation) = print(io, made.text)
Base.show(io::IO, made::Generation) =
    print(io, "DLLM.Generation(", repr(made.text), ", ", made.finish, ", ", made.completion_tokens, " tokens)")

"A request as it is now; it throws the error of a request that failed."
function generation(generator::Generator, request::Integer)
    request_text(generator, request)
    return generation_of(describe(generator, request))
end

function generation_of(all)
    return Generation(all["completion"], all["text"], Symbol(all["finish"]), get(all, "holes", String[]),
        (all[key] for key in ("prompt_tokens", "completion_tokens", "open", "steps", "nfe"))..., all["ids"],
        [something(each, NaN) for each in all["confidence"]], all["policy"], all["seed"])
end

"""
    generate(generator, prompt; task, ...)

Decodes one request and returns a `Generation`. Other open requests take their steps too. The call waits for
the calls of other tasks of Julia; the `task` ends the wait too. The prompt, the keywords and the
errors are as in `add!`: length, steps, seed, stop, policy, temperature, ...
"""
function generate(generator::Generator, prompt; task = nothing, settings...)
    return in_turn(generator, task) do
        request = add!(generator, prompt; task = task, settings...)
        try
            run!(generator; task = task)
            return generation(generator, request)
        finally
            isopen(generator) && delete!(generator, request)
        end
    end
end

"""
    infill(generator, text; task, ...)

Fills the holes of a text, all at once: `<mask:N>` is N open tokens, `<mask>` is one. Otherwise it is `generate`.
"""
infill(generator::Generator, text::AbstractString; settings...) = generate(generator, Infill(text); settings...)

"""
    batch(generator, prompts; task, seed = 0, ...)

Decodes several requests together, as many at a time as the generator has slots. Prompt i has seed + i - 1. Returns a list with
a `Generation` or the error of each prompt: an error of one leaves the others alone, and a call that is cancelled is the error
of those that are not over. Keywords are as in `add!`.
"""
function batch(generator::Generator, prompts; task = nothing, settings...)
    started = false
    begin_batch() = (started = true; batch_now(generator, prompts; task = task, settings...))
    try
        return in_turn(begin_batch, generator, task)
    catch problem
        started || !(problem isa DLLMError) ? rethrow() : return fill(problem, length(prompts))
    end
end

function batch_now(generator, prompts; task, seed = 0, settings...)
    results = Vector{Union{Generation,Exception}}(undef, length(prompts))
    wave = Dict{Int,Int}()  # place => request
    try
        for (place, prompt) in enumerate(prompts)
            own = seed isa Integer ? seed + place - 1 : seed
            add() = add!(generator, prompt; task = task, seed = own, settings...)
            request = or_error(add)
            if !isempty(wave) && request isa DLLMError && request.code === :resource_exhausted
                finish!(results, generator, wave, task)
                request = or_error(add)
            end
            request isa Exception ? results[place] = request : wave[place] = request
        end
        finish!(results, generator, wave, task)
    finally
        isopen(generator) && foreach(request -> delete!(generator, request), values(wave))
    end
    return results
end

# What f returns, or the error of a call that failed or was not made.
function or_error(f)
    try
        return f()
    catch problem
        problem isa Union{DLLMError,ArgumentError} || rethrow()
        return problem
    end
end

# Runs the requests of a batch that were added, and removes them.
function finish!(results, generator, wave, task)
    ended = isempty(wave) ? nothing : or_error(() -> run!(generator; task = task))
    for place in collect(keys(wave))
        made = or_error(() -> generation(generator, wave[place]))
        still_open = made isa Generation && made.finish === :open
        results[place] = still_open && ended isa Exception ? ended : made
        delete!(generator, pop!(wave, place))
    end
end
