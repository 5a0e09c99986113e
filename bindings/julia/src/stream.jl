# A request that is read step by step.

"What one step added to a text: `text` (new final text, may be empty), `canvas` (all of it, `<mask:N>` for N open positions),
`open` (positions), `step`."
struct Piece
    text::String
    canvas::String
    open::Int
    step::Int
end

Base.print(io::IO, piece::Piece) = print(io, piece.text)

"The iterator of `stream`. `generation(stream)` is the last generation, `nothing` before the first piece."
mutable struct Stream
    generator::Generator
    request::Int  # -1: removed
    task::Union{Nothing,Task}
    last::Union{Nothing,Generation}
end

function leave(stream::Stream)
    stream.request < 0 && return
    trylock(LEFT_LOCK) || (finalizer(leave, stream); return)
    push!(LEFT, (stream.generator, stream.request))
    unlock(LEFT_LOCK)
    return
end

"""
    stream(generator, prompt; task, ...)
    stream(f, generator, prompt; task, ...)

A request for a loop over its pieces, one a step. The end of the loop removes the request; a loop that is left early does so
with `close(stream)`, or when the stream is collected. The form with a function calls `f(piece)`, which may return `STOP`,
always removes the request, and returns the last `Generation`. Keywords and errors are as in `add!`.

    for piece in stream(generator, "The wise man")
        print(piece)
    end
"""
function stream(generator::Generator, prompt; task = nothing, settings...)
    request = in_turn(() -> add!(generator, prompt; task = task, settings...), generator, task)
    return finalizer(leave, Stream(generator, request, task, nothing))
end

function stream(f::Function, generator::Generator, prompt; settings...)
    pieces = stream(generator, prompt; settings...)
    try
        for piece in pieces
            f(piece) === STOP && break
        end
    finally
        close(pieces)
    end
    return generation(pieces)
end

"The last generation of a stream, `nothing` before its first piece."
generation(stream::Stream) = stream.last

"Removes the request: now, or after the call of another task. Again: nothing."
function Base.close(stream::Stream)
    generator, request = stream.generator, stream.request
    stream.request = -1
    (request < 0 || !isopen(generator)) && return nothing
    forget(generator, request)
    return nothing
end
Base.isopen(stream::Stream) = stream.request >= 0

function Base.iterate(stream::Stream, state = nothing)
    isopen(stream) || return nothing
    piece = try
        in_turn(() -> next_piece(stream), stream.generator, stream.task)
    catch
        close(stream)
        rethrow()
    end
    stream.last.finish === :open || close(stream)
    yield()  # a task of this thread that cancels
    return (piece, nothing)
end
Base.copy(stream::Stream) = no_copy(stream)
Base.deepcopy_internal(stream::Stream, ::IdDict) = no_copy(stream)
Base.IteratorSize(::Type{Stream}) = Base.SizeUnknown()
Base.eltype(::Type{Stream}) = Piece

function next_piece(stream::Stream)
    generator, request = stream.generator, stream.request
    step!(generator; task = stream.task)
    made = stream.last = generation(generator, request)
    return Piece(request_text(generator, request, "next"), request_text(generator, request, "canvas"), made.open, made.steps)
end
