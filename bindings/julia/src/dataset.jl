# Documents to train on.

@managed Dataset dllm_dataset_release """
    Dataset(path, tokenizer=nothing)
    Dataset(texts, tokenizer=nothing)

Documents: a path (text, JSON lines, token files, a mixture), or a vector of texts. Without a tokenizer it holds raw text, for
`DLLM.train_tokenizer`. Keywords are the options of kind "dataset".
"""

Dataset(path::AbstractString, tokenizer = nothing; task = nothing, settings...) = with_options("dataset", settings) do opts
    make(Dataset, C.dllm_dataset_open, path, maybe(tokenizer), opts, maybe(task))
end

function Dataset(documents::AbstractVector, tokenizer = nothing; settings...)
    made = with_options(opts -> make(Dataset, C.dllm_dataset_new, maybe(tokenizer), opts), "dataset", settings)
    foreach(document -> add!(made, document), documents)
    return made
end

"Adds one document: a text, or a `Dict` or named tuple as in a line of a JSONL file."
function add!(data::Dataset, document)
    line = json_of(document isa AbstractString ? (text = document,) : document)
    call(C.dllm_dataset_add, data, line, sizeof(line))
end

Base.length(data::Dataset) = Int(C.dllm_dataset_size(data))

"Writes a token file, which batches read their ids from. Options of kind \"save\"; the progress counts bytes."
save(data::Dataset, path::AbstractString; task = nothing, settings...) = with_options("save", settings) do opts
    call(C.dllm_dataset_save, data, path, opts, maybe(task))
end

"""
Appends the trajectories of the rows that the file lacks, and returns their number; `teacher` is `nothing` for method
"left_to_right". Options of kind "trajectories"; the progress counts rows.
"""
function extract_trajectories!(data::Dataset, teacher, path::AbstractString; task = nothing, settings...)
    rows = Ref{Int64}(0)
    with_options("trajectories", settings) do opts
        call(C.dllm_dataset_extract_trajectories, data, maybe(teacher), path, opts, maybe(task), rows)
    end
    return Int(rows[])
end
