# Cancel and watch a long call.

@managed Task dllm_task_release """
    DLLM.Task(; deadline=nothing)

Pass it to a long call as `task=`, then `cancel` it from another thread or, in a run with steps, another task of Julia: the
call throws a `DLLMError` with code `:cancelled`. A cancelled task stays cancelled. `deadline`: seconds from now.
"""

function Task(; deadline = nothing)
    ready()
    made = Task(C.dllm_task_new())
    deadline === nothing || set_deadline!(made, deadline)
    return made
end

"The calls that use the task throw `:cancelled` within milliseconds. Every object stays usable."
cancel(task::Task) = C.dllm_task_cancel(task)

"Whether the task was cancelled, or its deadline has passed."
iscancelled(task::Task) = C.dllm_task_is_cancelled(task) != 0

"Seconds from now; 0 and less: it has passed already; `nothing` and `Inf` remove the deadline."
set_deadline!(task::Task, seconds) =
    C.dllm_task_set_deadline(task, seconds === nothing || seconds == Inf ? -1 : round(Int64, clamp(seconds * 1000, 0, 2.0^62)))

# Throws what a call with this task would throw, when it was cancelled or its deadline has passed.
function check(task::Task)
    iscancelled(task) || return nothing
    # Without its deadline a task is cancelled only by a cancel. The deadline is back before the next look.
    set_deadline!(task, nothing)
    was_cancelled = iscancelled(task)
    set_deadline!(task, 0)
    was_cancelled && throw(DLLMError(:cancelled, "the task was cancelled", ""))
    throw(DLLMError(:deadline_exceeded, "the task's deadline has passed", ""))
end

const PAUSE = 0.01  # seconds between two looks at the task of a call that waits, as the library has

# f() with the lock. The task ends the wait as it would end the call.
function with_lock(f, mutex, task)
    task === nothing && return lock(f, mutex)
    while !trylock(mutex)
        check(task)
        sleep(PAUSE)
    end
    try
        return f()
    finally
        unlock(mutex)
    end
end

"`(done, total)` of the running call, in bytes, steps or records. total 0: it is not known yet."
function progress(task::Task)
    done, total = Ref{Int64}(0), Ref{Int64}(0)
    C.dllm_task_progress(task, done, total)
    return (done[], total[])
end
