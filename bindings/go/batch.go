package dllm

// Batch is named arrays: token rows, prepared noise, results of a forward pass.
type Batch struct{ resource }

func newBatch(pointer handle) *Batch {
	b := &Batch{}
	b.adopt("batch", pointer, dllm_batch_release)
	return b
}

// NewBatch makes a batch without arrays.
func NewBatch() (*Batch, error) {
	c := begin()
	defer c.end()
	var out handle
	if c.ok() {
		c.status(dllm_batch_new(&out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newBatch(out), nil
}

// NewRows makes a batch with the array ids: rows of tokens, all of one length.
func NewRows(rows ...[]int32) (*Batch, error) {
	var ids []int32
	for _, row := range rows {
		if len(row) != len(rows[0]) {
			return nil, invalid("the rows have different lengths", "pad them with the id of the pad token")
		}
		ids = append(ids, row...)
	}
	b, err := NewBatch()
	if err != nil || len(rows) == 0 {
		return b, err
	}
	if err := SetArray(b, "ids", ids, len(rows), len(rows[0])); err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// SetArray copies an array into the batch; without dims it is one row.
func SetArray[T Number](b *Batch, name string, values []T, dims ...int) error {
	c := begin()
	defer c.end()
	shape, err := dimsOf(len(values), dims)
	if err != nil {
		c.fail(err)
	}
	self, key := c.use(b.object), c.text(name)
	if c.ok() {
		c.status(dllm_batch_set(self, key, int32(dtypeOf[T]()), &shape[0], int64(len(shape)), address(values), c.errp))
	}
	return c.err
}

// Array returns one array.
func (b *Batch) Array(name string) (*Tensor, error) {
	c := begin()
	defer c.end()
	var out handle
	self, key := c.use(b.object), c.text(name)
	if c.ok() {
		c.status(dllm_batch_array(self, key, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTensor(out), nil
}

// ReadArray copies one array, converted to T.
func ReadArray[T Number](b *Batch, name string) ([]T, error) {
	t, err := b.Array(name)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return ReadTensor[T](t)
}

// Names lists the arrays.
func (b *Batch) Names() ([]string, error) {
	c := begin()
	defer c.end()
	self := c.use(b.object)
	if !c.ok() {
		return nil, c.err
	}
	names := make([]string, dllm_batch_count(self))
	for i := range names {
		names[i] = textAt(dllm_batch_name(self, int64(i)))
	}
	return names, nil
}
