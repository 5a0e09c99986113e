# Decode text step by step.

const MASKED, PROVISIONAL, FINAL, FIXED =
    UInt8(C.DLLM_MASKED), UInt8(C.DLLM_PROVISIONAL), UInt8(C.DLLM_FINAL), UInt8(C.DLLM_FIXED)

@managed Decoder dllm_decoder_release """
    Decoder(model; policy, steps, gen_length, temperature, ...)

Decodes requests, one per slot (slots begin at 0). Keywords are the options of kind "decoder".

    Decoder(model; steps = 32) do decoder
        start!(decoder, encode(tokenizer, "The wise man"); seed = 1)
        for active in steps(decoder)
            println(decode(tokenizer, ids(decoder)))
        end
    end
"""

function Decoder(model::Model; settings...)
    policy = get(settings, :policy, nothing)
    kind = policy === nothing ? "decoder" : "decoder:$policy"
    return with_options(opts -> make(Decoder, C.dllm_decoder_new, model, opts), kind, settings)
end

"Removes all requests and starts one in slot 0: the prompt, then gen_length open positions."
function start!(decoder::Decoder, prompt::AbstractVector{<:Integer} = Int32[]; seed::Integer = 0)
    ids = Vector{Int32}(prompt)
    call(C.dllm_decoder_start, decoder, ids, length(ids), seed)
end

"Adds a request of ids that gen_length open positions follow; returns its slot. Options of kind \"slot\"."
add!(decoder::Decoder, prompt::AbstractVector{<:Integer}; settings...) =
    add_request(decoder, Vector{Int32}(prompt), C_NULL, settings)

is_open(id) = id === nothing || id === missing

"Adds a request with open positions anywhere, `nothing` or `missing` where one is open; returns its slot. Options of kind \"slot\"."
canvas!(decoder::Decoder, canvas::AbstractVector; settings...) =
    add_request(decoder, Int32[is_open(id) ? 0 : id for id in canvas], UInt8[!is_open(id) for id in canvas], settings)

add_request(decoder, ids, fixed, settings) = with_options("slot", settings) do opts
    Int(number(Int64, C.dllm_decoder_add, decoder, ids, fixed, length(ids), opts))
end

"Removes a request."
Base.delete!(decoder::Decoder, slot::Integer) = call(C.dllm_decoder_remove, decoder, slot)

step!(decoder::Decoder; task = nothing) = Int(number(Int64, C.dllm_decoder_step, decoder, maybe(task)))

"""
    step!(decoder, seconds; task=nothing) do event ... end

Steps within a time budget; it may end inside a step, which the next call continues. How many slots are open still.
"""
function step!(callback, decoder::Decoder, seconds::Real; task = nothing)
    active = Ref{Int64}(0)
    run_with(callback, task) do fn, user_data
        C.dllm_decoder_step_for(decoder, 1e3 * seconds, fn, user_data, maybe(task), active, thread_error())
    end
    return Int(active[])
end
step!(decoder::Decoder, seconds::Real; task = nothing) = step!(nothing, decoder, seconds; task = task)

struct Steps
    decoder::Decoder
    task::Union{Nothing,Task}
end

"Steps until everything is decided, one per iteration: how many slots are open still."
steps(decoder::Decoder; task = nothing) = Steps(decoder, task)

function Base.iterate(steps::Steps, active = 1)
    active == 0 && return nothing
    active = step!(steps.decoder; task = steps.task)
    yield()  # a task of this thread that cancels
    return (active, active)
end
Base.IteratorSize(::Type{Steps}) = Base.SizeUnknown()
Base.eltype(::Type{Steps}) = Int

"""
    run!(decoder; task = nothing) do event ... end

Takes steps until every position is decided. The callback gets `:decode_step` and `:block`, and may return `STOP`.
"""
run!(callback, decoder::Decoder; task = nothing) = run_with(callback, task) do fn, user_data
    C.dllm_decoder_run(decoder, fn, user_data, maybe(task), thread_error())
end
run!(decoder::Decoder; task = nothing) = run!(nothing, decoder; task = task)

"Runs the model for the next step and decides nothing: see `statistics` and `commit!`."
predict!(decoder::Decoder; task = nothing) = call(C.dllmx_decoder_predict, decoder, maybe(task))

"The predictions of `predict!`: positions, token, probability, ..."
statistics(decoder::Decoder, slot::Integer = 0) = make(Batch, C.dllmx_decoder_statistics, decoder, slot)

"Decides positions (which begin at 0) of one slot and ends its step."
function commit!(decoder::Decoder, slot::Integer, positions::AbstractVector, ids::AbstractVector)
    length(positions) == length(ids) || throw(DimensionMismatch("$(length(positions)) positions, $(length(ids)) ids"))
    call(C.dllmx_decoder_commit, decoder, slot, Vector{Int64}(positions), Vector{Int32}(ids), length(ids))
end

"The canvas of a slot: prompt and answer, the mask id where a position is open. Any thread, also while a step runs."
ids(decoder::Decoder, slot::Integer = 0) = array(Int32, 512, C.dllm_decoder_ids, decoder, slot)

"`MASKED`, `PROVISIONAL`, `FINAL` or `FIXED` for every position."
states(decoder::Decoder, slot::Integer = 0) = array(UInt8, 512, C.dllm_decoder_states, decoder, slot)

"The probability that each token had when it was last predicted: 1 for a given one, 0 for none."
confidence(decoder::Decoder, slot::Integer = 0) = array(Float32, 512, C.dllm_decoder_confidence, decoder, slot)

"""
    metric(decoder, key, slot = -1)

A number of a slot, or of all slots (-1): steps, nfe (forward passes), decided and open (positions), cache_bytes, ... Throws
`:not_found` for another key, and for a slot that is not in use.
"""
metric(decoder::Decoder, key::AbstractString, slot::Integer = -1) =
    number(Float64, C.dllm_decoder_metric, decoder, slot, key)

"The trace of a slot, a `Dict` per step; the decoder was made with `trace = true`."
trace(decoder::Decoder, slot::Integer = 0) =
    [parse_json(line) for line in split(text(C.dllm_decoder_trace, decoder, slot), '\n', keepempty = false)]

"A `Dict` of the options, the slots, and the metrics with their units."
describe(decoder::Decoder) = parse_json(text(C.dllm_decoder_describe, decoder))
