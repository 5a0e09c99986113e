# Arrays in and out of the library; their elements never change.

# Tensors are row-major, arrays of Julia column-major: the dimensions are reversed on the way, so that x[i, j] is the same.
const DTYPES = Dict{Int32,DataType}(C.DLLM_F32 => Float32, C.DLLM_F64 => Float64, C.DLLM_I32 => Int32, C.DLLM_I64 => Int64,
    C.DLLM_U8 => UInt8, C.DLLM_I8 => Int8, C.DLLM_U32 => UInt32, C.DLLM_F16 => Float16)
const NUMBERS = Dict{DataType,Int32}(type => number for (number, type) in DTYPES)

@managed Tensor dllm_tensor_release """
    Tensor(values::AbstractArray)

A copy of an array, of Float32, Float64, Float16, Int32, Int64, Int8, UInt8 or UInt32. `Array(tensor)` copies it out,
`view(tensor)` is an array that shares its memory.
"""

# (number of the type, dimensions, elements in row-major order)
function row_major(values::AbstractArray{T,N}) where {T,N}
    haskey(NUMBERS, T) || throw(ArgumentError("arrays of $T are not known: convert to one of $(join(keys(NUMBERS), ' '))"))
    return NUMBERS[T], Int64[size(values)...], N < 2 ? Array(values) : permutedims(values, N:-1:1)
end

function Tensor(values::AbstractArray)
    number, dims, elements = row_major(values)
    return make(Tensor, C.dllm_tensor_new, number, dims, length(dims), elements)
end

Base.size(tensor::Tensor) =
    ntuple(axis -> Int(C.dllm_tensor_dim(tensor, axis - 1)), Int(C.dllm_tensor_rank(tensor)))
Base.length(tensor::Tensor) = prod(size(tensor))

"The type of the elements; `nothing` for one that Julia does not have (bf16): read it as Float32 with `Array{Float32}`."
Base.eltype(tensor::Tensor) = get(DTYPES, C.dllm_tensor_dtype(tensor), nothing)

"Elements of a tensor without a copy, read-only. It keeps the tensor; once that is closed, it throws a `ClosedError`."
struct TensorView{T,N,A<:AbstractArray{T,N}} <: AbstractArray{T,N}
    elements::A
    owner::Tensor
end

Base.size(view::TensorView) = size(view.elements)
Base.IndexStyle(::Type{<:TensorView}) = IndexCartesian()
Base.@propagate_inbounds function Base.getindex(view::TensorView{T,N}, index::Vararg{Int,N}) where {T,N}
    isopen(view.owner) || throw(ClosedError("tensor"))
    return view.elements[index...]
end

function Base.view(tensor::Tensor)
    type, dims = eltype(tensor), size(tensor)
    type === nothing && throw(ArgumentError("Julia has no type for these elements: Array{Float32}(tensor) converts them"))
    address = GC.@preserve tensor Ptr{type}(C.dllm_tensor_data(tensor))
    address == C_NULL && prod(dims) > 0 && throw(ArgumentError("the elements are not in host memory: Array(tensor) copies"))
    flat = prod(dims) == 0 ? Array{type}(undef, reverse(dims)) : unsafe_wrap(Array, address, reverse(dims))
    return TensorView(PermutedDimsArray(flat, reverse(ntuple(identity, length(dims)))), tensor)
end

function Base.Array{T}(tensor::Tensor) where {T}
    dims = size(tensor)
    flat = Array{T}(undef, reverse(dims))
    call(C.dllm_tensor_read, tensor, NUMBERS[T], flat, sizeof(flat))
    return length(dims) < 2 ? flat : permutedims(flat, length(dims):-1:1)
end
Base.Array(tensor::Tensor) = Array{something(eltype(tensor), Float32)}(tensor)
