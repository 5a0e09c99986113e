# Models and data sets of the Hugging Face hub by name, and the cache that has them.

"""
    pull(name; task = nothing, ...)

Loads the files of `"org/name"`, `"org/name@revision"` or `"org/name:file"` into the cache, unless they are there. Returns the
path that `Generator`, `Model` and `Tokenizer` take. The progress of the task counts bytes. A pull that ends early keeps its
bytes, and the next one goes on with them. HF_ENDPOINT, HF_TOKEN and HF_HUB_CACHE of `ENV` count.

Throws a `DLLMError`: `:not_found` for a name that the hub does not have, `:permission_denied`, `:unauthenticated`,
`:resource_exhausted` for a full disk, `:unavailable` without a network, `:cancelled`. Keywords:

$(KEYWORDS.hub)"""
pull(name::AbstractString; task = nothing, settings...) =
    with_options(opts -> text(C.dllm_hub_pull, name, opts, maybe(task)), "hub", settings)

"""
    hub_describe(name; task = nothing, ...)

Asks the hub what `pull` would load, and loads nothing. A `Dict` of `name`, `commit`, `path`, `bytes`, `missing` (bytes that are
not in the cache), `free` (bytes that the disk has left), `memory` (bytes that this process may use) and `files`, each with
`path`, `size`, `cached` and `weights`. Keywords and errors are as in `pull`.
"""
hub_describe(name::AbstractString; task = nothing, settings...) =
    parse_json(with_options(opts -> text(C.dllm_hub_describe, name, opts, maybe(task)), "hub", settings))

"""
    hub_list(; task = nothing)

The repositories in the cache; the network is not used. A list of `Dict`s with `name`, `kind` (`"model"` or `"dataset"`), `bytes`,
`incomplete` (bytes of files whose pull ended early), `used` (seconds since 1970), `path` and `snapshots`, each with `commit`,
`revisions`, `files` (how many there are), `bytes` and `path`.
"""
hub_list(; task = nothing) = parse_json(text(C.dllm_hub_list, maybe(task)))

"""
    hub_verify(name; task = nothing)

Reads every file of a repository in the cache and compares the SHA-256 of large files. A `Dict` of `name`, `files` (how many there
are), `checked` (how many have a SHA-256), `bytes` and `faults`, each with `path` and `what`. Throws `:not_found` for a name that
the cache does not have.
"""
hub_verify(name::AbstractString; task = nothing) = parse_json(text(C.dllm_hub_verify, name, maybe(task)))

"""
    hub_remove(name; task = nothing)

Removes a repository from the cache, or one revision of it for `"org/name@revision"`. Returns the bytes that were freed. Files
that another revision uses stay. Throws `:not_found` for a name that the cache does not have.
"""
hub_remove(name::AbstractString; task = nothing) = parse_json(text(C.dllm_hub_remove, name, maybe(task)))["freed"]
