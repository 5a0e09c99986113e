# Files held in memory, to load models and tokenizers from.

@managed Source dllm_source_release """
    Source("config.json" => bytes, "model.safetensors" => bytes, ...)

Takes the place of a folder; the bytes are copied.
"""

function Source(files::Pair...)
    made = make(Source, C.dllm_source_new)
    for (name, data) in files
        add!(made, name, data)
    end
    return made
end

"Adds a file under the name it would have in the folder."
add!(source::Source, name::AbstractString, data::Union{String,Vector{UInt8}}) =
    call(C.dllm_source_add, source, name, data, sizeof(data), 0)
