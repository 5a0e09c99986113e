# The devices and threads that compute.

@managed Engine dllm_engine_release """
    Engine(; threads, memory_limit, ...)

Owns threads and memory; models live on one. Keywords are the options of kind "engine".
"""

Engine(; settings...) = with_options(opts -> make(Engine, C.dllm_engine_new, opts), "engine", settings)

const DEFAULT = Ref{Union{Nothing,Engine}}(nothing)
const DEFAULT_LOCK = ReentrantLock()

"The engine of models that are made without one; made once."
default_engine() = lock(DEFAULT_LOCK) do
    engine = DEFAULT[]
    engine !== nothing && isopen(engine) && return engine
    return DEFAULT[] = Engine()
end

"The names of its devices, such as \"cpu:0\"."
devices(engine::Engine) =
    [unsafe_string(C.dllm_engine_device_name(engine, index)) for index in 0:C.dllm_engine_device_count(engine)-1]

"A `Dict` of kind, devices, threads, simd, arithmetic, product_kernel and memory (used, peak, limit, in bytes)."
describe(engine::Engine) = parse_json(text(C.dllm_engine_describe, engine))

"A number: `engine[\"memory_used\"]`; `engine[\"threads\"] = 2` changes one."
Base.getindex(engine::Engine, key::AbstractString) = number(Int64, C.dllm_engine_i64, engine, key)
Base.setindex!(engine::Engine, value::Integer, key::AbstractString) = call(C.dllm_engine_set_i64, engine, key, value)

"What a job on a model needs, as text of the chosen format (default JSON); options of kind \"plan\"."
plan(engine::Engine, path::AbstractString; task = nothing, settings...) = with_options("plan", settings) do opts
    text(C.dllm_engine_plan, engine, path, opts, maybe(task))
end

"Frees memory that is not in use."
trim(engine::Engine) = call(C.dllm_engine_trim, engine)

"PJRT plugins that are found."
plugins() = parse_json(text(C.dllm_plugin_list))

"Loads a PJRT plugin (a path or the name of a platform) and describes it."
describe_plugin(plugin) = parse_json(text(C.dllm_plugin_describe, string(plugin)))
