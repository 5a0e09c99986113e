package dllm

import "fmt"

// Answer is the text of a canvas while it is decided.
type Answer struct{ resource }

// NewAnswer makes an answer without a canvas; options of kind "answer": begin, prompt, end_tokens, stop, stop_texts, stop_pattern.
func NewAnswer(tokenizer *Tokenizer, options ...Option) (*Answer, error) {
	c := begin()
	defer c.end()
	var out handle
	from, settings := c.use(tokenizer.object), c.settings("answer", options)
	if c.ok() {
		c.status(dllm_answer_new(from, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	a := &Answer{}
	a.adopt("answer", out, dllm_answer_release)
	return a, nil
}

// AnswerEnd is why an answer is over.
type AnswerEnd int32

// Why an answer is over. AnswerOpen: it is not over.
const (
	AnswerOpen     AnswerEnd = dllmAnswerOpen
	AnswerFull     AnswerEnd = dllmAnswerFull
	AnswerEndToken AnswerEnd = dllmAnswerEndToken
	AnswerStopText AnswerEnd = dllmAnswerStopText
)

// Update sets the canvas as it is now, as of Decoder.IDs and Decoder.States.
func (a *Answer) Update(ids []int32, states []State) (AnswerEnd, error) {
	c := begin()
	defer c.end()
	var end int32
	self := c.use(a.object)
	if c.ok() && len(ids) != len(states) {
		c.fail(invalid(fmt.Sprintf("%d ids, %d states", len(ids), len(states)), ""))
	}
	if c.ok() {
		c.status(dllm_answer_update(self, (*int32)(address(ids)), (*byte)(address(states)), int64(len(ids)), &end, c.errp))
	}
	return AnswerEnd(end), c.err
}

// Text is the text up to the first masked position or the end of the answer.
func (a *Answer) Text() (string, error) {
	c := begin()
	defer c.end()
	self, out := c.use(a.object), c.room()
	if c.ok() {
		c.status(dllm_answer_text(self, out, c.errp))
	}
	return string(c.content()), c.err
}

// Next returns the final text that is new since the last call.
func (a *Answer) Next() (string, error) {
	c := begin()
	defer c.end()
	self, out := c.use(a.object), c.room()
	if c.ok() {
		c.status(dllm_answer_next(self, out, c.errp))
	}
	return string(c.content()), c.err
}

// Cells returns one text per position of the canvas.
func (a *Answer) Cells() ([]string, error) {
	c := begin()
	defer c.end()
	self, out := c.use(a.object), c.room()
	ends := readAll(&c, func(dst *int64, room int64, count *int64) int32 {
		return dllm_answer_cells(self, out, dst, room, count, c.errp)
	})
	if c.err != nil {
		return nil, c.err
	}
	all, from := string(c.content()), int64(0)
	cells := make([]string, len(ends))
	for i, end := range ends {
		cells[i], from = all[from:end], end
	}
	return cells, nil
}
