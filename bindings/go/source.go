package dllm

// Source is files in memory, in the place of a model folder.
type Source struct{ resource }

// NewSource makes a source of files by their names in the folder: config.json, model.safetensors, tokenizer.json.
func NewSource(files map[string][]byte) (*Source, error) {
	c := begin()
	defer c.end()
	var out handle
	if c.ok() {
		c.status(dllm_source_new(&out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	s := &Source{}
	s.adopt("source", out, dllm_source_release)
	for name, data := range files {
		if err := s.Add(name, data); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Add copies a file in.
func (s *Source) Add(name string, data []byte) error {
	c := begin()
	defer c.end()
	self, key := c.use(s.object), c.text(name)
	if c.ok() {
		c.status(dllm_source_add(self, key, address(data), int64(len(data)), 0, c.errp))
	}
	return c.err
}
