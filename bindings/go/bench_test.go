package dllm_test

import (
	"context"
	"testing"

	"dllm"
)

// What a call costs: nothing but the way into the library; a call with an object, a text and a result; a callback.
func BenchmarkABIVersion(b *testing.B) {
	for b.Loop() {
		_, _ = dllm.ABIVersion()
	}
}

func BenchmarkDecoderMetric(b *testing.B) {
	decoder := newDecoder(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decoder.Metric(-1, "open"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecoderIDs(b *testing.B) {
	decoder := newDecoder(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decoder.IDs(0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTaskNewClose(b *testing.B) {
	for b.Loop() {
		task, err := dllm.NewTask()
		if err != nil {
			b.Fatal(err)
		}
		_ = task.Close()
	}
}

// A decoder without open positions: the call alone, with a context that may be cancelled.
func BenchmarkStepWithContext(b *testing.B) {
	decoder := newDecoder(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := decoder.Run(ctx, nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := decoder.Step(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
