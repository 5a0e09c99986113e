// The nine points of ../../run_hub.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dllm"
)

const name = "tester/tiny"

var background = context.Background()

// must ends the program with the first thing that does not hold.
func must(holds bool, format string, arguments ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", arguments...)
		os.Exit(1)
	}
}

func pullWithProgress() string {
	task := dllm.Must(dllm.NewTask())
	path, err := dllm.Pull(dllm.WithTask(background, task), name, dllm.HubOptions{Attempts: dllm.Ptr(2)})
	must(err == nil, "pull: %v", err)
	_, err = os.Stat(filepath.Join(path, "config.json"))
	done, total := task.Progress()
	must(err == nil && done == total && total > 320_000, "%s, %d of %d bytes: %v", path, done, total, err)
	return path
}

func whatTheCacheHas(path string) {
	plan, err := dllm.DescribePull(background, name)
	must(err == nil && plan.Name == name && plan.Missing == 0 && len(plan.Files) == 3, "the plan %+v: %v", plan, err)
	must(plan.Path == path && plan.Files[2].Cached && plan.Files[2].Weights && plan.Free > 0, "the plan %+v", plan)
	all, err := dllm.CachedRepositories(background)
	must(err == nil && len(all) == 1 && all[0].Name == name && all[0].Kind == "model", "the list %+v: %v", all, err)
	one := all[0].Snapshots[0]
	must(one.Files == 3 && one.Revisions[0] == "main" && one.Path == path && all[0].Used > 1e9, "the list %+v", all)
	report, err := dllm.VerifyCached(background, name)
	must(err == nil && report.Files == 3 && report.Checked == 1 && len(report.Faults) == 0, "verify %+v: %v", report, err)
}

func whatFails(path string) {
	_, err := dllm.Pull(background, "tester/tin")
	must(errors.Is(err, dllm.NotFound) && strings.Contains(err.Error(), "the hub has no model tester/tin"), "%v", err)
	offline := dllm.HubOptions{Offline: dllm.Ptr(true)}
	again, err := dllm.Pull(background, name, offline)
	must(err == nil && again == path, "offline: %s %v", again, err)
	_, err = dllm.Pull(background, "tester/none", offline)
	must(err != nil && strings.Contains(err.Error(), "not in the cache"), "offline: %v", err)
	_, err = dllm.Pull(background, name, dllm.Set("endpoint", "http://127.0.0.1:1"))
	must(err != nil && strings.Contains(err.Error(), "endpoint"), "an unknown option: %v", err)
}

func cancel() {
	ctx, stop := context.WithTimeout(background, 500*time.Millisecond)
	defer stop()
	begin := time.Now()
	_, err := dllm.Pull(ctx, "tester/slow")
	must(errors.Is(err, context.DeadlineExceeded) && errors.Is(err, dllm.DeadlineExceeded), "cancelled: %v", err)
	must(time.Since(begin) < 10*time.Second, "the cancelled pull took %v", time.Since(begin))
}

func remove() {
	freed, err := dllm.RemoveCached(background, name)
	must(err == nil && freed > 320_000, "remove: %d bytes, %v", freed, err)
	_, err = dllm.RemoveCached(background, name)
	must(errors.Is(err, dllm.NotFound), "remove again: %v", err)
}

func main() {
	path := pullWithProgress()
	whatTheCacheHas(path)
	whatFails(path)
	cancel()
	remove()
}
