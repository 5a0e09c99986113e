# The turns of tasks on a generator: their calls run one after another.

mutable struct Turns
    mutex::ReentrantLock
    depth::Int  # calls of the task that has the turn, each inside of the one before
end
Turns() = Turns(ReentrantLock(), 0)

const TURNS = WeakKeyDict{Generator,Turns}()
turns_of(generator) = get!(Turns, TURNS, generator)

# f() when no other task has the turn. A call inside of a turn, as in a callback, is a part of that turn. `task` ends the wait
# as it would end the call.
function in_turn(f, generator, task = nothing)
    turns = turns_of(generator)
    return with_lock(() -> take_turn(f, generator, turns), turns.mutex, task)
end

function take_turn(f, generator, turns)
    turns.depth += 1
    try
        return f()
    finally
        turns.depth == 1 && remove_left(generator)
        turns.depth -= 1
    end
end

# Requests of streams that are over. A finalizer may run inside of any call, so that the end of a turn removes them, or add!.
const LEFT = Tuple{Generator,Int}[]
const LEFT_LOCK = Threads.SpinLock()

function take_left(generator)
    isempty(LEFT) && return nothing
    return lock(LEFT_LOCK) do
        filter!(left -> isopen(left[1]), LEFT)
        at = findfirst(left -> left[1] === generator, LEFT)
        at === nothing ? nothing : splice!(LEFT, at)[2]
    end
end

function remove_left(generator)
    while (request = take_left(generator)) !== nothing
        try
            delete!(generator, request)
        catch problem
            problem isa DLLMError || rethrow()
            if problem.code === :failed_precondition  # a call runs
                lock(() -> push!(LEFT, (generator, request)), LEFT_LOCK)
                return
            end
        end
    end
end

# Removes the request of a stream that is over: now, or after the call of another task.
function forget(generator, request)
    lock(() -> push!(LEFT, (generator, request)), LEFT_LOCK)
    turns = turns_of(generator)
    trylock(turns.mutex) || return
    try
        take_turn(() -> nothing, generator, turns)
    finally
        unlock(turns.mutex)
    end
end
