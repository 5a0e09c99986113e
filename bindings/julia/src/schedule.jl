# Noise schedules: how much is masked at time t, and the weight of the loss.

@managed Schedule dllm_schedule_release """
    Schedule(name; ...)
    Schedule(t, alpha; dalpha=nothing, weight=nothing)

A schedule by name (`DLLM.names(:schedule)`), or a table of points. `schedule(times)` is
`(alpha = ..., dalpha = ..., weight = ...)`.
"""

Schedule(name::AbstractString; settings...) =
    with_options(opts -> make(Schedule, C.dllm_schedule_new, name, opts), "schedule:" * name, settings)

function Schedule(t::AbstractVector, alpha::AbstractVector; dalpha = nothing, weight = nothing)
    columns = map(column -> column === nothing ? C_NULL : Vector{Float64}(column), (t, alpha, dalpha, weight))
    counts = unique(length(column) for column in columns if column !== C_NULL)
    length(counts) == 1 || throw(DimensionMismatch("columns of different lengths: $(join(counts, ", "))"))
    return make(Schedule, C.dllm_schedule_table, columns..., counts[1])
end

function (schedule::Schedule)(t::AbstractVector)
    times = Vector{Float64}(t)
    alpha, dalpha, weight = (similar(times) for _ in 1:3)
    call(C.dllm_schedule_eval, schedule, times, length(times), alpha, dalpha, weight)
    return (alpha = alpha, dalpha = dalpha, weight = weight)
end
