# Text to ids and back.

@managed Tokenizer dllm_tokenizer_release """
    Tokenizer(path; task = nothing)
    Tokenizer(source)

A tokenizer.json, a folder that holds one, a run, a GGUF file; `DLLM.train_tokenizer` makes one. Keywords are the options of
kind "tokenizer".
"""

Tokenizer(path::AbstractString; task = nothing, settings...) = with_options("tokenizer", settings) do opts
    make(Tokenizer, C.dllm_tokenizer_load_task, path, opts, maybe(task))
end
Tokenizer(source::Source; settings...) =
    with_options(opts -> make(Tokenizer, C.dllm_tokenizer_load_source, source, opts), "tokenizer", settings)

"A byte-level BPE tokenizer of a dataset without a tokenizer; options of kind \"tokenizer_train\"."
train_tokenizer(texts; task = nothing, settings...) = with_options("tokenizer_train", settings) do opts
    make(Tokenizer, C.dllm_tokenizer_train, texts, opts, maybe(task))
end

"Writes tokenizer.json into a folder, or to this file. Throws `:already_exists` for a file of another program."
save(tokenizer::Tokenizer, path::AbstractString) = call(C.dllm_tokenizer_save, tokenizer, path)

"The size of the vocabulary."
Base.length(tokenizer::Tokenizer) = Int(C.dllm_tokenizer_size(tokenizer))

"The id of a token by its text, or of \"mask\", \"bos\", \"eos\", \"pad\". Ids begin at 0."
id(tokenizer::Tokenizer, name::AbstractString) = number(Int32, C.dllm_tokenizer_id, tokenizer, name)

"The ids of a text; a `task` can cancel it."
function encode(tokenizer::Tokenizer, text::AbstractString; task = nothing)
    data = String(text)
    task === nothing &&
        return array(Int32, sizeof(data) + 8, C.dllm_tokenizer_encode, tokenizer, data, sizeof(data))
    row = make(Batch, C.dllm_tokenizer_encode_task, tokenizer, data, sizeof(data), task)
    return with(row -> vec(row["ids"]), row)
end

"The text of ids. Throws `:invalid_argument` for an id that is not in the vocabulary."
function decode(tokenizer::Tokenizer, ids::AbstractVector{<:Integer})
    values = Vector{Int32}(ids)
    return text(C.dllm_tokenizer_decode, tokenizer, values, length(values))
end

"`(text, used)` of as many ids as give whole characters; keep the rest for the next call."
function decode_stream(tokenizer::Tokenizer, ids::AbstractVector{<:Integer})
    values, used = Vector{Int32}(ids), Ref{Int64}(0)
    return with(Buffer()) do out
        call(C.dllm_tokenizer_decode_stream, tokenizer, values, length(values), out, used)
        return (text_of(out), Int(used[]))
    end
end

"`(ids, keep)` of a conversation, a list of `(role = ..., content = ...)`: keep is false for text of the assistant."
function chat(tokenizer::Tokenizer, messages; task = nothing, settings...)
    plain = map(pair -> pair[1] => pair[2] isa Union{AbstractDict,NamedTuple,AbstractVector} ? json_of(pair[2], pair[1]) : pair[2],
        collect(pairs(settings)))
    data = json_of(messages, "messages")
    rows = with_options("chat", Dict(plain)) do opts
        make(Batch, C.dllm_tokenizer_chat_task, tokenizer, data, sizeof(data), opts, maybe(task))
    end
    return with(rows -> (vec(rows["ids"]), vec(rows["keep"]) .!= 0), rows)
end
