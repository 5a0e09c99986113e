# Finds libdllm, checks its ABI version, and has what belongs to the whole library.

using Libdl: Libdl, dlext

const FAILURE = Ref("")  # why there is no library, for the first call

# DLLM_LIBRARY alone when it is set, else the folder of the package, a build of the checkout, the system.
function candidates()
    named = get(ENV, "DLLM_LIBRARY", "")
    isempty(named) || return [named]
    folders = (joinpath(@__DIR__, ".."), joinpath(@__DIR__, "..", "..", "..", "build", "release", "lib"))
    names = Sys.isapple() ? ["libdllm.1.dylib", "libdllm.dylib"] : ["libdllm.so.1", "libdllm.so"]
    return vcat(filter(isfile, [normpath(joinpath(folder, name)) for folder in folders for name in names]), names)
end

"""
    DLLM.load(paths...)

Opens libdllm: the first of these paths that can be opened. The package does so when it is loaded (the file that
`DLLM_LIBRARY` names, the folder of the package, `build/release/lib` of its checkout, the system); call it when that failed.
"""
function load(paths::AbstractString...)
    tried = String[]
    for path in paths
        library = try
            Libdl.dlopen(path)
        catch problem
            push!(tried, "  " * sprint(showerror, problem))
            continue
        end
        return bind(library, path)
    end
    error("cannot load libdllm; tried\n", join(tried, "\n"), "\nset DLLM_LIBRARY to the path of libdllm.", dlext)
end

function bind(library, path)
    version = Libdl.dlsym(library, :dllm_abi_version; throw_error = false)
    version === nothing && error("$path is not a libdllm: it has no dllm_abi_version")
    found = ccall(version, Int32, ())
    found == C.ABI || error("$path has ABI $found, this package ABI $(C.ABI); install versions that belong together")
    pointers = [Libdl.dlsym(library, name; throw_error = false) for name in C.NAMES]
    missing_names = C.NAMES[pointers .=== nothing]
    isempty(missing_names) || error("$path is older than this package, it lacks: ", join(missing_names, ", "))
    C.POINTERS .= pointers
    FAILURE[] = ""
    return nothing
end

# A call through a pointer that was never found would end the process.
ready() = isempty(FAILURE[]) || error(FAILURE[])

text_or_nothing(pointer::Cstring) = pointer == C_NULL ? nothing : unsafe_string(pointer)

"The ABI version of the library."
abi_version() = (ready(); Int(C.dllm_abi_version()))

"The semantic version of the library."
version() = (ready(); VersionNumber(unsafe_string(C.dllm_version())))

"How the library was built."
build_info() = (ready(); parse_json(unsafe_string(C.dllm_build_info())))

"Whether this build has a feature: lua, pjrt, openmp, bf16."
has_feature(name) = (ready(); C.dllm_has_feature(string(name)) != 0)

"The names of a table: engine family objective optimizer options policy schedule sink."
function names(kind)
    ready()
    found = String[]
    while (name = text_or_nothing(C.dllm_registry_name(string(kind), length(found)))) !== nothing
        push!(found, name)
    end
    return found
end

const LEVELS = (debug = C.DLLM_LOG_DEBUG, info = C.DLLM_LOG_INFO, warn = C.DLLM_LOG_WARN, error = C.DLLM_LOG_ERROR)
const SINKS = (none = C.DLLM_SINK_NONE, stderr = C.DLLM_SINK_STDERR, queue = C.DLLM_SINK_QUEUE)

"Sends the log of the process to a sink, `:none`, `:stderr` or `:queue` (read by `DLLM.log_lines`), from a level on."
log_to(sink::Symbol, level::Symbol = :info) = (ready(); C.dllm_log_config(LEVELS[level], SINKS[sink]))

"Removes all `(level, line)` from the queue, oldest first."
function log_lines()
    level, lines = Ref{Int32}(0), Tuple{Symbol,String}[]
    with(Buffer()) do line
        while C.dllm_log_next(line, level) != 0
            push!(lines, (keys(LEVELS)[level[]], text_of(line)))
        end
    end
    return lines
end
