module dllm/scenario

go 1.25.0

require dllm v0.0.0

require github.com/ebitengine/purego v0.11.3 // indirect

replace dllm => ../../../bindings/go
