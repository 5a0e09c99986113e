# Keywords as the library's options.

@managed Options dllm_options_release "Keys and values of one kind; unknown or wrong ones throw when they are set."

function Options(kind::AbstractString, values)
    text = json_of(Dict(string(key) => value for (key, value) in pairs(values) if value !== nothing))
    made = make(Options, C.dllm_options_new, kind)
    try
        call(C.dllm_options_set_json, made, text, sizeof(text))
    catch
        close(made)
        rethrow()
    end
    return made
end

"Every key of options with its effective value."
values_of(options::Options) = parse_json(text(C.dllm_options_to_json, options))

"The keys of a kind of options: name, type, default, range, one sentence. `DLLM.names(:options)` lists the kinds."
schema(kind) = parse_json(text(C.dllm_options_schema, string(kind)))

# f with the options, NULL where every keyword is at its default (nothing).
function with_options(f, kind, settings)
    all(value -> value === nothing, values(settings)) && return f(C_NULL)
    return with(f, Options(kind, settings))
end
