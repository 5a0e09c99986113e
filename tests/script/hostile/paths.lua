No path at level safe, only those below the roots at level files.

--- dataset | error permission_denied level safe reaches no files
dllm.dataset("/etc/passwd")
--- dataset with rows | error permission_denied level safe
dllm.dataset("@IN@/rows.txt", nil, { rows = "line" })
--- tokenizer | error permission_denied level safe
dllm.tokenizer("@IN@")
--- tokenizer save | error permission_denied level safe
dllm.train_tokenizer(dllm.dataset_from { "a b c" }, { vocab_size = 300 }):save("@OUT@/tok")
--- model | error permission_denied level safe
dllm.model("@IN@")
--- model save | error permission_denied level safe
dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }:save("@OUT@/model")
--- checkpoint | error permission_denied level safe
dllm.checkpoint("@IN@")
--- latest checkpoint | error permission_denied level safe
dllm.latest_checkpoint("@IN@")
--- plugin | error permission_denied level safe allows option
dllm.engine { kind = "pjrt", plugin = "/lib/x86_64-linux-gnu/libm.so.6" }
--- plugin without kind | error permission_denied level safe allows option
dllm.engine { plugin = "@IN@/rows.txt" }
--- plugin through options | error permission_denied level safe allows option
dllm.engine(dllm.options("engine", { kind = "pjrt", plugin = "cpu" }))
--- target | error permission_denied level safe allows option
dllm.engine { target = "x" }
--- cache of compiled programs | error permission_denied level safe allows option
dllm.engine { ["pjrt.cache"] = "@OUT@" }
--- compiler flags | error permission_denied level safe allows option
dllm.engine { ["pjrt.flags"] = { "xla_dump_to=@OUT@" } }
--- processes | error permission_denied level safe allows option processes of engine its default alone
dllm.engine { processes = "mpi" }
--- files: processes | error permission_denied level files allows option processes of engine its default alone | level=files
dllm.engine { processes = "mpi" }
--- nothing of the machine | ok ["nil","nil","nil","nil","nil","nil","nil"]
return type(io), type(debug), type(dofile), type(os.execute), type(package.loadlib), type(os.getenv), type(collectgarbage)
--- not through require | error script_failed
require "os.execute"
--- nor through package | ok [false,false]
return package.loaded.io ~= nil, package.loaded["dllm.raw"] ~= nil
--- nor through searchers | error script_failed
for _, search in pairs(package.searchers) do local found = search("@IN@/rows") if type(found) == "function" then found() end end
error "nothing found"
--- trainer root | error permission_denied level safe
model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
dllm.trainer(model, dllm.objective "mdlm", { root = "@OUT@/run" })
--- trainer sink | error permission_denied level safe
model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
dllm.trainer(model, dllm.objective "mdlm"):add_sink("jsonl", "@OUT@/log.jsonl")
--- trainer save | error permission_denied level safe
model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
loader = dllm.loader(dllm.dataset_from({ "a b c" }, dllm.train_tokenizer(dllm.dataset_from { "a b c" }, { vocab_size = 300 })), { length = 8 })
dllm.trainer(model, dllm.objective "mdlm"):save("@OUT@/run", loader)
--- files: a file below a root | ok [2] | level=files
return dllm.dataset("@IN@/rows.txt", nil, { rows = "paragraph" }):size()
--- files: a model in an object store | error permission_denied level files reaches no object stores | level=files
dllm.model("s3://bucket/model")
--- files: a run in an object store | error permission_denied level files reaches no object stores | level=files
model = dllm.new_model { model_type = "llama", vocab_size = 10, hidden_size = 16, intermediate_size = 16, num_hidden_layers = 1,
  num_attention_heads = 1, num_key_value_heads = 1, max_position_embeddings = 16,
  dllm = { attention = "bidirectional", shift = 0, mask_token_id = 9 } }
dllm.trainer(model, dllm.objective "mdlm", { root = "gs://bucket/run" })
--- files: a save below a root | ok [true] | level=files
dllm.train_tokenizer(dllm.dataset_from { "a b c" }, { vocab_size = 300 }):save("@IN@/sub/tok")
return dllm.tokenizer("@IN@/sub/tok"):size() > 0
--- files: outside | error permission_denied level files reaches the host's roots only | level=files
dllm.dataset("@OUT@/secret.txt")
--- files: a part outside | error permission_denied level files | level=files
dllm.dataset("@IN@/rows.txt+@OUT@/secret.txt", nil, { rows = "line" })
--- files: a part outside after rows and times | error permission_denied level files | level=files
dllm.dataset("@IN@/rows.txt[:1]*2+/etc/passwd", nil, { rows = "line" })
--- files: a link out as a part | error permission_denied level files | level=files
dllm.dataset("@IN@/rows.txt+@IN@/link.txt[:1]", nil, { rows = "line" })
--- files: a pattern that finds a link out | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/l*.txt", nil, { rows = "line" })
--- files: a pattern of a folder that is a link out | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/linked/f?lder/secret.txt", nil, { rows = "line" })
--- files: a pattern that ends as a number does | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/l*nk.txt*e", nil, { rows = "line" })
--- files: a pattern in place of times | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/link*-", nil, { rows = "line" })
--- files: two points in place of times | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/link*1.1.1", nil, { rows = "line" })
--- files: a letter in place of times | error permission_denied takes no pattern of paths | level=files
dllm.dataset("@IN@/rows.txt*e", nil, { rows = "line" })
--- files: a path in brackets | error permission_denied takes no path in brackets | level=files
dllm.dataset("@IN@/sub[name:@OUT@,secret:3]", nil, { rows = "line" })
--- files: a link out in brackets | error permission_denied leads out of the roots | level=files
dllm.dataset("@IN@/linked[name:folder,secret:3]", nil, { rows = "line" })
--- files: a part without a name | error permission_denied has no path | level=files
dllm.dataset("@IN@/rows.txt+", nil, { rows = "line" })
--- files: two parts with rows and times | ok [4] | level=files
return dllm.dataset("@IN@/rows.txt[:1]*2+@IN@/rows.txt", nil, { rows = "paragraph" }):size()
--- files: absolute | error permission_denied level files | level=files
dllm.dataset("/etc/passwd")
--- files: dots | error permission_denied takes no ".." | level=files
dllm.dataset("@IN@/../out/secret.txt")
--- files: dots that stay inside | error permission_denied takes no ".." | level=files
dllm.dataset("@IN@/sub/../rows.txt")
--- files: a link out | error permission_denied level files | level=files
dllm.dataset("@IN@/link.txt")
--- files: below a link out | error permission_denied level files | level=files
dllm.dataset("@IN@/linked/folder/secret.txt")
--- files: a new file below a link out | error permission_denied level files | level=files
dllm.train_tokenizer(dllm.dataset_from { "a b c" }, { vocab_size = 300 }):save("@IN@/linked/folder/tok")
--- files: a folder that holds a link out | error permission_denied leads out of the roots | level=files
dllm.dataset("@IN@/linked")
--- files: a checkpoint whose base is outside | error permission_denied which is out of the roots | level=files
dllm.model("@IN@/run_out")
--- files: the tokenizer of such a checkpoint | error permission_denied which is out of the roots | level=files
dllm.tokenizer("@IN@/run_out")
--- files: a checkpoint whose base is in a store | error permission_denied which is out of the roots | level=files
dllm.model("@IN@/run_store")
--- files: a checkpoint whose base is below a root | error failed_precondition the checkpoint refers to | level=files
dllm.model("@IN@/run_in")
--- files: a dangling link | error permission_denied level files | level=files
dllm.train_tokenizer(dllm.dataset_from { "a b c" }, { vocab_size = 300 }):save("@IN@/dangling")
--- files: a name that begins like a root | error permission_denied level files | level=files
dllm.latest_checkpoint("@IN@side")
--- files: a zero byte | error invalid_argument zero bytes | level=files
dllm.dataset("@IN@/rows.txt\0/../../out")
--- files: a plugin below a root | error permission_denied level files allows option | level=files
dllm.engine { kind = "pjrt", plugin = "@IN@/rows.txt" }
--- files: relative to nowhere | error permission_denied level files | level=files
dllm.dataset("rows.txt")
--- files: no io either | ok ["nil"] | level=files
return type(io)
--- an empty path | error permission_denied empty path
dllm.dataset ""
--- an empty path at level files | error permission_denied empty path | level=files
dllm.latest_checkpoint ""
