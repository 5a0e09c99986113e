# How a batch is corrupted and how the loss is computed.

@managed Objective dllm_objective_release """
    Objective(name, schedule=nothing; ...)

`DLLM.names(:objective)` lists the names; keywords are the options of kind "objective".
"""

Objective(name::AbstractString, schedule = nothing; settings...) = with_options("objective:" * name, settings) do opts
    make(Objective, C.dllm_objective_new, name, maybe(schedule), opts)
end

"Draws the noise of one step: ids with masks, targets, weights."
prepare(objective::Objective, rows; model = nothing, seed = 0, step = 0) =
    with_batch(batch -> make(Batch, C.dllm_objective_prepare, objective, maybe(model), batch, seed, step), rows)

"The loss of one batch in nats; nothing changes."
loss(objective::Objective, model::Model, rows; seed = 0, task = nothing) =
    with_batch(batch -> number(Float64, C.dllm_objective_loss, objective, model, batch, seed, maybe(task)), rows)

"`(sums = ..., counts = ...)`: the loss of every row for itself."
function row_losses(objective::Objective, model::Model, rows; seed = 0, task = nothing)
    made = with_batch(rows) do batch
        make(Batch, C.dllm_objective_row_losses, objective, model, batch, seed, maybe(task))
    end
    return with(made -> (sums = made["sums"], counts = made["counts"]), made)
end
