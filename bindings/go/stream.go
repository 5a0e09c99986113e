package dllm

import (
	"context"
	"iter"
)

// Piece is what one step added to a text.
type Piece struct {
	Text   string // new final text, may be empty; all of them together are the completion
	Canvas string // the whole text, with <mask:N> for N open positions
	Open   int    // open positions
	Step   int    // denoising steps so far
}

// Stream is a request that is read step by step.
type Stream struct {
	generator *Generator
	ctx       context.Context
	prompt    any
	options   []Option
	last      *Generation
}

// Stream returns a request as [Generator.Add] takes it, for a loop over its pieces.
func (g *Generator) Stream(ctx context.Context, prompt any, options ...Option) *Stream {
	return &Stream{generator: g, ctx: ctx, prompt: prompt, options: options}
}

// Pieces adds the request and yields a piece per step. An error ends the loop. The end of the loop, also an early one,
// removes the request. Between two steps calls of other goroutines may run. The end of the loop does not wait for such a
// call, which then removes the request at its own end.
func (s *Stream) Pieces() iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		s.last = nil
		g := s.generator
		number, err := inTurn(s.ctx, g, s.add)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		defer g.forget(number)
		for s.last == nil || s.last.Finish == "open" {
			piece, err := inTurn(s.ctx, g, func() (Piece, error) { return s.step(number) })
			if !yield(piece, err) || err != nil {
				return
			}
		}
	}
}

func (s *Stream) add() (int, error) {
	return s.generator.add(s.ctx, s.prompt, s.options)
}

func (s *Stream) step(number int) (piece Piece, err error) {
	g := s.generator
	if _, err = g.step(s.ctx); err != nil {
		return piece, err
	}
	if piece.Text, err = g.text(number, "next"); err != nil {
		return piece, err
	}
	if piece.Canvas, err = g.text(number, "canvas"); err != nil {
		return piece, err
	}
	if s.last, err = g.generation(number); err != nil {
		return piece, err
	}
	piece.Open, piece.Step = s.last.Open, s.last.Steps
	return piece, nil
}

// Generation returns the generation after the last piece, nil before the first one. Where the loop was left early its
// Finish is "open".
func (s *Stream) Generation() *Generation { return s.last }
