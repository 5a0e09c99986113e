// Package dllm trains and decodes diffusion language models: a layer over the C ABI of libdllm.
//
//	generator, err := dllm.LoadGenerator(ctx, "runs/quickstart")
//	text, err := generator.Generate(ctx, "the cat", dllm.RequestOptions{Length: dllm.Ptr(48)})
//	for piece, err := range generator.Stream(ctx, "the cat").Pieces() { ... }
//
// # The library
//
// The package opens libdllm at run time, with cgo or, where cgo is off or the build tag dllm_purego is set, with
// purego; the functions are the same. It looks at the path given to [Load], the environment variable DLLM_LIBRARY, the folder
// of the executable, the module's folder, build/release/lib of the checkout that the module lies in, and the system's folders, in this order. [Load] returns what is wrong with a library; without it
// the first constructor does.
//
// # Objects
//
// Close releases an object at once; the garbage collector releases what is unreachable. Objects may be closed in any order,
// twice, and while another goroutine is in a call: the call ends as it would have. A method of a closed object returns
// [ErrClosed].
//
// # Errors
//
// Errors are of type [*Error] with a code, a message and a hint: errors.Is(err, dllm.NotFound).
//
// # Contexts
//
// Long calls take a context. When it is done they stop within milliseconds, and the error matches the context's
// (errors.Is(err, context.Canceled)) as well as [Cancelled], or [DeadlineExceeded] after its deadline. A [Task] in the context shows the progress of a call.
//
// # Callbacks
//
// A callback gets an [*Event], valid until it returns. Its error comes out of the call unchanged, [Stop] ends the call without an
// error, and its panic continues in the caller. It must not end its goroutine (runtime.Goexit, t.FailNow): the
// frames of the library lie between it and the call.
//
// # Goroutines
//
// Any goroutine may call a [Generator]: its calls run one after another. What only reads may be called at any time. Methods
// that change another object (Decoder.Step, Trainer.Run, ...) are for one goroutine at a time. Several decoders of one model
// may run together.
package dllm
