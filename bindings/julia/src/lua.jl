# Run Lua scripts inside the library.

@managed Lua dllm_lua_release """
    Lua(; sandbox, memory_limit, ...)

A runner with its own Lua state; keywords are the options of kind "lua". `lua["name"] = value` sets a global, to an object of
the library or to any value that JSON has. What a script returns is a vector.
"""

Lua(; settings...) = with_options(opts -> make(Lua, C.dllm_lua_new, opts), "lua", settings)

Base.setindex!(lua::Lua, object::Managed, name::AbstractString) =
    call(C.dllm_lua_set_object, lua, name, noun(object), object)

function Base.setindex!(lua::Lua, value, name::AbstractString)
    data = json_of(value, name)
    call(C.dllm_lua_set_json, lua, name, data, sizeof(data))
end

run_script(f, lua, name, data, task) =
    parse_json(or_empty(text(f, lua, name, data, sizeof(data), maybe(task))))
or_empty(answer) = isempty(answer) ? "[]" : answer

"Runs a text of Lua."
run_text(lua::Lua, code::AbstractString; name = "text", task = nothing) =
    run_script(C.dllm_lua_run_text, lua, name, String(code), task)

"Runs a file of Lua with arguments."
run_file(lua::Lua, path::AbstractString, arguments...; task = nothing) =
    run_script(C.dllm_lua_run_file, lua, path, json_of(arguments, "arguments"), task)

"Calls a global function of Lua; dots reach into tables."
call_function(lua::Lua, name::AbstractString, arguments...; task = nothing) =
    run_script(C.dllm_lua_call, lua, name, json_of(arguments, "arguments"), task)
