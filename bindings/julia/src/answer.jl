# The text of a canvas while it is decided.

@managed Answer dllm_answer_release """
    Answer(tokenizer; begins = length(prompt), stop_texts = ["User:"])

Turns ids and states into text, from any loop that decides a canvas. Keywords are the options of kind "answer". Its option
begin is `begins`, because `begin` is a word of Julia.
"""

function Answer(tokenizer::Tokenizer; begins::Integer = 0, settings...)
    return with_options("answer", merge(Dict{Symbol,Any}(settings), Dict{Symbol,Any}(:begin => begins))) do opts
        make(Answer, C.dllm_answer_new, tokenizer, opts)
    end
end

const ANSWER_ENDS = Dict(C.DLLM_ANSWER_FULL => :full, C.DLLM_ANSWER_END_TOKEN => :end_token,
    C.DLLM_ANSWER_STOP_TEXT => :stop_text)

"Sets the canvas as it is now. `nothing`, or why the answer is over: `:full`, `:end_token`, `:stop_text`."
function update!(answer::Answer, ids::AbstractVector{<:Integer}, states::AbstractVector{<:Integer})
    length(ids) == length(states) || throw(DimensionMismatch("$(length(ids)) ids, $(length(states)) states"))
    tokens, kinds = Vector{Int32}(ids), Vector{UInt8}(states)
    reason = number(Int32, C.dllm_answer_update, answer, tokens, kinds, length(tokens))
    return get(ANSWER_ENDS, reason, nothing)
end

"The text up to the first masked position or the end of the answer."
answer_text(answer::Answer) = text(C.dllm_answer_text, answer)

"The final text that is new since the last call."
next!(answer::Answer) = text(C.dllm_answer_next, answer)

"One text per position of the canvas."
function cells(answer::Answer)
    return with(Buffer()) do out
        ends = array(Int64, 512, C.dllm_answer_cells, answer, out)
        bytes = codeunits(text_of(out))
        return [String(bytes[(i == 1 ? 1 : ends[i-1] + 1):ends[i]]) for i in eachindex(ends)]
    end
end
