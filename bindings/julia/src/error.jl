# What a call that failed throws.

"""
A failed call: `code` is the status as a symbol (`:not_found`, `:cancelled`, ...), `message` one line with the thing and the
numbers, `hint` what to try, or "".
"""
struct DLLMError <: Exception
    code::Symbol
    message::String
    hint::String
end

"An object was used after `close`."
struct ClosedError <: Exception
    noun::String
end

Base.showerror(io::IO, problem::DLLMError) =
    print(io, "DLLMError(", problem.code, "): ", problem.message, isempty(problem.hint) ? "" : "\n" * problem.hint)
Base.showerror(io::IO, problem::ClosedError) = print(io, "ClosedError: this ", problem.noun, " is closed")

const ERRORS = Ptr{Cvoid}[]  # one dllm_error per thread, released when Julia ends

function thread_error()
    place = Threads.threadid()
    ERRORS[place] == C_NULL && (ready(); ERRORS[place] = C.dllm_error_new())
    return ERRORS[place]
end

function release_errors()
    foreach(C.dllm_error_release, ERRORS)
    fill!(ERRORS, C_NULL)
end

"The symbol of a status."
code_of(status) = Symbol(unsafe_string(C.dllm_status_name(status)))

# Throws for a status other than 0 that a call with thread_error() just returned. Nothing in between switches tasks.
check(status) = status == C.DLLM_OK ? nothing : throw(error_of(status))

function error_of(status)
    code, pointer = code_of(status), thread_error()
    C.dllm_error_code(pointer) == status || return DLLMError(code, string(code), "")
    return DLLMError(code, unsafe_string(C.dllm_error_message(pointer)), unsafe_string(C.dllm_error_hint(pointer)))
end
