# Events, and the one function that the library calls.

const KINDS = Dict(C.DLLM_EVENT_PROGRESS => :progress, C.DLLM_EVENT_TRAIN_STEP => :train_step, C.DLLM_EVENT_EVAL => :eval,
    C.DLLM_EVENT_DECODE_STEP => :decode_step, C.DLLM_EVENT_BLOCK => :block, C.DLLM_EVENT_CHECKPOINT => :checkpoint,
    C.DLLM_EVENT_TEXT => :text, C.DLLM_EVENT_ANSWER => :answer)

"""
What a callback gets: `event.kind`, `event["loss"]`, `event["ids"]`, `get(event, "nll", NaN)`. It is valid until the
callback returns. Arrays are copies; `unsafe_array(event, "ids")` is the library's own, valid as long as the event.
"""
mutable struct Event
    pointer::Ptr{Cvoid}
end

"What a callback returns to end the call without an error."
const STOP = :stop

function open_pointer(event::Event)
    pointer = getfield(event, :pointer)
    pointer == C_NULL && throw(ClosedError("event"))
    return pointer
end

function Base.getproperty(event::Event, name::Symbol)
    name === :kind || return getfield(event, name)
    number = C.dllm_event_kind(open_pointer(event))
    return get(KINDS, number, Symbol("kind_", number))
end

"An array of an event without a copy, valid until the callback returns; `nothing` when there is none of this name."
function unsafe_array(event::Event, key::AbstractString)
    pointer, count = open_pointer(event), Ref{Int64}(0)
    whole = C.dllm_event_i32s(pointer, key, count)
    whole == C_NULL || return unsafe_wrap(Array, whole, count[])
    real = C.dllm_event_f32s(pointer, key, count)
    return real == C_NULL ? nothing : unsafe_wrap(Array, real, count[])
end

function find(event::Event, key)
    pointer, whole, real = open_pointer(event), Ref{Int64}(0), Ref{Float64}(0)
    C.dllm_event_i64(pointer, key, whole, C_NULL) == C.DLLM_OK && return whole[]
    C.dllm_event_f64(pointer, key, real, C_NULL) == C.DLLM_OK && return real[]
    found = text_or_nothing(C.dllm_event_str(pointer, key))
    found === nothing || return found
    values = unsafe_array(event, key)
    return values === nothing ? nothing : copy(values)
end

Base.haskey(event::Event, key) = find(event, key) !== nothing
Base.get(event::Event, key, default) = something(find(event, key), Some(default))
function Base.getindex(event::Event, key)
    found = find(event, key)
    found === nothing && throw(KeyError(key))
    return found
end

"The whole event as a `Dict`, with the keys of `dllm/event.h`."
describe(event::Event) = parse_json(text(C.dllm_event_describe, open_pointer(event)))
Base.show(io::IO, event::Event) =
    print(io, "DLLM.Event(", getfield(event, :pointer) == C_NULL ? "over" : json(describe(event)), ")")

Base.copy(event::Event) = no_copy(event)
Base.deepcopy_internal(event::Event, ::IdDict) = no_copy(event)

# One running call: what the library passes through as user data.
mutable struct Call
    callback::Any
    problem::Union{Nothing,Some}
end

const TRAMPOLINE = Ref{Ptr{Cvoid}}(C_NULL)
const RUNNING = ReentrantLock[]  # one per thread

function trampoline(pointer::Ptr{Cvoid}, call::Call)::Int32
    event = Event(pointer)
    try
        answer = call.callback === nothing ? nothing : call.callback(event)
        yield()  # other tasks of this thread run between two steps, also one that cancels
        return answer === STOP ? C.DLLM_STOP : C.DLLM_CONTINUE
    catch problem
        call.problem = Some(problem)
        return C.DLLM_FAIL
    finally
        event.pointer = C_NULL
    end
end

# f(fn, user_data): calls the library, which calls the callback between two steps. What that throws comes out here, the same
# object. A callback may switch tasks, and the library's calls of one thread must end in the order of their beginning: the
# lock keeps another task of the thread from beginning such a call meanwhile. `task` ends the wait for it too.
function run_with(f, callback, task)
    ready()
    call = Call(callback, nothing)
    status = with_lock(RUNNING[Threads.threadid()], task) do
        GC.@preserve call f(TRAMPOLINE[], pointer_from_objref(call))
    end
    call.problem === nothing || throw(something(call.problem))
    return check(status)
end
