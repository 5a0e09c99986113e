# Save a training run, resume it, read its tensors.

"Saves everything needed to resume a run bit for bit; returns the new folder. Options of kind \"checkpoint\"."
save(trainer::Trainer, root::AbstractString; loader = nothing, task = nothing, settings...) =
    with_options("checkpoint", settings) do opts
        text(C.dllm_checkpoint_save, trainer, maybe(loader), root, opts, maybe(task))
    end

"Restores a trainer, its model and a loader to the state of a checkpoint folder."
restore!(trainer::Trainer, folder::AbstractString; loader = nothing, task = nothing) =
    call(C.dllm_checkpoint_restore, trainer, maybe(loader), folder, maybe(task))

"The folder of a run's highest complete checkpoint, `nothing` when there is none; a `task` can cancel it."
function latest(root::AbstractString; task = nothing)
    try
        return text(C.dllm_checkpoint_latest_task, root, maybe(task))
    catch problem
        problem isa DLLMError && problem.code === :not_found && return nothing
        rethrow()
    end
end

@managed Checkpoint dllm_checkpoint_release """
    Checkpoint(path; task = nothing)

Weights that are open for reading: a checkpoint, a model folder, a safetensors, PyTorch or GGUF file.
"""

Checkpoint(path::AbstractString; task = nothing) = make(Checkpoint, C.dllm_checkpoint_open_task, path, maybe(task))

"A `Dict` of kind, path, step, metadata and tensors (name, dtype, shape, bytes)."
describe(checkpoint::Checkpoint) = parse_json(text(C.dllm_checkpoint_describe, checkpoint))
"Reads one tensor; block formats become f32. Throws `:not_found`, and the hint names the nearest."
tensor(checkpoint::Checkpoint, name::AbstractString) = make(Tensor, C.dllm_checkpoint_tensor, checkpoint, name)

"Reads every byte and compares sizes and checksums. Throws `:data_loss` for a bad file; the message names it."
verify(checkpoint::Checkpoint; task = nothing) = call(C.dllm_checkpoint_verify, checkpoint, maybe(task))
