module github.com/dllm/dllm/bindings/go/scenario

go 1.25.0

require github.com/dllm/dllm/bindings/go v0.0.0

require github.com/ebitengine/purego v0.11.3 // indirect

replace github.com/dllm/dllm/bindings/go => ../../../bindings/go
