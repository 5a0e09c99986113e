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

"Requests the calls that use the task to stop."
cancel(task::Task) = C.dllm_task_cancel(task)

iscancelled(task::Task) = C.dllm_task_is_cancelled(task) != 0

"Seconds from now; `nothing` removes the deadline."
set_deadline!(task::Task, seconds) =
    C.dllm_task_set_deadline(task, seconds === nothing ? -1 : round(Int64, seconds * 1000))

"`(done, total)` of the running call; total 0: not known yet."
function progress(task::Task)
    done, total = Ref{Int64}(0), Ref{Int64}(0)
    C.dllm_task_progress(task, done, total)
    return (done[], total[])
end
