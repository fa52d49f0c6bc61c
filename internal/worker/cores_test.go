// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store/memory"
)

// withCores gives the process four cores for a test, on whatever machine.
func withCores(t *testing.T) *Cores {
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "4")
	return NewCores()
}

// One core is enough when every run of the process thinks so.
func TestCoresOfAProcess(t *testing.T) {
	c := withCores(t)
	check := func(when string, want int) {
		t.Helper()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%s: %d cores, want %d", when, got, want)
		}
	}
	first, second := new(engine), new(engine)
	c.expect(first, math.Inf(1))
	check("a run has begun", 4)
	c.expect(first, 0.2)
	check("it needs little", 1)
	c.expect(second, math.Inf(1))
	check("another has begun", 4)
	c.expect(second, 0.2)
	check("both need little", 1)
	c.expect(second, 0.7)
	check("one needs more", 4)
	c.leave(second)
	check("that one has ended", 1)
	c.leave(first)
	check("all have ended", 4)
	var none *Cores
	none.expect(first, 0)
	none.leave(first)
	check("nobody asked", 4)
}

// Without a number of the user's the process gets the Go runtime's back, which follows a container's limit.
func TestCoresAreGivenBack(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	c, r := NewCores(), new(engine)
	c.expect(r, 0.2)
	if got := runtime.GOMAXPROCS(0); got != 1 {
		t.Fatalf("%d cores, want 1", got)
	}
	c.leave(r)
	if got := runtime.GOMAXPROCS(0); got != all {
		t.Errorf("%d cores are given back, want %d", got, all)
	}
}

// What a run needs next follows from what it used, and from what it is about to do.
func TestNeed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		target  string
		at      time.Duration // of the interval, a second long
		started int64
		want    float64 // used: 0.1 cores
	}{
		{"unpaced", "0", 0, 1000, math.Inf(1)},
		{"steady", "1000", 10 * time.Second, 1000, 0.1},
		{"less is due", "1000..100@5s", 4 * time.Second, 1000, 0.1},
		{"a step is near", "900@5s,4900", 4 * time.Second, 900, 0.5},
		{"a step is far off", "900@6s,4900", 3 * time.Second, 900, 0.1},
		{"few were started, and many are owed", "4900", 10 * time.Second, 400, 1},
		{"hardly any are due", "1", 10 * time.Second, 0, 0.101},
	} {
		a, err := parseAssignment(request("r", map[string]string{"target": c.target}))
		if err != nil {
			t.Fatal(err)
		}
		r := &engine{assignment: a, target: a.profile}
		iv := &measure.Interval{Start: c.at - time.Second, End: c.at}
		if c.at == 0 {
			iv.Start, iv.End = 0, time.Second
		}
		iv.Warmup.Started[0], iv.Window.Started[1] = c.started/4, c.started-c.started/4
		if got := r.need(iv, 100*time.Millisecond); math.Abs(got-c.want) > 1e-9 && got != c.want {
			t.Errorf("%s: %v cores, want %v", c.what, got, c.want)
		}
	}
}

// A slow run uses one core at a time from its second second on; a new target gives it all
// until it is seen what it takes; in the end the process has what it had.
func TestSlowRunUsesOneCore(t *testing.T) {
	w := newWorker(t, &memory.DB{}, func(c *Config) { c.Cores = withCores(t) })
	prepare(t, w, request("r", map[string]string{"target": "10"}))
	start(t, w, "r")
	wait := func(cores int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); runtime.GOMAXPROCS(0) != cores; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d cores after 20 s, want %d", runtime.GOMAXPROCS(0), cores)
			}
		}
	}
	wait(1)
	if err := w.run.retarget(0, 20); err != nil {
		t.Fatal(err)
	}
	wait(4)
	wait(1)
	w.Close(0)
	wait(4)
}
