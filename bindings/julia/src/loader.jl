# Batches of a dataset, in a reproducible order.

@managed Loader dllm_loader_release """
    Loader(data; batch, length, epochs, ...)

An iterator of batches, `for batch in loader`. Keywords are the options of kind "loader".
"""

Loader(data::Dataset; settings...) = with_options(opts -> make(Loader, C.dllm_loader_new, data, opts), "loader", settings)

"The next batch, `nothing` at the end of the data."
function next!(loader::Loader)
    try
        return make(Batch, C.dllm_loader_next, loader)
    catch problem
        problem isa DLLMError && problem.code === :out_of_range && return nothing
        rethrow()
    end
end

function Base.iterate(loader::Loader, _ = nothing)
    batch = next!(loader)
    return batch === nothing ? nothing : (batch, nothing)
end
Base.IteratorSize(::Type{Loader}) = Base.SizeUnknown()
Base.eltype(::Type{Loader}) = Batch

"Rows read since the start; `seek` moves there."
Base.position(loader::Loader) = C.dllm_loader_position(loader)
Base.seek(loader::Loader, place::Integer) = call(C.dllm_loader_seek, loader, place)

"""
Writes what a teacher computes from the rows of one epoch to a folder, and returns the number of new chunks. Options of
kind "anchors"; the progress counts rows.
"""
function write_anchors!(loader::Loader, teacher, path::AbstractString; task = nothing, settings...)
    chunks = Ref{Int64}(0)
    with_options("anchors", settings) do opts
        call(C.dllm_loader_write_anchors, loader, teacher, path, opts, maybe(task), chunks)
    end
    return Int(chunks[])
end
