package dllm

import (
	"context"
	"encoding/json"
)

// PullPlan is what a pull would load, as [DescribePull] returns it. Sizes are in bytes.
type PullPlan struct {
	Name    string        `json:"name"`    // org/name
	Commit  string        `json:"commit"`  // the commit of its revision
	Path    string        `json:"path"`    // the path that [Pull] will return
	Bytes   int64         `json:"bytes"`   // all files
	Missing int64         `json:"missing"` // what is not in the cache yet
	Free    int64         `json:"free"`    // what the disk has left
	Memory  int64         `json:"memory"`  // what this process may use
	Files   []PlannedFile `json:"files"`   // in the order of the pull
}

// PlannedFile is one file of a [PullPlan].
type PlannedFile struct {
	Path    string `json:"path"`    // its path in the repository
	Size    int64  `json:"size"`    // bytes
	Cached  bool   `json:"cached"`  // it is in the cache already
	Weights bool   `json:"weights"` // it has weights
}

// CachedRepository is a model or a data set of the hub in the cache. Sizes are in bytes.
type CachedRepository struct {
	Name       string           `json:"name"`       // org/name
	Kind       string           `json:"kind"`       // model or dataset
	Bytes      int64            `json:"bytes"`      // all its files
	Incomplete int64            `json:"incomplete"` // bytes of files whose pull ended early
	Used       float64          `json:"used"`       // the time of the last use in seconds since 1970
	Path       string           `json:"path"`       // its folder in the cache
	Snapshots  []CachedSnapshot `json:"snapshots"`  // its commits
}

// CachedSnapshot is one commit of a [CachedRepository].
type CachedSnapshot struct {
	Commit    string   `json:"commit"`    // the commit
	Revisions []string `json:"revisions"` // branches and tags that are this commit
	Files     int64    `json:"files"`     // how many there are
	Bytes     int64    `json:"bytes"`     // all its files
	Path      string   `json:"path"`      // its folder, which [LoadModel] takes
}

// CacheReport is what [VerifyCached] found. A small file has no SHA-256 to compare.
type CacheReport struct {
	Name    string       `json:"name"`    // org/name
	Files   int64        `json:"files"`   // how many files there are
	Checked int64        `json:"checked"` // how many files have a SHA-256
	Bytes   int64        `json:"bytes"`   // what was read
	Faults  []CacheFault `json:"faults"`  // the files whose content is wrong
}

// CacheFault is a file whose content is wrong.
type CacheFault struct {
	Path string `json:"path"` // its path
	What string `json:"what"` // what is wrong, with the numbers
}

// Pull loads the files of a name into the cache, unless they are there, and returns the path that [LoadModel],
// [LoadTokenizer] and [LoadGenerator] take. A name is "org/name", "org/name@revision" or "org/name:file"; options of kind
// "hub". When the context is done, the bytes that have come are kept, and the next pull goes on with them; the progress of a
// [Task] counts bytes. Errors match [NotFound] for a name that the hub does not have, [PermissionDenied],
// [Unauthenticated], [ResourceExhausted] for a full disk and [Unavailable] without a network.
func Pull(ctx context.Context, name string, options ...Option) (string, error) {
	c := begin()
	defer c.end()
	which, settings, task, out := c.text(name), c.settings("hub", options), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_hub_pull(which, settings, task, out, c.errp))
	}
	return string(c.content()), c.err
}

// DescribePull asks the hub what [Pull] would load, and loads nothing. Options and errors are as in [Pull].
func DescribePull(ctx context.Context, name string, options ...Option) (*PullPlan, error) {
	c := begin()
	defer c.end()
	which, settings, task, out := c.text(name), c.settings("hub", options), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_hub_describe(which, settings, task, out, c.errp))
	}
	return decoded[PullPlan](&c)
}

// CachedRepositories lists what the cache of the hub has. It never uses the network.
func CachedRepositories(ctx context.Context) ([]CachedRepository, error) {
	c := begin()
	defer c.end()
	task, out := c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_hub_list(task, out, c.errp))
	}
	found, err := decoded[[]CachedRepository](&c)
	if err != nil {
		return nil, err
	}
	return *found, nil
}

// VerifyCached reads every file of a repository in the cache and compares the SHA-256 of large files. Faults are in the
// report and not an error; [NotFound] is a name that the cache does not have.
func VerifyCached(ctx context.Context, name string) (*CacheReport, error) {
	c := begin()
	defer c.end()
	which, task, out := c.text(name), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_hub_verify(which, task, out, c.errp))
	}
	return decoded[CacheReport](&c)
}

// RemoveCached removes a repository from the cache, or one revision of it for "org/name@revision", and returns the bytes
// that were freed. Files that another revision uses stay. [NotFound] is a name that the cache does not have.
func RemoveCached(ctx context.Context, name string) (freed int64, err error) {
	c := begin()
	defer c.end()
	which, task, out := c.text(name), c.watch(ctx), c.room()
	if c.ok() {
		c.status(dllm_hub_remove(which, task, out, c.errp))
	}
	removal, err := decoded[struct {
		Freed int64 `json:"freed"`
	}](&c)
	if err != nil {
		return 0, err
	}
	return removal.Freed, nil
}

// decoded is what a call wrote as JSON, or the error of the call.
func decoded[T any](c *call) (*T, error) {
	if c.err != nil {
		return nil, c.err
	}
	made := new(T)
	return made, json.Unmarshal(c.content(), made)
}
