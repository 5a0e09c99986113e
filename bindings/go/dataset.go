package dllm

import "context"

// Dataset is documents to train on.
type Dataset struct{ resource }

func newDataset(pointer handle) *Dataset {
	d := &Dataset{}
	d.adopt("dataset", pointer, dllm_dataset_release)
	return d
}

// tokenizer keeps an optional tokenizer open until the end of the call.
func (c *call) tokenizer(given *Tokenizer) handle {
	if given == nil {
		return 0
	}
	return c.use(given.object)
}

// OpenDataset opens text, JSON lines or token files; options of kind "dataset". Without a tokenizer (nil) the dataset is
// raw text.
func OpenDataset(ctx context.Context, path string, tokenizer *Tokenizer, options ...Option) (*Dataset, error) {
	c := begin()
	defer c.end()
	var out handle
	where, with, settings, task := c.text(path), c.tokenizer(tokenizer), c.settings("dataset", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_dataset_open(where, with, settings, task, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newDataset(out), nil
}

// NewDataset makes a dataset without documents, to fill with Add and AddText.
func NewDataset(tokenizer *Tokenizer, options ...Option) (*Dataset, error) {
	c := begin()
	defer c.end()
	var out handle
	with, settings := c.tokenizer(tokenizer), c.settings("dataset", options)
	if c.ok() {
		c.status(dllm_dataset_new(with, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newDataset(out), nil
}

// Texts makes a dataset of texts.
func Texts(texts []string, tokenizer *Tokenizer, options ...Option) (*Dataset, error) {
	d, err := NewDataset(tokenizer, options...)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if err := d.AddText(text); err != nil {
			_ = d.Close()
			return nil, err
		}
	}
	return d, nil
}

// Add adds a document: a struct or map with the keys of a line of a JSONL file.
func (d *Dataset) Add(document any) error {
	c := begin()
	defer c.end()
	self := c.use(d.object)
	data, size := c.json(document, "")
	if c.ok() {
		c.status(dllm_dataset_add(self, data, size, c.errp))
	}
	return c.err
}

// AddText adds a text.
func (d *Dataset) AddText(text string) error {
	return d.Add(struct {
		Text string `json:"text"`
	}{text})
}

// Len is the number of documents; 0 for a closed dataset.
func (d *Dataset) Len() int {
	if !d.enter() {
		return 0
	}
	defer d.leave()
	return int(dllm_dataset_size(d.pointer))
}

// Save writes a token file; options of kind "save".
func (d *Dataset) Save(ctx context.Context, path string, options ...Option) error {
	c := begin()
	defer c.end()
	self, where, settings, task := c.use(d.object), c.text(path), c.settings("save", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_dataset_save(self, where, settings, task, c.errp))
	}
	return c.err
}

// ExtractTrajectories appends the trajectories of the rows that the file lacks, and returns their number; options of
// kind "trajectories". The teacher is nil for method left_to_right.
func (d *Dataset) ExtractTrajectories(ctx context.Context, teacher *Model, path string, options ...Option) (int64, error) {
	c := begin()
	defer c.end()
	var rows int64
	var model handle
	if teacher != nil {
		model = c.use(teacher.object)
	}
	self, where, settings, task := c.use(d.object), c.text(path), c.settings("trajectories", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_dataset_extract_trajectories(self, model, where, settings, task, &rows, c.errp))
	}
	return rows, c.err
}
