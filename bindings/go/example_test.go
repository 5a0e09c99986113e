package dllm_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dllm"
)

// The examples have the model of the checkout, and text that it wrote.
var (
	background = context.Background()
	eight      = dllm.RequestOptions{Length: dllm.Ptr(8), Steps: dllm.Ptr(4)}
)

func ExampleLoadGenerator() {
	generator, err := dllm.LoadGenerator(background, stories, dllm.ModelOptions{Dtype: "f32"},
		dllm.GeneratorOptions{Slots: dllm.Ptr(8)}, dllm.Set("engine", dllm.EngineOptions{Threads: dllm.Ptr(1)}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer generator.Close()
	fmt.Println(dllm.Must(generator.Tokenizer()).Len() > 0)
	// Output: true
}

func ExampleGenerator_Generate() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	made := dllm.Must(generator.Generate(background, "Once upon a time", eight))
	fmt.Println(made)
	fmt.Println(made.Whole, made.Finish, made.CompletionTokens)
	// Output:
	// Sam. One day he saw a soft
	// Once upon a time Sam. One day he saw a soft full 8
}

// A model with a chat template takes a conversation.
func ExampleGenerator_Generate_conversation() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	conversation := []dllm.Message{{Role: "user", Content: "Tell me a story."}}
	_, err := generator.Generate(background, conversation)
	fmt.Println("this model has none:", errors.Is(err, dllm.FailedPrecondition))
	template := "{% for m in messages %}{{ m.content }}{% endfor %}"
	made := dllm.Must(generator.Generate(background, conversation, eight, dllm.RequestOptions{Template: template}))
	fmt.Println(made.Finish)
	// Output:
	// this model has none: true
	// full
}

func ExampleGenerator_Infill() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	made := dllm.Must(generator.Infill(background, "Once upon a time there was a<mask:6> and she was happy.",
		dllm.RequestOptions{Steps: dllm.Ptr(6), Seed: dllm.Ptr(1)}))
	fmt.Printf("%s\n%q\n", made, made.Holes)
	// Output:
	// Once upon a time there was a brave girl named Ruth. That and she was happy.
	// [" brave girl named Ruth. That"]
}

func ExampleGenerator_Stream() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	stream := generator.Stream(background, "Once upon a time", eight)
	for piece, err := range stream.Pieces() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(piece.Step, piece.Open)
	}
	fmt.Println(stream.Generation())
	// Output:
	// 1 6
	// 2 4
	// 3 2
	// 4 0
	//  Sam. One day he saw a soft
}

func ExampleGenerator_Batch() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	prompts := dllm.Prompts[any]("The sun", dllm.Infill("a text <mask:no>"), "A cat")
	results, err := generator.Batch(background, prompts, eight)
	for _, result := range results {
		fmt.Println(result.Err == nil)
	}
	fmt.Println(err)
	// Output:
	// true
	// false
	// true
	// <nil>
}

func ExampleGenerator_Generate_stop() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	made := dllm.Must(generator.Generate(background, "Once upon a time",
		dllm.RequestOptions{Length: dllm.Ptr(24), Steps: dllm.Ptr(12), Seed: dllm.Ptr(1), Stop: []string{"shoe"}}))
	fmt.Printf("%q %s\n", made.Whole, made.Finish)
	// Output: "Once upon a time Ella. Ella had a " stop_text
}

func ExampleGenerator_Generate_cancel() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	ctx, cancel := context.WithTimeout(background, time.Nanosecond)
	defer cancel()
	_, err := generator.Generate(ctx, "Once upon a time")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleError() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	_, err := generator.Generate(background, "Once upon a time", dllm.Options{"temprature": 1})
	var problem *dllm.Error
	fmt.Println(errors.As(err, &problem), errors.Is(err, dllm.NotFound), problem.Hint)
	// Output: true true did you mean temperature?
}

func ExampleThresholdPolicy() {
	generator := dllm.Must(dllm.LoadGenerator(background, stories))
	made := dllm.Must(generator.Generate(background, "Tom went to the park",
		dllm.RequestOptions{Length: dllm.Ptr(24)}, dllm.ThresholdPolicy{Threshold: dllm.Ptr(0.6)}))
	fmt.Println(made.Policy, made.Steps < 24)
	// Output: threshold true
}
