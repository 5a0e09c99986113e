# Named arrays: token rows, prepared noise, results of a forward pass.

@managed Batch dllm_batch_release """
    Batch(name => values, ...)

Named arrays, `Batch("ids" => Int32[1 2; 3 4])`. `batch["ids"]` is a copy of one, `batch["ids"] = values` copies one in,
`keys(batch)` are the names.
"""

# The element types of the reserved names, for arrays of other integers and floats.
const RESERVED = Dict("ids" => Int32, "targets" => Int32, "weights" => Float32, "segments" => Int32, "positions" => Int32,
    "sample" => UInt8, "keep" => UInt8, "t" => Float32, "flag" => UInt8, "prompt_length" => Int32, "embeddings" => Float32,
    "rows" => Int64)

function Batch(arrays::Pair...)
    made = make(Batch, C.dllm_batch_new)
    for (name, values) in arrays
        made[name] = values
    end
    return made
end

function Base.setindex!(batch::Batch, values::AbstractArray, name::AbstractString)
    converted = haskey(RESERVED, name) ? convert(AbstractArray{RESERVED[name]}, values) : values
    number, dims, elements = row_major(converted)
    call(C.dllm_batch_set, batch, name, number, dims, length(dims), elements)
end

"One array as a `Tensor`."
tensor(batch::Batch, name::AbstractString) = make(Tensor, C.dllm_batch_array, batch, name)

Base.getindex(batch::Batch, name::AbstractString) = with(Array, tensor(batch, name))
Base.length(batch::Batch) = Int(C.dllm_batch_count(batch))
Base.keys(batch::Batch) = [unsafe_string(C.dllm_batch_name(batch, index)) for index in 0:length(batch)-1]
Base.haskey(batch::Batch, name) = name in keys(batch)

# Rows of ids as a batch: f(batch) for a batch, a matrix of ids, or a vector of one row.
with_batch(f, batch::Batch) = f(batch)
with_batch(f, rows::AbstractMatrix{<:Integer}) = with(f, Batch("ids" => rows))
with_batch(f, row::AbstractVector{<:Integer}) = with_batch(f, permutedims(row))
