// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What happens to pods, and what whoever leads a run sees of it.

// newest is the directory of the last run in the results; empty: there is none.
func (c *cluster) newest() string {
	c.t.Helper()
	runs, err := filepath.Glob(c.path("results", "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	if len(runs) == 0 {
		return ""
	}
	return slices.Max(runs) // names begin with the time
}

// measured waits until the run that was begun last has so many seconds of every worker,
// and returns its directory.
func (c *cluster) measured(seconds int) (dir string) {
	c.t.Helper()
	eventually(c.t, time.Minute, "the run's journals", func() error {
		if dir = c.newest(); dir == c.before {
			return fmt.Errorf("there is no run after %q", dir)
		}
		journals, err := filepath.Glob(filepath.Join(dir, "*", "seconds.csv"))
		if err != nil || len(journals) == 0 {
			return fmt.Errorf("no journals (%v)", err)
		}
		for _, j := range journals {
			content, err := os.ReadFile(j)
			if n := strings.Count(string(content), "\n") - 1; err != nil || n < seconds {
				return fmt.Errorf("%s has %d seconds (%v)", j, n, err)
			}
		}
		return nil
	})
	return dir
}

// status is what the workers say, by name, and the exit code.
func (c *cluster) status() (states map[string]string, r result) {
	c.t.Helper()
	r = c.kvbench(append([]string{"status", "--json"}, fleet...)...)
	var rows []struct{ Name, State string }
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		c.t.Fatalf("status: exit code %d: %v\n%s\n%s", r.code, err, r.stdout, r.stderr)
	}
	states = make(map[string]string)
	for _, row := range rows {
		states[row.Name] = row.State
	}
	return states, r
}

// playground disturbs the cluster that is tested.
func (c *cluster) playground(args ...string) {
	c.t.Helper()
	c.kubectl(append([]string{"-n", namespace, "exec", "playground-0", "--", "/kvbench", "playground", "ctl"}, args...)...)
}

func (c *cluster) delete(pod string, flags ...string) {
	c.t.Helper()
	c.kubectl(append([]string{"-n", namespace, "delete", "pod", pod}, flags...)...)
}

var atOnce = []string{"--force", "--grace-period=0"}

func (c *cluster) scale(replicas int) {
	c.t.Helper()
	c.kubectl("-n", namespace, "scale", "statefulset/kvbench", fmt.Sprintf("--replicas=%d", replicas))
}

// says checks how a command ended, and what it said.
func (c *cluster) says(r result, code int, words ...string) {
	c.t.Helper()
	for _, w := range words {
		if r.code != code || !strings.Contains(r.stderr, w) {
			c.t.Errorf("exit code %d, want %d and %q:\n%s", r.code, code, w, r.stderr)
			return
		}
	}
}

// A pod that goes while workers prepare ends the run before it began.
func testDeletedWhilePreparing(t *testing.T, c *cluster) {
	for _, store := range []string{"1", "2", "3"} { // so that it lasts
		c.playground("stall", "--id", store, "--for", "30s")
	}
	wait := c.begin(nil, c.flags("run", paced("5s")...)...)
	eventually(t, 20*time.Second, "preparing", func() error {
		if states, _ := c.status(); states["kvbench-1"] != "preparing" {
			return fmt.Errorf("the workers are %v", states)
		}
		return nil
	})
	c.delete("kvbench-1", atOnce...)
	r := wait()
	c.playground("restore")
	c.says(r, 3, "kvbench-1: the connection to it broke")
	c.ready()
	if states, _ := c.status(); states["kvbench-0"] == "preparing" {
		t.Errorf("the workers are left %v", states)
	}
}

// A pod that goes before the start is waited for.
func testDeletedBeforeStart(t *testing.T, c *cluster) {
	c.delete("kvbench-1", "--wait=false")
	r, ran := c.run(append(paced("3s"), "--clients", "3")...)
	if r.WorkersExpected != 3 || r.WorkersFinished != 3 || len(r.WorkersLost) > 0 {
		t.Errorf("exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
}

// Without a node for it, a pod is Pending: verbs act on the others, a run that does not need it
// runs, and one that does waits.
func testCordoned(t *testing.T, c *cluster) {
	nodes := strings.Fields(c.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
	c.kubectl(append([]string{"cordon"}, nodes...)...)
	uncordon := func() { c.kubectl(append([]string{"uncordon"}, nodes...)...) }
	t.Cleanup(uncordon)
	c.delete("kvbench-2", atOnce...)
	eventually(t, 20*time.Second, "Pending", func() error {
		phase, _ := c.try("-n", namespace, "get", "pod", "kvbench-2", "-o", "jsonpath={.status.phase}{.status.conditions[0].reason}")
		if phase != "PendingUnschedulable" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	waits := c.begin(nil, c.flags("run", append(paced("3s"), "--clients", "3", "--quiet=false")...)...)

	states, status := c.status()
	c.says(status, 4, "1 of 3 workers had no part in this", "kvbench-2: its pod was not ready: Unschedulable")
	if len(states) != 3 || states["kvbench-2"] != "unreachable" {
		t.Errorf("the workers are %v", states)
	}
	two := c.begin(nil, c.flags("run", append(paced("30s"), "--clients", "2")...)...)
	run := filepath.Base(c.measured(2))
	c.says(c.kvbench(append([]string{"target", "900"}, fleet...)...), 4, "900 operations a second", "kvbench-2")
	c.says(c.kvbench(append([]string{"stop", run}, fleet...)...), 4, "stopped on 2 workers", "kvbench-2")
	if ran := two(); ran.took > 25*time.Second {
		t.Errorf("the run was not stopped: it took %v, exit code %d\n%s", ran.took, ran.code, ran.stderr)
	}
	uncordon()
	ran := waits()
	c.says(ran, ran.code, "waiting up to a minute", "kvbench-2: Unschedulable")
	if r := parse(t, ran); r.WorkersFinished != 3 || len(r.WorkersLost) > 0 {
		t.Errorf("the run that waited: exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
}

// More pods change nothing for a run; fewer are lost workers.
func testScaled(t *testing.T, c *cluster) {
	wait := c.begin(nil, c.flags("run", paced("15s")...)...)
	c.measured(2)
	c.scale(4)
	c.ready()
	c.scale(2)
	ran := wait()
	r := parse(t, ran)
	if ran.code != 4 || r.WorkersExpected != 3 || len(r.WorkersLost) != 1 || r.WorkersLost[0].Name != "kvbench-2" {
		t.Errorf("exit code %d, %+v\n%s", ran.code, r, ran.stderr)
	}
	c.kubectl("-n", namespace, "wait", "--for=delete", "pod/kvbench-2", "pod/kvbench-3", "--timeout=60s")
	few := c.kvbench(c.flags("run", append(paced("3s"), "--clients", "3")...)...)
	c.says(few, 3, "3 workers are wanted (--clients, NUM_CLIENTS), 2 are there")
	if few.took > 15*time.Second {
		t.Errorf("it took %v to say that pods are too few", few.took)
	}
	c.scale(3)
	c.ready()
}

// What a pod that is not there has measured is collected when it is back.
func testDeletedWhileCollecting(t *testing.T, c *cluster) {
	if c.kubectl("-n", namespace, "get", "pvc", "-o", "name") == "" {
		t.Skip("SKIPPED: the workers have no volumes, so their journals go with them")
	}
	detached := c.kvbench("run", "--out", c.path("results"), "--kube", "-n", namespace, "--pd", pd, "-p", fmt.Sprint("recordcount=", records),
		"--threads", "16", "--quiet", "--target", "300", "--duration", "3s", "--detach")
	_, text, ok := strings.Cut(detached.stderr, "kvbench collect ")
	if !ok {
		t.Fatalf("exit code %d\n%s", detached.code, detached.stderr)
	}
	run := strings.Fields(text)[0]
	eventually(t, 30*time.Second, "the end of the run", func() error {
		for name, state := range first(c.status()) {
			if state != "finished" {
				return fmt.Errorf("%s is %s", name, state)
			}
		}
		return nil
	})
	collect := append([]string{"collect", run, "--json", "--out", c.path("elsewhere")}, fleet...)
	c.delete("kvbench-1", append(atOnce, "--wait=false")...)
	c.says(c.kvbench(collect...), 4, "kvbench-1")
	c.ready()
	r := c.kvbench(collect...)
	if after := parse(t, r); after.WorkersFinished != 3 || len(after.WorkersLost) > 0 {
		t.Errorf("exit code %d, %+v\n%s", r.code, after, r.stderr)
	}
}

func first[A, B any](a A, _ B) A { return a }
