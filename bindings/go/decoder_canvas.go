package dllm

// readAll calls a function that copies into room, and once more where that was too small: a canvas may grow
// meanwhile.
func readAll[T any](c *call, read func(dst *T, room int64, count *int64) int32) []T {
	values := make([]T, 256)
	for c.ok() {
		var count int64
		status := read((*T)(address(values)), int64(len(values)), &count)
		if count > int64(len(values)) && (status == dllmOk || status == dllmOutOfRange) {
			values = make([]T, count)
			continue
		}
		c.status(status)
		return values[:min(count, int64(len(values)))]
	}
	return nil
}

// IDs is the canvas: prompt and answer, the mask id where a position is open. Any goroutine may read it at any time.
func (d *Decoder) IDs(slot int) ([]int32, error) {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	ids := readAll(&c, func(dst *int32, room int64, count *int64) int32 {
		return dllm_decoder_ids(self, int64(slot), dst, room, count, c.errp)
	})
	return ids, c.err
}

// States is what every position is: Masked, Provisional, Final or Fixed.
func (d *Decoder) States(slot int) ([]State, error) {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	states := readAll(&c, func(dst *State, room int64, count *int64) int32 {
		return dllm_decoder_states(self, int64(slot), (*byte)(dst), room, count, c.errp)
	})
	return states, c.err
}

// Confidence is the probability of every position's token.
func (d *Decoder) Confidence(slot int) ([]float32, error) {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	confidence := readAll(&c, func(dst *float32, room int64, count *int64) int32 {
		return dllm_decoder_confidence(self, int64(slot), dst, room, count, c.errp)
	})
	return confidence, c.err
}
