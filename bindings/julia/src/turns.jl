# The turns of tasks on a generator: their calls run one after another.

struct Turns
    mutex::ReentrantLock
end
Turns() = Turns(ReentrantLock())

const TURNS = WeakKeyDict{Generator,Turns}()
turns_of(generator) = get!(Turns, TURNS, generator)

# f() when no other task has the turn. `task` ends the wait as it would end the call.
in_turn(f, generator, task) = with_lock(turns_of(generator).mutex, task) do
    try
        f()
    finally
        remove_left(generator)
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
    mutex = turns_of(generator).mutex
    trylock(mutex) || return
    try
        remove_left(generator)
    finally
        unlock(mutex)
    end
end
