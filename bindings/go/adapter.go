package dllm

import "context"

// DefaultAdapter is the name that dllm train and the other languages give an adapter without a name.
const DefaultAdapter = "default"

// Teacher is the name of the part that an objective reads with teacher = model.
const Teacher = "teacher"

// Adapter is a LoRA adapter of a model, as [Model.Adapters] lists it.
type Adapter struct {
	Name    string  `json:"name"`    // its name in the model
	Kind    string  `json:"kind"`    // what it adds to a matrix: lora, dora, ia3
	Rank    int     `json:"rank"`    // rows of A and columns of B, unless a pattern of its file sets another one
	Alpha   float64 `json:"alpha"`   // numerator of the factor, which is Alpha / Rank
	Rslora  bool    `json:"rslora"`  // whether the factor is Alpha / sqrt(Rank)
	Dora    bool    `json:"dora"`    // whether the rows have trained lengths
	Dropout float64 `json:"dropout"` // part of the inputs that training drops
	// modules that the adapter has as copies
	ModulesToSave []string `json:"modules_to_save"`

	Scale   float64 `json:"scale"`   // number of [Model.SetAdapterScale]; 1: as it was trained
	Modules int     `json:"modules"` // matrices of the base with this adapter
	Params  int64   `json:"params"`  // numbers of A, of B and of lengths
	Bytes   int64   `json:"bytes"`   // bytes of memory of its numbers
}

// AddAdapter adds a LoRA adapter, which changes no result until it is trained; options of kind "adapter": [AdapterOptions].
// A trainer that is made afterwards trains the adapters alone; make an older one again. A name has letters, digits, _ and -.
// Errors match [AlreadyExists] for a name that the model has, [NotFound] for targets that name no matrix, and
// [Unimplemented] for targets like the head. They match [InvalidArgument] for layers that the model lacks and for other
// characters in a name, and [ResourceExhausted] without memory. A call that fails changes nothing.
func (m *Model) AddAdapter(ctx context.Context, name string, options ...Option) error {
	c := begin()
	defer c.end()
	self, key, settings, task := c.use(m.object), c.text(name), c.settings("adapter", options), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_add_adapter(self, key, settings, task, c.errp))
	}
	return c.err
}

// LoadAdapter adds an adapter from a folder that PEFT or [Model.SaveAdapter] wrote. The progress of a [Task] counts bytes.
// Errors match [AlreadyExists] for a name that the model has, [NotFound] for a missing file or matrix, and [InvalidArgument]
// for other shapes. They match [Unimplemented] for an adapter that is not LoRA, and [DataLoss] for a damaged file. A call
// that fails changes nothing.
func (m *Model) LoadAdapter(ctx context.Context, path, name string) error {
	c := begin()
	defer c.end()
	self, where, key, task := c.use(m.object), c.text(path), c.text(name), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_load_adapter(self, where, key, task, c.errp))
	}
	return c.err
}

// SaveAdapter writes an adapter as a folder that PEFT and [Model.LoadAdapter] read, complete or not at all. The progress of
// a [Task] counts bytes. Errors match [NotFound] for an unknown name, [AlreadyExists] when something is at the path,
// [PermissionDenied], and [ResourceExhausted] for a full disk.
func (m *Model) SaveAdapter(ctx context.Context, path, name string) error {
	c := begin()
	defer c.end()
	self, where, key, task := c.use(m.object), c.text(path), c.text(name), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_save_adapter(self, where, key, task, c.errp))
	}
	return c.err
}

// MergeAdapter adds the product of an adapter to the weights, which keep their format, and removes the adapter. Errors match
// [NotFound] for an unknown name and [InvalidArgument] for a sum that is not finite. They match [OutOfRange] for a sum that
// the format of the weight makes infinite, and [ResourceExhausted] without memory.
func (m *Model) MergeAdapter(ctx context.Context, name string) error {
	c := begin()
	defer c.end()
	key := c.text(name)
	c.mergeAdapter(ctx, m, key)
	return c.err
}

// MergeAdapters merges every adapter, in the order in which they were added. It fails as [Model.MergeAdapter] does; the
// adapter at which it failed is unchanged.
func (m *Model) MergeAdapters(ctx context.Context) error {
	c := begin()
	defer c.end()
	c.mergeAdapter(ctx, m, nil)
	return c.err
}

// mergeAdapter merges the adapter of a name, or every adapter for NULL.
func (c *call) mergeAdapter(ctx context.Context, m *Model, name *byte) {
	self, task := c.use(m.object), c.watch(ctx)
	if c.ok() {
		c.status(dllm_model_merge_adapter(self, name, task, c.errp))
	}
}

// RemoveAdapter removes an adapter and frees its memory. [NotFound] is an unknown name; the hint has the names.
func (m *Model) RemoveAdapter(name string) error {
	c := begin()
	defer c.end()
	self, key := c.use(m.object), c.text(name)
	if c.ok() {
		c.status(dllm_model_remove_adapter(self, key, c.errp))
	}
	return c.err
}

// AddNetwork adds the network of another model of the engine as a part that losses can read, such as a [Teacher]. Its arrays
// are shared, and no trainer of m trains it. Errors match [AlreadyExists] for a name that is taken, and [InvalidArgument]
// for a model of another engine.
func (m *Model) AddNetwork(other *Model, name string) error {
	c := begin()
	defer c.end()
	self, key, network := c.use(m.object), c.text(name), c.use(other.object)
	if c.ok() {
		c.status(dllm_model_add_network(self, network, key, c.errp))
	}
	return c.err
}

// RemoveNetwork removes such a part. [NotFound] is an unknown name; the hint has the names.
func (m *Model) RemoveNetwork(name string) error {
	c := begin()
	defer c.end()
	self, key := c.use(m.object), c.text(name)
	if c.ok() {
		c.status(dllm_model_remove_network(self, key, c.errp))
	}
	return c.err
}

// SetAdapterScale multiplies the product of an adapter by scale from now on, which is -1e9 to 1e9; 0: the adapter is off, 1:
// as it was trained. Errors match [NotFound] for an unknown name and [InvalidArgument] for another number.
func (m *Model) SetAdapterScale(name string, scale float64) error {
	c := begin()
	defer c.end()
	self, key := c.use(m.object), c.text(name)
	if c.ok() {
		c.status(dllm_model_set_adapter_scale(self, key, scale, c.errp))
	}
	return c.err
}

// Adapters lists the adapters in the order in which they were added; an empty list for a model without one.
func (m *Model) Adapters() ([]Adapter, error) {
	c := begin()
	defer c.end()
	self, out := c.use(m.object), c.room()
	if c.ok() {
		c.status(dllm_model_adapters(self, out, c.errp))
	}
	found, err := decoded[[]Adapter](&c)
	if err != nil {
		return nil, err
	}
	return *found, nil
}
