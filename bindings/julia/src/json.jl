# The JSON that crosses the border: options and documents in, descriptions out. Julia's standard library has none.

json(value::Union{AbstractString,Symbol,Char}) = sprint(write_text, string(value))
json(value::Bool) = value ? "true" : "false"
json(value::Union{Nothing,Missing}) = "null"
json(value::Integer) = string(value)
json(value::AbstractFloat) =
    isfinite(value) ? string(Float64(value)) : throw(ArgumentError("JSON cannot hold the number $value"))
json(value::Union{AbstractVector,Tuple}) = "[" * join((json(each) for each in value), ", ") * "]"
json(value::Union{AbstractDict,NamedTuple}) =
    "{" * join((json(string(key)) * ": " * json(each) for (key, each) in pairs(value)), ", ") * "}"
json(value) = throw(ArgumentError("JSON cannot hold a $(typeof(value))"))

# The JSON of a value that a caller gave. place is what the caller calls it; a Dict has the names of its keys.
function json_of(value, place = "")
    found = fault(value, place)
    found === nothing || throw(DLLMError(:invalid_argument, found, ""))
    return json(value)
end

# What JSON cannot hold, with its place.
fault(value, place) = nothing
fault(value::AbstractFloat, place) = isfinite(value) ? nothing :
    string(place, " is ", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity", ": write a finite number")
function fault(value::Union{AbstractString,Symbol,Char}, place)
    for (at, c) in enumerate(string(value))
        isvalid(c) || return string(place, Base.ismalformed(c) ? ": not UTF-8" : ": a lone surrogate", " at character ", at)
    end
    return nothing
end
function fault(values::Union{AbstractVector,Tuple}, place)
    item = place == "messages" ? "message" : isempty(place) ? "item" : "$place, item"
    return first_fault(fault(each, "$item $at") for (at, each) in enumerate(values))
end
fault(values::Union{AbstractDict,NamedTuple}, place) = first_fault(
    something(fault(key, "the name $(repr(string(key)))"), fault(each, isempty(place) ? string(key) : "$place, $key"), Some(nothing))
    for (key, each) in pairs(values))

function first_fault(faults)
    for each in faults
        each === nothing || return each
    end
    return nothing
end

function write_text(io, text)
    print(io, '"')
    for c in text
        c in ('"', '\\') ? print(io, '\\', c) : c < ' ' ? print(io, "\\u", string(Int(c), base = 16, pad = 4)) : print(io, c)
    end
    print(io, '"')
end

mutable struct Reader
    text::String
    at::Int
end

"The value of a JSON text: `Dict{String,Any}`, `Vector{Any}`, `String`, `Int64`, `Float64`, `Bool`, `nothing`."
function parse_json(text::AbstractString)
    reader = Reader(text, 1)
    value = read_value(reader)
    skip_space(reader)
    reader.at > ncodeunits(text) || bad_json(reader)
    return value
end

bad_json(reader) = throw(ArgumentError("not valid JSON at byte $(reader.at) of $(repr(first(reader.text, 60)))"))
byte(reader) = reader.at <= ncodeunits(reader.text) ? Char(codeunit(reader.text, reader.at)) : '\0'

function skip_space(reader)
    while byte(reader) in (' ', '\n', '\t', '\r')
        reader.at += 1
    end
end

function expect(reader, c)
    skip_space(reader)
    byte(reader) == c || bad_json(reader)
    reader.at += 1
end

function read_value(reader)
    skip_space(reader)
    c = byte(reader)
    c == '{' && return read_object(reader)
    c == '[' && return read_list(reader)
    c == '"' && return read_text(reader)
    for (word, value) in (("true", true), ("false", false), ("null", nothing))
        if startswith(SubString(reader.text, reader.at), word)
            reader.at += ncodeunits(word)
            return value
        end
    end
    found = match(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", reader.text, reader.at)
    (found === nothing || found.offset != reader.at) && bad_json(reader)
    reader.at += ncodeunits(found.match)
    return something(tryparse(Int64, found.match), parse(Float64, found.match))
end

function read_list(reader)
    values = Any[]
    expect(reader, '[')
    skip_space(reader)
    byte(reader) == ']' && (reader.at += 1; return values)
    while true
        push!(values, read_value(reader))
        skip_space(reader)
        byte(reader) == ',' || (expect(reader, ']'); return values)
        reader.at += 1
    end
end

function read_object(reader)
    values = Dict{String,Any}()
    expect(reader, '{')
    skip_space(reader)
    byte(reader) == '}' && (reader.at += 1; return values)
    while true
        skip_space(reader)
        key = read_text(reader)
        expect(reader, ':')
        values[key] = read_value(reader)
        skip_space(reader)
        byte(reader) == ',' || (expect(reader, '}'); return values)
        reader.at += 1
    end
end

const ESCAPES = Dict('n' => '\n', 't' => '\t', 'r' => '\r', 'b' => '\b', 'f' => '\f', '"' => '"', '\\' => '\\', '/' => '/')

function read_text(reader)
    expect(reader, '"')
    out = IOBuffer()
    while byte(reader) != '"'
        reader.at > ncodeunits(reader.text) && bad_json(reader)
        c = codeunit(reader.text, reader.at)
        reader.at += 1
        c == UInt8('\\') || (write(out, c); continue)
        escape = byte(reader)
        reader.at += 1
        print(out, escape == 'u' ? read_escaped(reader) : get(() -> bad_json(reader), ESCAPES, escape))
    end
    reader.at += 1
    return String(take!(out))
end

# The character of \uXXXX, or of two of them that are halves of one.
function read_escaped(reader)
    unit = read_unit(reader)
    if 0xd800 <= unit < 0xdc00 && byte(reader) == '\\'
        reader.at += 2
        unit = 0x10000 + ((unit - 0xd800) << 10) + (read_unit(reader) - 0xdc00)
    end
    return Char(unit)
end

function read_unit(reader)
    reader.at + 3 <= ncodeunits(reader.text) || bad_json(reader)
    unit = parse(UInt32, String(codeunits(reader.text)[reader.at:reader.at+3]), base = 16)
    reader.at += 4
    return unit
end
