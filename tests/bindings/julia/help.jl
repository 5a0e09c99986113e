# Help has a text for everything that a program calls: types, and functions with each of the nouns that they take.
using Test
using DLLM

const LEAST = 20  # characters of a text
const DOCS = Base.Docs.meta(DLLM)
# Names that Base has are not exported; they are public too.
const PUBLIC = setdiff(names(DLLM), [:DLLM]) ∪ [:Task, :accumulate!, :build_info, :cancel, :default_engine, :describe_plugin,
    :devices, :has_feature, :iscancelled, :log_lines, :log_to, :names, :plan, :plugins, :progress, :schema, :set_deadline!,
    :train_tokenizer, :trim, :version]

# The nouns of a signature: types of DLLM among its parameters.
function nouns(signature)
    signature isa UnionAll && return nouns(signature.body)
    signature isa Union && return nouns(signature.a)  # the first of the forms with fewer arguments
    return Set(kind for kind in signature.parameters if kind isa DataType && kind <: DLLM.Managed)
end

texts(name) = get(DOCS, Base.Docs.Binding(DLLM, name), nothing)
text_of(doc) = join(string(part) for part in doc.text)

@testset "help" begin
    @test length(PUBLIC) > 70
    missing_texts = String[]
    for name in PUBLIC
        thing = getfield(DLLM, name)
        thing isa Union{Function,Type} || continue
        documented = texts(name)
        if documented === nothing || any(doc -> length(text_of(doc)) < LEAST, values(documented.docs))
            push!(missing_texts, string(name))
            continue
        end
        thing isa Function || continue
        known = [nouns(signature) for signature in keys(documented.docs)]
        for method in methods(thing)
            method.module === DLLM || continue
            signature = Tuple{Base.unwrap_unionall(method.sig).parameters[2:end]...}
            nouns(signature) in known || push!(missing_texts, "$name($(join(nameof.(collect(nouns(signature))), ", ")))")
        end
    end
    @test isempty(unique(missing_texts)) || error("no text: " * join(sort(unique(missing_texts)), " "))
end
