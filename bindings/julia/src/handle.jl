# Objects that own a handle, and the shapes of calls that they share.

"The base of all objects: `close`, `isopen`, `do` blocks. The library keeps parents alive: any order of closing is right."
abstract type Managed end

# Defines the type of a noun. Its constructor takes a pointer that the library just returned.
macro managed(name, release, doc)
    noun = lowercase(string(name))
    return esc(quote
        @doc $doc mutable struct $name <: Managed
            pointer::Ptr{Cvoid}
            $name(pointer::Ptr{Cvoid}) = finalizer(close, new(pointer))
        end
        release(::$name, pointer) = C.$release(pointer)
        noun(::$name) = $noun
        $name(f::Function, arguments...; settings...) = with(f, $name(arguments...; settings...))
    end)
end

"Calls `f(object)` and closes the object."
function with(f, object::Managed)
    try
        return f(object)
    finally
        close(object)
    end
end

"Frees an object now. Again: nothing."
function Base.close(object::Managed)
    pointer, object.pointer = object.pointer, C_NULL
    pointer == C_NULL || release(object, pointer)
    return nothing
end

Base.isopen(object::Managed) = object.pointer != C_NULL
Base.show(io::IO, object::Managed) = print(io, "DLLM.", nameof(typeof(object)), isopen(object) ? "()" : "(closed)")

# Two objects would release one handle.
no_copy(object) = throw(ArgumentError("a $(typeof(object)) cannot be copied: it has a handle; pass the object itself"))
Base.copy(object::Managed) = no_copy(object)
Base.deepcopy_internal(object::Managed, ::IdDict) = no_copy(object)

# ccall keeps the object until the call returns, and a closed one is refused here.
Base.cconvert(::Type{Ptr{Cvoid}}, object::Managed) = object
function Base.unsafe_convert(::Type{Ptr{Cvoid}}, object::Managed)
    isopen(object) || throw(ClosedError(noun(object)))
    return object.pointer
end

maybe(::Nothing) = C_NULL
maybe(object::Managed) = object

# make(Batch, C.dllm_batch_new): a call whose last parameters are `out` and the error.
function make(::Type{T}, f, arguments...) where {T<:Managed}
    ready()
    out = Ref{Ptr{Cvoid}}(C_NULL)
    check(f(arguments..., out, thread_error()))
    return T(out[])
end

call(f, arguments...) = check(f(arguments..., thread_error()))

# A call whose last parameters are one number and the error.
function number(::Type{T}, f, arguments...) where {T}
    out = Ref{T}(0)
    check(f(arguments..., out, thread_error()))
    return out[]
end

# A call that fills (dst, dst_count, out_count, err). The length may change between two calls: it tries until it fits.
function array(::Type{T}, room, f, arguments...) where {T}
    values, count = Vector{T}(undef, room), Ref{Int64}(0)
    while true
        status = f(arguments..., values, length(values), count, thread_error())
        status == C.DLLM_OUT_OF_RANGE && count[] > length(values) || (check(status); break)
        resize!(values, count[])
    end
    return resize!(values, count[])
end

@managed Buffer dllm_buffer_release "Text or bytes that the library wrote."
Buffer() = (ready(); Buffer(C.dllm_buffer_new()))

text_of(buffer::Buffer) = GC.@preserve buffer unsafe_string(C.dllm_buffer_data(buffer), C.dllm_buffer_size(buffer))

# A call whose last parameters are a buffer and the error: its text.
text(f, arguments...) = with(Buffer()) do buffer
    check(f(arguments..., buffer, thread_error()))
    return text_of(buffer)
end
