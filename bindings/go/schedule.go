package dllm

// Schedule is how much is masked at time t, and the weight of the loss.
type Schedule struct{ resource }

func newSchedule(pointer handle) *Schedule {
	s := &Schedule{}
	s.adopt("schedule", pointer, dllm_schedule_release)
	return s
}

// kindOf is the kind of options of one entry of a registry: "objective:mdlm".
func kindOf(registry, name string, options []Option) string {
	if len(options) == 0 {
		return registry
	}
	return registry + ":" + name
}

// NewSchedule makes a schedule by name; Names("schedule") lists them.
func NewSchedule(name string, options ...Option) (*Schedule, error) {
	c := begin()
	defer c.end()
	var out handle
	key, settings := c.text(name), c.settings(kindOf("schedule", name, options), options)
	if c.ok() {
		c.status(dllm_schedule_new(key, settings, &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newSchedule(out), nil
}

// ScheduleTable are the points of a schedule; DAlpha and Weight are derived when they are nil.
type ScheduleTable struct {
	T      []float64 // times, from 0 to 1
	Alpha  []float64 // the part that stays at each time
	DAlpha []float64 // its derivative
	Weight []float64 // the weight of the loss
}

// NewScheduleTable makes a schedule of points.
func NewScheduleTable(table ScheduleTable) (*Schedule, error) {
	c := begin()
	defer c.end()
	var out handle
	for _, column := range [][]float64{table.Alpha, table.DAlpha, table.Weight} {
		if column != nil && len(column) != len(table.T) {
			c.fail(invalid("the columns of the table have different lengths", ""))
		}
	}
	column := func(values []float64) *float64 { return (*float64)(address(values)) }
	if c.ok() {
		c.status(dllm_schedule_table(column(table.T), column(table.Alpha), column(table.DAlpha), column(table.Weight),
			int64(len(table.T)), &out, c.errp))
	}
	if c.err != nil {
		return nil, c.err
	}
	return newSchedule(out), nil
}

// Eval returns alpha, its derivative and the weight of the loss at some times.
func (s *Schedule) Eval(t ...float64) (ScheduleTable, error) {
	c := begin()
	defer c.end()
	self := c.use(s.object)
	if !c.ok() || len(t) == 0 {
		return ScheduleTable{}, c.err
	}
	n := len(t)
	out := ScheduleTable{t, make([]float64, n), make([]float64, n), make([]float64, n)}
	c.status(dllm_schedule_eval(self, &t[0], int64(n), &out.Alpha[0], &out.DAlpha[0], &out.Weight[0], c.errp))
	return out, c.err
}
