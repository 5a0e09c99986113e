# Load, create, run and save a model.

@managed Model dllm_model_release """
    Model(path; engine)
    Model(source; engine)
    Model(config; engine)

Loads a model folder, a GGUF file, a run, files in memory; of a `Dict` or named tuple, the content of a config.json, it makes
one with random weights. Keywords are the options of kind "model".
"""

Model(path::AbstractString; engine = default_engine(), task = nothing, settings...) = with_options("model", settings) do opts
    make(Model, C.dllm_model_load, engine, path, opts, maybe(task))
end

Model(source::Source; engine = default_engine(), task = nothing, settings...) = with_options("model", settings) do opts
    make(Model, C.dllm_model_load_source, engine, source, opts, maybe(task))
end

function Model(config::Union{AbstractDict,NamedTuple}; engine = default_engine(), task = nothing, settings...)
    data = json_of(config)
    return with_options(opts -> make(Model, C.dllm_model_new, engine, data, sizeof(data), opts, maybe(task)), "model", settings)
end

"""
    save(model, path; task = nothing, ...)

Writes a folder with config.json and safetensors, complete or not at all; the progress counts bytes. Throws `:already_exists`
unless `overwrite` is true, `:resource_exhausted` for a full disk. Options of kind "save".
"""
save(model::Model, path::AbstractString; task = nothing, settings...) = with_options("save", settings) do opts
    call(C.dllm_model_save, model, path, opts, maybe(task))
end

"Writes the weights at `path` in another format to `target`; returns the report. Options of kind \"quantize\"."
quantize(path::AbstractString, target::AbstractString; task = nothing, settings...) =
    with_options("quantize", settings) do opts
        parse_json(text(C.dllm_model_quantize, path, target, opts, maybe(task)))
    end

"The config as a `Dict`."
config(model::Model) = parse_json(text(C.dllm_model_config, model))

"A `Dict` of family, attention, shift, runs, bytes, end_tokens, objective, generation and storage."
describe(model::Model) = parse_json(text(C.dllm_model_describe, model))

"A number: `model[\"vocab\"]`, hidden, layers, max_length, mask_id, params, bytes."
Base.getindex(model::Model, key::AbstractString) = number(Int64, C.dllm_model_i64, model, key)

"The version of the weights; it increases with every change."
version(model::Model) = Int(C.dllm_model_version(model))

"The names of the parameters."
param_names(model::Model) =
    [unsafe_string(C.dllm_model_param_name(model, index)) for index in 0:C.dllm_model_param_count(model)-1]

"A copy of one parameter as a `Tensor`."
param(model::Model, name::AbstractString) = make(Tensor, C.dllm_model_param, model, name)

"Replaces one parameter. Throws `:not_found` for another name, `:invalid_argument` for another shape."
set!(model::Model, name::AbstractString, value::Tensor) = call(C.dllm_model_set_param, model, name, value)
"Replaces one parameter by the elements of an array, in f32."
set!(model::Model, name::AbstractString, value::AbstractArray) =
    with(tensor -> set!(model, name, tensor), Tensor(convert(AbstractArray{Float32}, value)))

"Attaches a tokenizer: every save and checkpoint writes it too."
set!(model::Model, tokenizer::Tokenizer) = call(C.dllm_model_set_tokenizer, model, tokenizer)

"""
    add_adapter!(model, name = "default"; task = nothing, rank, targets, ...)

Adds a LoRA adapter, which changes no result until it is trained. A trainer that is made afterwards trains the adapters alone.
A name has letters, digits, `_` and `-`.

Throws `:already_exists` for a name that the model has, and `:not_found` for targets that name no matrix. It throws
`:unimplemented` for targets like the head, `:invalid_argument` for layers that the model lacks, and `:cancelled`. When it
throws, the model is unchanged. Keywords:

$(KEYWORDS.adapter)"""
add_adapter!(model::Model, name::AbstractString = "default"; task = nothing, settings...) =
    with_options(opts -> call(C.dllm_model_add_adapter, model, name, opts, maybe(task)), "adapter", settings)

"""
    load_adapter!(model, path, name = "default"; task = nothing)

Adds an adapter with the numbers of a folder that PEFT or `save_adapter` wrote; the progress counts bytes.

Throws `:already_exists` for a name that the model has, and `:not_found` for a missing file or matrix. It throws
`:invalid_argument` for other shapes, `:unimplemented` for an adapter that is not LoRA, and `:data_loss` for a damaged file.
When it throws, the model is unchanged.
"""
load_adapter!(model::Model, path::AbstractString, name::AbstractString = "default"; task = nothing) =
    call(C.dllm_model_load_adapter, model, path, name, maybe(task))

"""
    save_adapter(model, path, name = "default"; task = nothing)

Writes an adapter as a folder that PEFT and `load_adapter!` read, complete or not at all; the progress counts bytes. Throws
`:not_found` for an unknown name, `:already_exists` when something is at `path`, `:resource_exhausted` for a full disk.
"""
save_adapter(model::Model, path::AbstractString, name::AbstractString = "default"; task = nothing) =
    call(C.dllm_model_save_adapter, model, path, name, maybe(task))

"""
    merge_adapter!(model, name = nothing; task = nothing)

Adds the product of an adapter to the weights, which keep their format, and removes the adapter; `nothing`: of every adapter,
in the order in which they were added. Throws `:not_found` for an unknown name, `:invalid_argument` for a sum that is not
finite, `:out_of_range` for a sum that the format makes infinite. The adapter at which the call failed is unchanged.
"""
merge_adapter!(model::Model, name::Union{Nothing,AbstractString} = nothing; task = nothing) =
    call(C.dllm_model_merge_adapter, model, name === nothing ? C_NULL : name, maybe(task))

"Removes an adapter and frees its memory. Throws `:not_found`, and the hint has the names."
remove_adapter!(model::Model, name::AbstractString = "default") = call(C.dllm_model_remove_adapter, model, name)

"""
    add_network!(model, other, name = "teacher")

Adds the network of another model of the engine as a part that losses can read. Its arrays are shared, and no trainer of this
model trains it. Throws `:already_exists` for a name that is taken, `:invalid_argument` for a model of another engine.
"""
add_network!(model::Model, other::Model, name::AbstractString = "teacher") =
    call(C.dllm_model_add_network, model, other, name)

"Removes such a part. Throws `:not_found`, and the hint has the names."
remove_network!(model::Model, name::AbstractString = "teacher") = call(C.dllm_model_remove_network, model, name)

"""
    set_adapter_scale!(model, scale, name = "default")

Multiplies the product of an adapter by `scale` from now on. `scale` is -1e9 to 1e9; 0: the adapter is off, 1: as it was
trained. Throws `:not_found` for an unknown name, `:invalid_argument` for another number.
"""
set_adapter_scale!(model::Model, scale::Real, name::AbstractString = "default") =
    call(C.dllm_model_set_adapter_scale, model, name, scale)

"""
    adapters(model)

The adapters in the order in which they were added. A list of `Dict`s with `name`, `kind`, `rank`, `alpha`, `rslora`, `dora`,
`dropout`, `modules_to_save`, `scale`, `modules` (matrices of the base), `params` (numbers of A, of B and of lengths) and `bytes` (memory of these numbers).
"""
adapters(model::Model) = parse_json(text(C.dllm_model_adapters, model))

"""
Runs the model once over a batch, or a matrix of ids (a row each): a batch with logits (rows, positions, vocabulary).
The logits of position i predict token i, also with shift 1, where the state of token i - 1 makes them. `shift = 0` gives the
logits of each token's own state.
"""
forward(model::Model, rows; task = nothing, settings...) = with_options("forward", settings) do opts
    with_batch(batch -> make(Batch, C.dllm_model_forward, model, batch, opts, maybe(task)), rows)
end

function Base.show(io::IO, model::Model)
    isopen(model) || return print(io, "DLLM.Model(closed)")
    about = describe(model)
    print(io, "DLLM.Model(", about["family"], ", ", model["layers"], " layers of ", about["hidden"], ", ",
        model["params"], " parameters)")
end
