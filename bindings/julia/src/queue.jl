# Requests of many tasks, which one model answers.

@managed Queue dllm_queue_release """
    Queue(path; engine, task, ...)
    Queue(model, tokenizer; ...)

Answers the requests of many tasks of Julia with one model. It decodes on a thread of its own, and requests join and leave
between two steps. The text of a request is the one that a `Generator` returns for it. `path` and `engine` are as of a
`Generator`. Close it when no call of it runs: that cancels what is not over.

    Queue("runs/first"; slots = 8) do queue
        foreach(println, asyncmap(prompt -> generate(queue, prompt; length = 32), ["The wise man", "The sea"]))
    end

Keywords of a queue:

$(KEYWORDS.queue)
Keywords of its model, with `path`:

$(KEYWORDS.model)"""

Queue(path::AbstractString; settings...) = load_with_tokenizer(Queue, "queue", C.dllm_queue_load, path; settings...)

Queue(model::Model, tokenizer::Tokenizer; settings...) = with_options("queue", settings) do opts
    make(Queue, C.dllm_queue_new, model, tokenizer, opts)
end

"""
A request of a queue, from `submit!`. A loop over it gives what is new each time that the request has changed; one loop reads
the pieces. `close` removes the request, and so do the end of the loop and the collector.
"""
mutable struct Ticket
    queue::Queue
    request::Int
    seen::Int  # version of the last piece; 1 is that of a request before its first step
    last::Union{Nothing,Generation}
    is_open::Bool
end

"""
    submit!(queue, prompt; task, ...)

Submits a request and returns its `Ticket` at once. `prompt` and errors are as in `add!`; it throws `:resource_exhausted` when
too many requests wait, and `:unavailable` after `drain!`. The ticket has later errors. It takes the keywords of `add!`, and:

$(KEYWORDS.submission)"""
function submit!(queue::Queue, prompt; task = nothing, settings...)
    own, request = divided("submission", request_of(prompt, settings))
    number_of_request = with_options(kind_of_request(request), request) do opts
        with_options("submission", own) do how
            Int(number(Int64, C.dllm_queue_submit, queue, opts, how, maybe(task)))
        end
    end
    return finalizer(close, Ticket(queue, number_of_request, 1, nothing, true))
end

"""
    generate(queue, prompt; task, ...)

Decodes one request together with the requests of other tasks, and removes it. Keywords are as in `submit!`.
"""
function generate(queue::Queue, prompt; task = nothing, settings...)
    ticket = submit!(queue, prompt; task = task, settings...)
    try
        return generation(ticket; task = task)
    finally
        close(ticket)
    end
end

const LOOK = 2  # milliseconds of a wait in C: other tasks of the thread go on between two, and the collector of all threads

# Waits until the version is above `seen`, the request is over, or `seconds` are up: whether it is over.
function wait_above(ticket::Ticket, seen, seconds, task)
    version, over, finish = Ref{Int64}(seen), Ref{Int64}(0), time() + seconds
    while true
        most = clamp(ceil(Int, 1000 * min(finish - time(), 1)), 0, LOOK)
        call(C.dllm_queue_wait, ticket.queue, ticket.request, most, maybe(task), version, over)
        (over[] != 0 || version[] > seen || time() >= finish) && return over[] != 0
        yield()
    end
end

"""
    wait(ticket; timeout = Inf, task)

Waits until the request is over, or for `timeout` seconds. Returns whether it is over.
"""
Base.wait(ticket::Ticket; timeout = Inf, task = nothing) =
    ticket.last !== nothing || wait_above(ticket, typemax(Int64), timeout, task)

"A part of the text of a request, as of its last complete step. It throws the error of a request that failed."
request_text(ticket::Ticket, part = "completion") =
    text(C.dllm_queue_text, ticket.queue, ticket.request, string(part))

"The request as a `Dict`: what `describe` of a generator has, and phase, version, seconds_waited, ..."
describe(ticket::Ticket) = parse_json(text(C.dllm_queue_describe, ticket.queue, ticket.request))

"The queue as a `Dict`: slots, waiting, decoding, over, totals, ..."
describe(queue::Queue) = parse_json(text(C.dllm_queue_describe, queue, -1))

"""
    generation(ticket; task)

Waits for the end; the answer. It throws the error of a request that failed: `:cancelled`, `:deadline_exceeded` after its
timeout, or that of a step. When the `task` ends the wait, the request goes on.
"""
function generation(ticket::Ticket; task = nothing)
    wait(ticket; task = task)
    ticket.last === nothing || return ticket.last
    request_text(ticket)
    return generation_of(describe(ticket))
end

"Ends the request of a ticket: whoever reads it gets `:cancelled`. A request that is over stays as it is."
cancel!(ticket::Ticket) = call(C.dllm_queue_cancel, ticket.queue, ticket.request)

"Removes the request, and cancels it where it is not over. Again: nothing."
function Base.close(ticket::Ticket)
    is_open, ticket.is_open = ticket.is_open, false
    # A finalizer may run inside of any call, whose error stays as it is.
    is_open && isopen(ticket.queue) && C.dllm_queue_remove(ticket.queue, ticket.request, C_NULL)
    return nothing
end
Base.isopen(ticket::Ticket) = ticket.is_open

function Base.iterate(ticket::Ticket, state = nothing)
    isopen(ticket) || return nothing
    try
        wait_above(ticket, ticket.seen, Inf, nothing)
        all = describe(ticket)  # before the text, which is then not older
        piece = Piece(request_text(ticket, "next"), request_text(ticket, "canvas"), all["open"], all["steps"])
        ticket.seen = all["version"]
        all["phase"] == "over" && (ticket.last = generation_of(all); close(ticket))
        return (piece, nothing)
    catch
        close(ticket)
        rethrow()
    end
end
Base.copy(ticket::Ticket) = no_copy(ticket)
Base.deepcopy_internal(ticket::Ticket, ::IdDict) = no_copy(ticket)
Base.IteratorSize(::Type{Ticket}) = Base.SizeUnknown()
Base.eltype(::Type{Ticket}) = Piece

"""
    drain!(queue; task)

Takes no further requests, and waits until all are over. When the `task` ends the wait, requests are refused all the same.
"""
drain!(queue::Queue; task = nothing) = call(C.dllm_queue_drain, queue, maybe(task))

"The model of a queue."
model(queue::Queue) = make(Model, C.dllm_queue_model, queue)

"The tokenizer of a queue."
tokenizer(queue::Queue) = make(Tokenizer, C.dllm_queue_tokenizer, queue)
