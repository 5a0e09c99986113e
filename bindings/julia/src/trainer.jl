# Train a model.

@managed Trainer dllm_trainer_release """
    Trainer(model, objective; lr, optimizer, ...)

Keywords are the options of kind "trainer".
"""

Trainer(model::Model, objective::Objective; settings...) = with_options("trainer", settings) do opts
    make(Trainer, C.dllm_trainer_new, model, objective, opts)
end

"One optimizer step on a batch, or a matrix of ids; the loss before the update, in nats. Of a decoder: one denoising step."
step!(trainer::Trainer, rows; task = nothing) =
    with_batch(batch -> number(Float64, C.dllm_trainer_step, trainer, batch, maybe(task)), rows)

"Adds the gradients of one batch to the sum, for `apply!`."
accumulate!(trainer::Trainer, rows; task = nothing) =
    with_batch(batch -> call(C.dllm_trainer_accumulate, trainer, batch, maybe(task)), rows)

"Updates with the summed gradients; the mean loss of their batches."
apply!(trainer::Trainer; task = nothing) = number(Float64, C.dllm_trainer_apply, trainer, maybe(task))

"Waits for all steps in flight and a checkpoint that is being written."
sync!(trainer::Trainer) = call(C.dllm_trainer_sync, trainer)

"""
    run!(trainer, loader, steps; task=nothing) do event ... end

Many steps; the callback (which may be left out) gets every event and may return `STOP`. What it throws comes out, the same
object. Other tasks of this thread run between two steps.
"""
run!(callback, trainer::Trainer, loader::Loader, steps::Integer; task = nothing) = run_with(callback, task) do fn, user_data
    C.dllm_trainer_run(trainer, loader, steps, fn, user_data, maybe(task), thread_error())
end
run!(trainer::Trainer, loader::Loader, steps::Integer; task = nothing) = run!(nothing, trainer, loader, steps; task = task)

"The mean loss over batches of a loader in nats, without an update. Throws `:out_of_range` without a batch."
evaluate(trainer::Trainer, loader::Loader, max_batches::Integer = 8; task = nothing) =
    number(Float64, C.dllm_trainer_eval, trainer, loader, max_batches, maybe(task))

"""
    metric(trainer, key)

A number of the last step: step, loss (nats), lr, grad_norm, tokens, tokens_per_second, mfu, memory (bytes), input_wait and
rank_wait (seconds), ... Throws `:not_found`, and the hint names the nearest.
"""
metric(trainer::Trainer, key::AbstractString) = number(Float64, C.dllm_trainer_metric, trainer, key)

"A `Dict` of all metrics with their units, the options, the arrays of the optimizer."
describe(trainer::Trainer) = parse_json(text(C.dllm_trainer_describe, trainer))

"Changes \"lr\", \"weight_decay\" or \"clip\" between steps, also inside a callback."
set!(trainer::Trainer, key::AbstractString, value::Real) = call(C.dllm_trainer_set_f64, trainer, key, value)

"Writes every event to a \"jsonl\" or \"csv\" file, a \"tensorboard\" folder or the \"console\"; options of kind \"sink\"."
add_sink!(trainer::Trainer, kind::AbstractString, target = nothing; settings...) = with_options("sink", settings) do opts
    call(C.dllm_trainer_add_sink, trainer, kind, target === nothing ? C_NULL : target, opts)
end

"The model that is trained (\"live\"), or its moving average as a copy (\"ema\"). Throws `:failed_precondition` without one."
model(trainer::Trainer, role::AbstractString = "live") = make(Model, C.dllm_trainer_model, trainer, role)
